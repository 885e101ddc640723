"""Builds the report on an object, which every output shows and ``openapi.yaml`` describes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.pointers import path_of
from contract.placement import Placement
from webhook.engine.changes import find_changes
from webhook.engine.outcome import Outcome, OutcomeKind, RuleOutcome, RuleState
from webhook.objects.tree import get
from webhook.preview import messages
from webhook.preview.sentence import DryRun, judge
from webhook.rows.policies import Mode
from webhook.rows.table import Rule, Table

MESSAGES: Final = {"denials": "refused", "warnings": "warning", "hints": "hint", "notes": "note"}
"""The keys of a report that have messages, each with the name of its messages in texts for people.

For programs, the key ``messages`` repeats the denials and warnings with their codes.
"""

FACTS: Final = ("shape", "devices", "placer")
"""The facts in the key ``job`` that are texts, except the id."""

_FIELDS: Final = re.compile(r"(?<!\S)[A-Za-z]\w*(?:\.\w+|\[[^\]\s]*\])+")
"""Matches the names of fields in a message, as `field_name` writes them."""


@dataclass(frozen=True)
class Preview:
    """What the webhook would do to one object."""

    report: dict[str, Any]  # the report, which is an item of ``openapi.yaml``
    run: DryRun  # the object and its outcome
    placement: Placement | None  # the placement annotation; None if the object is not placed
    hint_lines: Mapping[str, int]  # the line of each hint, by the text of the hint
    pods: list["Preview"]  # the previews of the object's Pods
    all_rules: bool  # whether the user wants to see rules that did not fire

    @property
    def source(self) -> str:
        """Returns the file and the line of the object."""
        return "{file}:{line}".format(**self.report["source"])

    @property
    def parts(self) -> tuple["Preview", ...]:
        """Returns this preview, and the previews of the Pods."""
        return (self, *self.pods)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """The kind of each message, as in `MESSAGES`, and its text."""
        return ((name, text) for key, name in MESSAGES.items() for text in self.report[key])

    def line_of(self, text: str) -> int:
        """Returns the line of a hint; for another text, of the last field in the text, or of the document."""
        document = self.run.document
        if self.run.share or text in self.hint_lines:
            return self.hint_lines.get(text, document.line)
        return max([document.line, *map(document.line_of, map(path_of, _FIELDS.findall(text)))])


def build_preview(
    run: DryRun,
    notes: Iterable[str],
    hints: Mapping[str, int],
    pods: Iterable[DryRun] | None,
    *,
    all_rules: bool,
) -> Preview:
    """Returns the preview of an object and its Pods. ``hints`` has the line of each hint."""
    table, document, namespace, obj, outcome, stored, *_ = run
    pod_previews = [build_preview(pod, (), {}, None, all_rules=all_rules) for pod in pods or ()]
    verdict, sentence, placement = judge(run)
    names = {key: obj.get(key) for key in ("apiVersion", "kind")}
    names |= {key: get(obj, ("metadata", key)) for key in ("name", "generateName")}
    names = {key: text if isinstance(text, str) else "" for key, text in names.items()}
    facts = outcome.facts
    numbers = {key: int(facts[key]) for key in ("workers", "nodes", "nodeConfig") if key in facts}
    content = {
        "source": {"file": document.source, "line": document.line},
        "operation": "CREATE" if stored is None else "UPDATE",
        "object": {"namespace": namespace, **names},
        "outcome": outcome.kind,
        "verdict": verdict,
        "sentence": sentence,
        "reason": outcome.reason,
        "table": outcome.revision,
        "workload": facts.get("workload"),
        "job": {"id": facts["job"]} | {key: facts[key] for key in FACTS} | numbers if numbers else None,
        "changes": [
            change._asdict() | {"rule": change.rule and _rule_source(table, change.rule, "add")}
            for change in find_changes(obj, outcome.after, outcome.rules_by_path)
        ],
        "rules": list(_rules(table, outcome, all_rules=all_rules)),
        "warnings": list(outcome.warnings),
        "denials": list(outcome.denials),
        "messages": [
            {"severity": severity, "code": message.code, "text": message}
            for severity, messages in (("denial", outcome.denials), ("warning", outcome.warnings))
            for message in messages
        ],
        "patch": list(outcome.operations),
        "policy": facts.get("policy"),
        "shadow": _shadow(outcome),
        "pods": None if pods is None else [_pod_item(pod) for pod in pod_previews],
        "notes": list(notes),
        "hints": list(hints),
    }
    return Preview(content, run, placement, hints, pod_previews, all_rules)


def _pod_item(pod: Preview) -> dict[str, Any]:
    """Returns the report's item for consecutive Pods of a job with the same outcome."""
    share = pod.run.share._asdict() if pod.run.share else {}
    return {**share, "pod": pod.run.object, "preview": pod.report}


def _shadow(outcome: Outcome) -> dict[str, Any] | None:
    """Returns the outcome without shadow mode; None if it is the same, or if the object is refused anyway."""
    if not outcome.enforced or not outcome.shadow:
        return None
    enforced, shadow = outcome.enforced, outcome.shadow
    return {
        "outcome": enforced.kind,
        "rules": list(shadow.rules),
        "refusing": list(shadow.refusing),
        "denials": list(enforced.denials),
        "warnings": list(enforced.warnings),
        "patch": list(enforced.operations),
    }


def _rule_source(table: Table, rule: str, key: str) -> dict[str, Any]:
    """Returns the name of a rule, and the file and line of the row that sets one of its keys."""
    origin = table.find_origin(rule, key)
    return {"name": rule, "source": {"file": origin.file, "line": origin.line} if origin else None}


def _rules(table: Table, outcome: Outcome, *, all_rules: bool) -> Iterator[dict[str, Any]]:
    """Yields outcome and source of each rule for this kind of object; with ``all_rules``, of every rule."""
    outcome_by_rule = {result.name: result for result in outcome.rules}
    is_candidate = outcome.kind_if_unchanged is OutcomeKind.UNCHANGED
    for rule in table.rules:
        rule_result = outcome_by_rule.get(rule.name) or (_not_evaluated(rule, outcome) if all_rules else None)
        if rule_result and (all_rules or rule.match.candidate in {None, is_candidate}):
            condition = "match" if rule.mode is Mode.ENFORCE else "mode"
            key = "add" if rule_result.state is RuleState.FIRED else condition
            yield rule_result._asdict() | _rule_source(table, rule.name, key)


def _not_evaluated(rule: Rule, outcome: Outcome) -> RuleOutcome:
    """Returns the outcome of a rule that was not evaluated, for example because it is for other kinds."""
    reason = outcome.reason
    if outcome.rules and rule.match.fault:
        reason = messages.other_fault(rule.match.fault)
    elif outcome.rules:
        kinds = " or ".join(rule.match.workload)
        reason = messages.other_role(kinds and f"{kinds}, ", rule.match.role, outcome.facts["workload"])
    return RuleOutcome(rule.name, RuleState.SKIPPED, reason)

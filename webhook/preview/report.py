"""The report on an object, which every output shows: ``preview.schema.json`` describes it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.pointers import path_of
from contract.place import Place
from webhook.engine.changes import changes
from webhook.engine.outcome import Outcome, OutcomeKind, RuleOutcome, State
from webhook.objects.tree import get
from webhook.preview.sentence import Seen, judged
from webhook.rows.policies import Mode
from webhook.rows.table import Rule, Table

MESSAGES: Final = {"denials": "refused", "warnings": "warning", "hints": "hint", "notes": "note"}
"""Keys of a report whose texts are messages, and their names in outputs for people.

The key ``messages`` has denials and warnings again, with codes for programs.
"""

FACTS: Final = ("shape", "devices", "placer")
"""The texts of a job in addition to its numbers."""

_NAMED: Final = re.compile(r"(?<!\S)[A-Za-z]\w*(?:\.\w+|\[[^\]\s]*\])+")
"""The names of fields in a message, as `field_name` writes them."""


@dataclass(frozen=True)
class Preview:
    """What the webhook would do to one object.

    Attributes:
        item: The report, as ``preview.schema.json`` describes an item.
        seen: The object and its outcome.
        place: The placement annotation of an object that is placed.
        lines: The lines of hints, by their text.
        pods: The Pods of the object.
        all_rules: Whether the user asked for rules that did not fire.
    """

    item: dict[str, Any]
    seen: Seen
    place: Place | None
    lines: Mapping[str, int]
    pods: list["Preview"]
    all_rules: bool

    @property
    def source(self) -> str:
        """File and line."""
        return "{file}:{line}".format(**self.item["source"])

    @property
    def parts(self) -> tuple["Preview", ...]:
        """The preview itself, and its Pods."""
        return (self, *self.pods)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """Yields the text of each message, after the name of its kind."""
        return ((about, text) for key, about in MESSAGES.items() for text in self.item[key])

    def line_of(self, text: str) -> int:
        """Returns the line of the field that a message names; or the first."""
        document = self.seen.document
        if self.seen.share or text in self.lines:
            return self.lines.get(text, document.line)
        return max([document.line, *map(document.line_of, map(path_of, _NAMED.findall(text)))])


def report(
    seen: Seen,
    notes: Iterable[str],
    hints: Mapping[str, int],
    pods: Iterable[Seen] | None,
    *,
    all_rules: bool,
) -> Preview:
    """Returns the report on an object, with its Pods; hints have their lines."""
    table, document, namespace, obj, outcome, stored, *_ = seen
    made = [report(pod, (), {}, None, all_rules=all_rules) for pod in pods or ()]
    verdict, sentence, place = judged(seen)
    named = {key: obj.get(key) for key in ("apiVersion", "kind")}
    named |= {key: get(obj, ("metadata", key)) for key in ("name", "generateName")}
    named = {key: text if isinstance(text, str) else "" for key, text in named.items()}
    facts = outcome.facts
    numbers = {key: int(facts[key]) for key in ("workers", "nodes", "nodeConfig") if key in facts}
    item = {
        "source": {"file": document.source, "line": document.line},
        "operation": "CREATE" if stored is None else "UPDATE",
        "object": {"namespace": namespace, **named},
        "outcome": outcome.kind,
        "verdict": verdict,
        "sentence": sentence,
        "reason": outcome.reason,
        "table": outcome.revision,
        "workload": facts.get("workload"),
        "job": {"id": facts["job"]} | {key: facts[key] for key in FACTS} | numbers if numbers else None,
        "changes": [
            change._asdict() | {"rule": change.rule and _told(table, change.rule, "add")}
            for change in changes(obj, outcome.after, outcome.setters)
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
        "pods": None if pods is None else [_pods(pod) for pod in made],
        "notes": list(notes),
        "hints": list(hints),
    }
    return Preview(item, seen, place, hints, made, all_rules)


def _pods(pod: Preview) -> dict[str, Any]:
    """Returns Pods of a job with the same outcome, and the outcome."""
    share = pod.seen.share._asdict() if pod.seen.share else {}
    return {**share, "pod": pod.seen.object, "preview": pod.item}


def _shadow(outcome: Outcome) -> dict[str, Any] | None:
    """Returns the outcome if what is in shadow were enforced; None if that is the same."""
    if not outcome.enforced or not outcome.shadow:
        return None
    would, shadow = outcome.enforced, outcome.shadow
    return {
        "outcome": would.kind,
        "rules": list(shadow.rules),
        "refusing": list(shadow.refusing),
        "denials": list(would.denials),
        "warnings": list(would.warnings),
        "patch": list(would.operations),
    }


def _told(table: Table, rule: str, key: str) -> dict[str, Any]:
    """Returns a rule by its name, and where one of its keys is written."""
    origin = table.origin(rule, key)
    return {"name": rule, "source": {"file": origin.file, "line": origin.line} if origin else None}


def _rules(table: Table, outcome: Outcome, *, all_rules: bool) -> Iterator[dict[str, Any]]:
    """Yields the outcome of each rule for such an object, or of all rules; with the key that decided it."""
    rows, candidate = (
        {row.name: row for row in outcome.rules},
        outcome.default_kind is OutcomeKind.UNCHANGED,
    )
    for rule in table.rules:
        row = rows.get(rule.name) or (_for_others(rule, outcome) if all_rules else None)
        if row and (all_rules or rule.match.candidate in {None, candidate}):
            otherwise = "match" if rule.mode is Mode.ENFORCE else "mode"
            key = "add" if row.state is State.FIRED else otherwise
            yield row._asdict() | _told(table, rule.name, key)


def _for_others(rule: Rule, outcome: Outcome) -> RuleOutcome:
    """Returns the outcome of a rule that was not evaluated, because it is for other kinds or roles."""
    why = outcome.reason
    if outcome.rules and rule.match.fault:
        why = f"it is for a fault that this job does not have: {rule.match.fault}"
    elif outcome.rules:
        kinds = f"{' or '.join(rule.match.workload)}, " if rule.match.workload else ""
        why = f"it is for {kinds}role {rule.match.role}; this is a {outcome.facts['workload']}"
    return RuleOutcome(rule.name, State.SKIPPED, why)

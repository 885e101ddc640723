"""Everything about previews as one value for tools: what ``preview.schema.json`` describes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.engine.outcome import Kind, Outcome, RuleOutcome, State
from webhook.objects.tree import get
from webhook.preview.run import Preview
from webhook.preview.sentence import judged, sentence
from webhook.rows.policies import Mode
from webhook.rows.table import Rule, Table


def document(previews: Iterable[Preview]) -> Mapping[str, Any]:
    """Previews as one document."""
    items = [item_of(one) | {"received": one.object} for one in previews]
    return {"apiVersion": "ultraserver-webhook.io/v1alpha1", "kind": "Preview", "items": items}


def item_of(shown: Preview) -> dict[str, Any]:
    """What is known of one preview."""
    outcome, facts, table = shown.outcome, shown.outcome.facts, shown.table
    file, _, line = shown.source.rpartition(":")
    said = {key: shown.object.get(key) for key in ("apiVersion", "kind")}
    said |= {key: get(shown.object, ("metadata", key)) for key in ("name", "generateName")}
    numbers = {key: int(facts[key]) for key in ("workers", "nodes", "nodeConfig") if key in facts}
    return {
        "source": {"file": file, "line": int(line)},
        "operation": "CREATE" if shown.stored is None else "UPDATE",
        "object": {
            "namespace": shown.namespace,
            **{key: text if isinstance(text, str) else "" for key, text in said.items()},
        },
        "outcome": outcome.kind,
        "verdict": judged(shown)[0],
        "sentence": sentence(shown),
        "reason": outcome.reason,
        "table": outcome.revision,
        "workload": facts.get("workload"),
        "job": {"id": facts["job"], "shape": facts["shape"], **numbers} if numbers else None,
        "changes": [
            change._asdict() | {"rule": change.rule and _told(table, change.rule, "add")}
            for change in shown.changes
        ],
        "rules": [row._asdict() | _told(table, row.name, _key(table, row)) for row in rules_of(shown)],
        "warnings": list(outcome.warnings),
        "denials": list(outcome.denials),
        "patch": list(outcome.operations),
        "policy": facts.get("policy"),
        "shadow": _shadow(outcome),
        "pods": None if shown.pods is None else [_pods(pod) for pod in shown.pods],
        "notes": list(shown.notes),
        "hints": [text for _, text in shown.hints],
    }


def _pods(shown: Preview) -> dict[str, Any]:
    """Pods of a job that get the same, and what that is."""
    share = shown.share._asdict() if shown.share else {}
    return {key: share[key] for key in share if key != "job"} | {
        "pod": shown.object,
        "preview": item_of(shown),
    }


def _shadow(outcome: Outcome) -> dict[str, Any] | None:
    """What it would be if what is in shadow were enforced; None where that is the same."""
    if not outcome.would or not outcome.shadow:
        return None
    would, found = outcome.would, outcome.shadow
    told = {"denials": list(would.denials), "warnings": list(would.warnings), "patch": list(would.operations)}
    return {"outcome": would.kind, "rules": list(found.rules), "refusing": list(found.refusing), **told}


def _told(table: Table, rule: str, key: str) -> dict[str, Any]:
    """A rule by its name, and where it got one of its keys."""
    origin = table.origin(rule, key)
    return {"name": rule, "source": {"file": origin.file, "line": origin.line} if origin else None}


def _key(table: Table, row: RuleOutcome) -> str:
    """The key of a rule that decided what became of it."""
    if row.state is State.FIRED:
        return "add"
    off = any(rule.name == row.name and rule.mode is not Mode.ENFORCE for rule in table.rules)
    return "mode" if off else "match"


def rules_of(shown: Preview) -> Iterator[RuleOutcome]:
    """What became of each rule for such an object, or of all of the table if that is asked for."""
    outcome, rules = shown.outcome, {rule.name: rule for rule in shown.table.rules}
    candidate = outcome.untouched is Kind.UNCHANGED
    found = {row.name: row for row in outcome.rules}
    if shown.all_rules:
        return (found.get(name) or _for_others(rule, outcome) for name, rule in rules.items())
    return (row for name, row in found.items() if rules[name].match.candidate in {None, candidate})


def _for_others(rule: Rule, outcome: Outcome) -> RuleOutcome:
    """A rule that was not looked at, because nothing was or because it is for other kinds or roles."""
    why = outcome.reason
    if outcome.rules and rule.match.fault:
        why = f"it is for a fault that this job does not have: {rule.match.fault}"
    elif outcome.rules:
        kinds = f"{' or '.join(rule.match.workload)}, " if rule.match.workload else ""
        why = f"it is for {kinds}role {rule.match.role}; this is a {outcome.facts['workload']}"
    return RuleOutcome(rule.name, State.SKIPPED, why)

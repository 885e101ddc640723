"""How an outcome is held to what a case expects, key by key."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from common.texts import did_you_mean
from webhook.engine import Outcome
from webhook.engine.outcome import Kind, State
from webhook.objects.tree import Json, is_empty, same
from webhook.preview.lines import abridged, unified
from webhook.rows.table import Table
from webhook.ruletests.cases import VERDICTS, Case
from webhook.undo import record


def comparable(value: Json) -> Json:
    """A value without records, and with long texts cut short: what is compared, and what snapshots hold."""
    return abridged(_unrecorded(value))


def _unrecorded(value: Json) -> Json:
    """The value without records and without the maps that held nothing else."""
    if isinstance(value, list):
        return [_unrecorded(item) for item in value]
    if not isinstance(value, dict):
        return value
    bare = {key: (item, _unrecorded(item)) for key, item in value.items() if key not in record.KEYS}
    return {key: new for key, (old, new) in bare.items() if is_empty(old) or not is_empty(new)}


def _words(outcome: Outcome) -> Iterator[str]:
    yield outcome.kind
    yield from (word for word, verdict in VERDICTS.items() if verdict is outcome.verdict)


def _outcome(_: Table, case: Case, outcome: Outcome) -> str:
    wanted = case.expect.outcome
    # A kind that is misspelt would pass every other check, as nothing is done to it.
    known = outcome.kind is not Kind.NO_WORKLOAD
    if wanted in _words(outcome) if wanted else known:
        return ""
    said = "; ".join((*outcome.denials, *outcome.warnings)) or outcome.reason
    return f"expected {wanted or 'a kind of the table'}, was {outcome.kind}, {outcome.verdict}: {said}"


def _shadow(_: Table, case: Case, outcome: Outcome) -> str:
    wanted, would = case.expect.shadow, outcome.would or outcome
    if wanted in {None, would.kind}:
        return ""
    return (
        f"expected {wanted} if it were enforced, was {would.kind}: {'; '.join(would.denials) or would.reason}"
    )


def _rules(table: Table, case: Case, outcome: Outcome) -> str:
    known = [rule.name for rule in table.rules]
    found = {rule.name: (rule.state, rule.why) for rule in outcome.rules}
    told = []
    for name, state in case.expect.rules.items():
        was, why = found.get(name, (State.SKIPPED, "it is for other objects"))
        if name not in known:
            told.append(f"the table has no rule {name!r}{did_you_mean(name, known)}")
        elif was != state:
            told.append(f"{name}: expected {state}, was {was}: {why}")
    return "\n".join(told)


def _messages(_: Table, case: Case, outcome: Outcome) -> str:
    said = "\n".join((*outcome.denials, *outcome.warnings)) or "nothing"
    missing = [text for text in case.expect.messages if text not in said]
    return "\n".join(f"expected {text!r}, was said: {said}" for text in missing)


def _patch(_: Table, case: Case, outcome: Outcome) -> str:
    found = [
        each
        for each in comparable(list(outcome.operations))
        if not record.is_at(each["path"]) and ("value" in each or each["op"] == "remove")
    ]
    return "" if case.expect.patch is None else _difference(comparable(case.expect.patch), found)


def _snapshot(_: Table, case: Case, outcome: Outcome) -> str:
    if not case.expect.snapshot:
        return ""
    if case.snapshot is None:
        return "there is none yet; --update writes one of what is found now"
    return _difference(comparable(case.snapshot), comparable(outcome.after))


def _difference(wanted: Json, found: Json) -> str:
    return "" if same(wanted, found) else "\n" + unified(wanted, found, "expected", "found")


CHECKS: Final[Mapping[str, Callable[[Table, Case, Outcome], str]]] = {
    "outcome": _outcome,
    "shadow": _shadow,
    "rules": _rules,
    "messages": _messages,
    "patch": _patch,
    "snapshot": _snapshot,
}
"""For each key of `Expect` what tells how an outcome differs from it; nothing where it does not."""

"""Compares an outcome with the expectations of a case, key by key."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from common.texts import did_you_mean
from webhook.documents import dump_yaml, read_documents
from webhook.engine import Outcome
from webhook.engine.outcome import OutcomeKind, State
from webhook.objects import record
from webhook.objects.tree import Json, is_empty, same
from webhook.preview.lines import abridged, unified
from webhook.preview.sentence import Seen, judge
from webhook.rows.table import Table
from webhook.ruletests.cases import JUDGEMENTS, VERDICTS, Case


def comparable(value: Json) -> Json:
    """Returns a value without records and with long texts cut, for comparison and for snapshots."""
    return abridged(_unrecorded(value))


def _unrecorded(value: Json) -> Json:
    """Returns the value without records, and without maps that have nothing else."""
    if isinstance(value, list):
        return [_unrecorded(item) for item in value]
    if not isinstance(value, dict):
        return value
    bare = {key: (item, _unrecorded(item)) for key, item in value.items() if key not in record.KEYS}
    return {key: new for key, (old, new) in bare.items() if is_empty(old) or not is_empty(new)}


def _words(table: Table, case: Case, outcome: Outcome) -> Iterator[str]:
    yield outcome.kind
    yield from (word for word, verdict in VERDICTS.items() if verdict is outcome.verdict)
    if case.expect.outcome in JUDGEMENTS:
        (document,) = read_documents(dump_yaml(case.request.object), case.source)
        seen = Seen(table, document, case.request.namespace, document.value, outcome, case.stored)
        yield judge(seen)[0]


def _outcome(table: Table, case: Case, outcome: Outcome) -> str:
    wanted = case.expect.outcome
    # A misspelt kind would pass every other check, because the webhook ignores it.
    known = outcome.kind is not OutcomeKind.NO_WORKLOAD
    if wanted in _words(table, case, outcome) if wanted else known:
        return ""
    messages = "; ".join((*outcome.denials, *outcome.warnings)) or outcome.reason
    return f"expected {wanted or 'a kind of the table'}, was {outcome.kind}, {outcome.verdict}: {messages}"


def _shadow(_: Table, case: Case, outcome: Outcome) -> str:
    wanted, would = case.expect.shadow, outcome.enforced or outcome
    if wanted in {None, would.kind}:
        return ""
    return (
        f"expected {wanted} if it were enforced, was {would.kind}: {'; '.join(would.denials) or would.reason}"
    )


def _rules(table: Table, case: Case, outcome: Outcome) -> str:
    known = [rule.name for rule in table.rules]
    actual = {rule.name: (rule.state, rule.why) for rule in outcome.rules}
    lines = []
    for name, state in case.expect.rules.items():
        was, why = actual.get(name, (State.SKIPPED, "it is for other objects"))
        if name not in known:
            files = {origin.file.partition(" ")[0] for each in table.origins.values() for origin in each}
            which = "packaged table, which is tested without -f," if files == {"packaged"} else "table"
            lines.append(f"the {which} has no rule {name!r}{did_you_mean(name, known)}")
        elif was != state:
            lines.append(f"{name}: expected {state}, was {was}: {why}")
    return "\n".join(lines)


def _messages(_: Table, case: Case, outcome: Outcome) -> str:
    messages = "\n".join((*outcome.denials, *outcome.warnings)) or "nothing"
    missing = [text for text in case.expect.messages if text not in messages]
    return "\n".join(f"expected {text!r}, but the messages are: {messages}" for text in missing)


def _patch(_: Table, case: Case, outcome: Outcome) -> str:
    actual = [
        step
        for step in comparable(list(outcome.operations))
        if not record.is_record(step["path"]) and ("value" in step or step["op"] == "remove")
    ]
    return "" if case.expect.patch is None else _difference(comparable(case.expect.patch), actual)


def _snapshot(_: Table, case: Case, outcome: Outcome) -> str:
    if not case.expect.snapshot:
        return ""
    if case.snapshot is None:
        return "there is none yet; --update writes one from the present outcome"
    return _difference(comparable(case.snapshot), comparable(outcome.after))


def _difference(wanted: Json, actual: Json) -> str:
    return "" if same(wanted, actual) else "\n" + unified(wanted, actual, "expected", "actual")


CHECKS: Final[Mapping[str, Callable[[Table, Case, Outcome], str]]] = {
    "outcome": _outcome,
    "shadow": _shadow,
    "rules": _rules,
    "messages": _messages,
    "patch": _patch,
    "snapshot": _snapshot,
}
"""A check for each key of `Expect`: it returns how the outcome differs, or an empty text."""

"""What a case may expect, and how an outcome is held to it, key by key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal

from contract import keys
from webhook.documents import Json
from webhook.engine import Outcome
from webhook.engine.evaluate import kind_of
from webhook.engine.outcome import State, Verdict
from webhook.objects.tree import is_empty, pointer, same
from webhook.preview.run import abridged, unified
from webhook.rows.table import Table
from webhook.rows.written import Row

RECORDS: Final = (keys.ADDED, keys.ADDED_TO_POD)
"""They name the revision of the table, which is another after every change."""


@dataclass(frozen=True)
class Expect(Row):
    """What is to become of an object; what is not said may be anything."""

    outcome: Literal["allowed", "warned", "denied", "no-workload"] | None = None
    rules: Mapping[str, State] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    patch: list[dict[str, Any]] | None = None
    snapshot: Literal[True] | None = None


@dataclass(frozen=True)
class Seen:
    """What became of the object of a case, and the snapshot of what should have."""

    table: Table
    object: Json
    outcome: Outcome
    snapshot: Json


WORDS: Final[Mapping[str, Callable[[Seen], bool]]] = {
    "allowed": lambda seen: seen.outcome.verdict is Verdict.ALLOWED,
    "warned": lambda seen: seen.outcome.verdict is Verdict.WARNED,
    "denied": lambda seen: seen.outcome.verdict is Verdict.DENIED,
    "no-workload": lambda seen: not seen.table.workloads_of(kind_of(seen.object)),
}
"""What an outcome may be called, and when it is that."""


def comparable(value: Json) -> Json:
    """A value without records, and with long texts cut short: what is compared, and what snapshots hold."""
    return abridged(_unrecorded(value))


def _unrecorded(value: Json) -> Json:
    """The value without records and without the maps that held nothing else."""
    if isinstance(value, list):
        return [_unrecorded(item) for item in value]
    if not isinstance(value, dict):
        return value
    bare = {key: (item, _unrecorded(item)) for key, item in value.items() if key not in RECORDS}
    return {key: new for key, (old, new) in bare.items() if is_empty(old) or not is_empty(new)}


def _outcome(seen: Seen, wanted: str | None) -> str:
    # A kind that is misspelt would pass every other check, as nothing is done to it.
    if WORDS[wanted](seen) if wanted else not WORDS["no-workload"](seen):
        return ""
    said = "; ".join((*seen.outcome.denials, *seen.outcome.warnings)) or seen.outcome.reason
    return f"expected {wanted or 'a kind of the table'}, was {seen.outcome.verdict}: {said}"


def _rules(seen: Seen, wanted: Mapping[str, State]) -> str:
    known = [rule.name for rule in seen.table.rules]
    found = {rule.name: (rule.state, rule.why) for rule in seen.outcome.rules}
    told = []
    for name, state in wanted.items():
        was, why = found.get(name, (State.SKIPPED, "it is for other objects"))
        if name not in known:
            close = get_close_matches(name, known, n=1)
            told.append(
                f"the table has no rule {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
        elif was != state:
            told.append(f"{name}: expected {state}, was {was}: {why}")
    return "\n".join(told)


def _messages(seen: Seen, wanted: tuple[str, ...]) -> str:
    said = "\n".join((*seen.outcome.denials, *seen.outcome.warnings)) or "nothing"
    return "\n".join(f"expected {text!r}, was said: {said}" for text in wanted if text not in said)


def _patch(seen: Seen, wanted: list[Json] | None) -> str:
    records = tuple(pointer((key,)) for key in RECORDS)
    found = [
        each
        for each in comparable(list(seen.outcome.operations))
        if not each["path"].endswith(records) and ("value" in each or each["op"] == "remove")
    ]
    return "" if wanted is None else _difference(comparable(wanted), found)


def _snapshot(seen: Seen, wanted: object) -> str:
    if wanted and seen.snapshot is None:
        return "there is none yet; --update writes one of what is found now"
    return _difference(comparable(seen.snapshot), comparable(seen.outcome.after)) if wanted else ""


def _difference(wanted: Json, found: Json) -> str:
    return "" if same(wanted, found) else "\n" + unified(wanted, found, "expected", "found")


CHECKS: Final[Mapping[str, Callable[[Seen, Any], str]]] = {
    "outcome": _outcome,
    "rules": _rules,
    "messages": _messages,
    "patch": _patch,
    "snapshot": _snapshot,
}
"""For each key of `Expect` what tells how an outcome differs from it; nothing where it does not."""

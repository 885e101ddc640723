"""The record of additions, stored on the pod template itself, so that exactly these can be removed later.

A job that is exported, renamed or resized and applied again has the old terms. The record distinguishes them
from a user's by content, with any later version of the table; a term that a user has changed is the user's.
A forged record can only remove parts of its own job.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from common.pointers import pointer
from contract import keys
from webhook.objects.lists import TERMS
from webhook.objects.takeback import Budget, OverBudgetError, take_back
from webhook.objects.tree import Json, drop, get, map_at, maps_at, put, shared

KEYS = (keys.ADDED, keys.ADDED_TO_POD)
"""The annotations with records. They name the table's revision, so they change with the table."""
_ENDS = tuple(pointer((key,)) for key in KEYS)
ANNOTATIONS = ("metadata", "annotations")
JOB_LABEL = ("metadata", "labels", keys.JOB)
_PLACING = (keys.JOB, keys.PLACE, keys.OPENED)
MARKS = (JOB_LABEL, *((*ANNOTATIONS, key) for key in _PLACING))
"""The marks of a job and of the nodes that its pods hold: always computed, never taken from the object."""
GATES = ("spec", "schedulingGates")

_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Record:
    """The additions to one pod template.

    Attributes:
        table: The revision of the table.
        uid: The uid of the review, for a job that had no name.
        added: See ``merge.Additions``; pointers are relative to the template.
    """

    table: str = ""
    uid: str = ""
    added: Mapping[str, str | list[str]] = field(default_factory=dict)


def is_at(place: str) -> bool:
    """Returns whether a JSON pointer is that of a record."""
    return place.endswith(_ENDS)


def read(template: Json, key: str = keys.ADDED) -> Record | None:
    """Returns the record on a template; None if there is none or if it cannot be read."""
    text = get(template, (*ANNOTATIONS, key))
    if not isinstance(text, str):
        return None
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    added = raw.get("added") if isinstance(raw, dict) else None
    if not isinstance(added, dict) or not all(map(_is_entry, added, added.values())):
        return None
    return Record(str(raw.get("table", "")), str(raw.get("uid", "")), added)


def _is_entry(key: str, value: Json) -> bool:
    texts = value if isinstance(value, list) else [value]
    return key.startswith("/") and all(isinstance(text, str) for text in texts)


def write(template: Json, record: Record, key: str = keys.ADDED) -> Json:
    """Returns the template with a record on it."""
    raw: dict[str, Json] = {"table": record.table, **({"uid": record.uid} if record.uid else {})}
    # Either of two equal terms may have had the expression, so they are stored in no order.
    added = {
        place: sorted(digests) if place.endswith(f"/{TERMS}") else digests
        for place, digests in record.added.items()
    }
    return put(template, (*ANNOTATIONS, key), _text({**raw, "added": added}))


def _text(raw: dict[str, Json]) -> str:
    """Returns ASCII, because a forged uid may be half of a surrogate pair, which no response can contain."""
    try:
        return orjson.dumps(raw).decode("ascii")
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        return _ENCODER.encode(raw)


def marks(template: Json) -> dict[str, Json]:
    """Returns the marks of a template, with the gate that belongs to them, by their pointers."""
    written = {pointer(path): value for path in MARKS if (value := get(template, path)) is not None}
    return written | ({pointer((*GATES, f"[{keys.GATE}]")): keys.GATE} if is_gated(template) else {})


def is_gated(template: Json) -> bool:
    """Returns whether the template's pods have the gate of whole-job admission."""
    return any(gate.get("name") == keys.GATE for gate in maps_at(template, GATES))


def without_gate(template: Json) -> Json:
    """Returns the template without the gate of whole-job admission."""
    gates = get(template, GATES)
    if not isinstance(gates, list):
        return template
    kept = shared(gates, [gate for gate in gates if get(gate, ("name",)) != keys.GATE])
    return put(template, GATES, kept) if kept or kept is gates else drop(template, GATES)


def strip(
    template: Json, record: Record | None, budget: Budget, key: str = keys.ADDED
) -> tuple[Json, bool, dict[str, Json]]:
    """Returns the template as its author wrote it: without what the record names, the record, and marks.

    Marks are removed even if no record names them. On a Pod they come from the template and stay.

    Returns:
        The template, whether the record is valid (one that costs more than the budget is not), and the marks
        that no record names.
    """
    valid = record is not None
    if record:
        try:
            template = take_back(template, record.added, budget)
        except OverBudgetError:
            valid = False
    if not (template.get("metadata") or GATES[-1] in map_at(template, GATES[:-1])):
        return template, valid, {}  # true for most new jobs
    template = drop(template, (*ANNOTATIONS, key))
    if key != keys.ADDED:
        return template, valid, {}
    user_marks = marks(template)
    for path in MARKS:
        template = drop(template, path)
    return without_gate(template), valid, user_marks

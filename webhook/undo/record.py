"""The record of what was added, kept on the pod template itself, so that it can be taken back exactly.

A job that is exported, renamed or resized and applied again carries the old terms. The record tells them
from what a person wrote, by content and whatever the table has become since; a term that a person changed
afterwards is the person's. A forged record can only make a job lose what is its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from common.pointers import pointer
from contract import keys
from webhook.objects.lists import TERMS
from webhook.objects.tree import Json, drop, get, map_at, maps_at, put, shared
from webhook.undo.budget import Budget, OverBudgetError
from webhook.undo.takeback import take_back

KEYS = (keys.ADDED, keys.ADDED_TO_POD)
"""The annotations with records, which name the table's revision: another one after every change."""
_ENDS = tuple(pointer((key,)) for key in KEYS)
ANNOTATIONS = ("metadata", "annotations")
JOB_LABEL = ("metadata", "labels", keys.JOB)
_PLACING = (keys.JOB, keys.PLACE, keys.OPENED)
CLAIMS = (JOB_LABEL, *((*ANNOTATIONS, key) for key in _PLACING))
"""What says whose a job's pods are and what nodes they hold: computed, and never taken over from anybody."""
GATES = ("spec", "schedulingGates")

_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Record:
    """What the webhook added to one pod template.

    Attributes:
        table: revision of the table that it came from.
        uid: of the review, for a job that had no name.
        added: see ``merge.Additions``; pointers are relative to the template.
    """

    table: str = ""
    uid: str = ""
    added: Mapping[str, str | list[str]] = field(default_factory=dict)


def is_at(place: str) -> bool:
    """Whether a JSON pointer is to a record."""
    return place.endswith(_ENDS)


def read(template: Json, key: str = keys.ADDED) -> Record | None:
    """The record on a template, None where there is none or it cannot be read."""
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
    """The template with a record on it."""
    raw: dict[str, Json] = {"table": record.table, **({"uid": record.uid} if record.uid else {})}
    # Of two equal terms it is not known which one had the expression, so that no order is kept among them.
    added = {
        place: sorted(digests) if place.endswith(f"/{TERMS}") else digests
        for place, digests in record.added.items()
    }
    return put(template, (*ANNOTATIONS, key), _text({**raw, "added": added}))


def _text(raw: dict[str, Json]) -> str:
    """As ASCII, for a forged uid may be half of a surrogate pair, which no response could carry."""
    try:
        return orjson.dumps(raw).decode("ascii")
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        return _ENCODER.encode(raw)


def claims(template: Json) -> dict[str, Json]:
    """What a template has of the claims, and of the gate that goes with them, by the place in it."""
    found = {pointer(path): value for path in CLAIMS if (value := get(template, path)) is not None}
    return found | ({pointer((*GATES, f"[{keys.GATE}]")): keys.GATE} if is_gated(template) else {})


def is_gated(template: Json) -> bool:
    """Whether its pods wait for the program that places them."""
    return any(gate.get("name") == keys.GATE for gate in maps_at(template, GATES))


def without_gate(template: Json) -> Json:
    """The template without the gate behind which pods wait for the program that places them."""
    gates = get(template, GATES)
    if not isinstance(gates, list):
        return template
    kept = shared(gates, [gate for gate in gates if get(gate, ("name",)) != keys.GATE])
    return put(template, GATES, kept) if kept or kept is gates else drop(template, GATES)


def strip(
    template: Json, record: Record | None, budget: Budget, key: str = keys.ADDED
) -> tuple[Json, bool, dict[str, Json]]:
    """The template as its author may have written it: without what the record names, the record, and claims.

    Claims go even where no record names them. On a Pod they come from the template and stay.

    Returns:
        The template, whether the record counted (one that costs more than the budget is none), and the
        claims that no record names.
    """
    counted = record is not None
    if record:
        try:
            template = take_back(template, record.added, budget)
        except OverBudgetError:
            counted = False
    if not (template.get("metadata") or GATES[-1] in map_at(template, GATES[:-1])):
        return template, counted, {}  # most that people write
    template = drop(template, (*ANNOTATIONS, key))
    if key != keys.ADDED:
        return template, counted, {}
    claimed = claims(template)
    for path in CLAIMS:
        template = drop(template, path)
    return without_gate(template), counted, claimed

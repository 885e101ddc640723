"""Reads and writes the record of the webhook's additions, an annotation on the pod template.

If a user exports a job, renames or resizes it, and applies it again, the job has the webhook's old additions.
The record identifies them by their content, so that they can be removed with any later version of the table.
An addition that a user has changed belongs to the user. A forged record can remove only parts of its own job.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from common.pointers import pointer
from contract import keys
from webhook.objects.lists import TERMS
from webhook.objects.takeback import Budget, OverBudgetError, take_back
from webhook.objects.tree import Json, drop, get, get_map, get_maps, put, share

RECORD_KEYS = (keys.ADDED, keys.ADDED_TO_POD)
"""The annotations that contain a record. A record has the table's revision, and so changes with the table."""
_POINTER_ENDS = tuple(pointer((key,)) for key in RECORD_KEYS)
ANNOTATIONS = ("metadata", "annotations")
JOB_LABEL = ("metadata", "labels", keys.JOB)
_MARK_KEYS = (keys.JOB, keys.PLACEMENT, keys.OPENED)
MARKS = (JOB_LABEL, *((*ANNOTATIONS, key) for key in _MARK_KEYS))
"""The paths of marks: labels and annotations about the job and the placement of a pod.

The webhook and the placement program set marks. The webhook removes marks that a user has set in a template.
"""
GATES = ("spec", "schedulingGates")

_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Record:
    """The additions to one pod template.

    Attributes:
        table: The revision of the table.
        uid: The uid of the first review if the job was unnamed and a rule set the job label; otherwise empty.
        additions: The additions, as in ``merge.Additions``. Their pointers are relative to the template.
    """

    table: str = ""
    uid: str = ""
    additions: Mapping[str, str | list[str]] = field(default_factory=dict)


def is_record(pointer_text: str) -> bool:
    """Returns whether a JSON pointer points to a record."""
    return pointer_text.endswith(_POINTER_ENDS)


def read(template: Json, key: str = keys.ADDED) -> Record | None:
    """Returns the record on a template; None if there is none or if it cannot be read."""
    text = get(template, (*ANNOTATIONS, key))
    if not isinstance(text, str):
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    additions = fields.get("added") if isinstance(fields, dict) else None
    if not isinstance(additions, dict) or not all(map(_is_entry, additions, additions.values())):
        return None
    return Record(str(fields.get("table", "")), str(fields.get("uid", "")), additions)


def _is_entry(key: str, value: Json) -> bool:
    texts = value if isinstance(value, list) else [value]
    return key.startswith("/") and all(isinstance(text, str) for text in texts)


def write(template: Json, record: Record, key: str = keys.ADDED) -> Json:
    """Returns the template with a record on it."""
    fields: dict[str, Json] = {"table": record.table, **({"uid": record.uid} if record.uid else {})}
    # The digests of node selector terms are sorted, because two equal terms are interchangeable.
    additions = {
        pointer_text: sorted(digests) if pointer_text.endswith(f"/{TERMS}") else digests
        for pointer_text, digests in record.additions.items()
    }
    return put(template, (*ANNOTATIONS, key), _to_json({**fields, "added": additions}))


def _to_json(fields: dict[str, Json]) -> str:
    """Returns a record as ASCII, because a response cannot contain half a surrogate pair of a forged uid."""
    try:
        return orjson.dumps(fields).decode("ascii")
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        return _ENCODER.encode(fields)


def find_marks(template: Json) -> dict[str, Json]:
    """Returns the marks of a template, and the gate of whole-job admission, by their JSON pointers."""
    values = {pointer(path): value for path in MARKS if (value := get(template, path)) is not None}
    return values | ({pointer((*GATES, f"[{keys.GATE}]")): keys.GATE} if is_gated(template) else {})


def is_gated(template: Json) -> bool:
    """Returns whether the template's pods have the gate of whole-job admission."""
    return any(gate.get("name") == keys.GATE for gate in get_maps(template, GATES))


def without_gate(template: Json) -> Json:
    """Returns the template without the gate of whole-job admission."""
    gates = get(template, GATES)
    if not isinstance(gates, list):
        return template
    other_gates = share(gates, [gate for gate in gates if get(gate, ("name",)) != keys.GATE])
    return put(template, GATES, other_gates) if other_gates or other_gates is gates else drop(template, GATES)


def strip(
    template: Json, record: Record | None, budget: Budget, key: str = keys.ADDED
) -> tuple[Json, bool, dict[str, Json]]:
    """Returns the template as the user wrote it: without the recorded additions, the record, marks and gate.

    Marks and the gate are removed even if the record does not name them. If the record costs too much, all
    recorded additions stay. A Pod keeps its marks and its gate, because they come from its template.

    Returns:
        The template; whether there is a record that costs no more than the budget; and the removed marks and
        gate that the record does not name.
    """
    is_valid = record is not None
    if record:
        try:
            template = take_back(template, record.additions, budget)
        except OverBudgetError:
            is_valid = False
    if not (template.get("metadata") or GATES[-1] in get_map(template, GATES[:-1])):
        return template, is_valid, {}  # as for most new jobs
    template = drop(template, (*ANNOTATIONS, key))
    if key != keys.ADDED:
        return template, is_valid, {}
    user_marks = find_marks(template)
    for path in MARKS:
        template = drop(template, path)
    return without_gate(template), is_valid, user_marks

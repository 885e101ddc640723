"""The record of what was added, kept on the pod template itself, so that it can be taken back exactly.

A job that is exported, renamed or resized and applied again carries the old terms. The record tells them
from what a person wrote, by content and whatever the table has become since; a term that a person changed
afterwards is the person's. A forged record can only make a job lose what is its own.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from webhook.engine import keys
from webhook.engine.merge import TERMS
from webhook.engine.tree import Json, digest, drop, edit, get, parse_pointer, put

LONGEST = 100
"""Places in a record, and digests at a place: several times what any table adds. More is a forgery, made
to cost time."""

LAST = 4
"""How many expressions from the end of a node selector term are looked at for one that was added."""

ANNOTATIONS = ("metadata", "annotations")
JOB_LABEL = ("metadata", "labels", keys.JOB)


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
    if not isinstance(added, dict) or len(added) > LONGEST or not all(map(_is_entry, added, added.values())):
        return None
    return Record(str(raw.get("table", "")), str(raw.get("uid", "")), added)


def _is_entry(key: str, value: Json) -> bool:
    texts = value if isinstance(value, list) else [value]
    return key.startswith("/") and len(texts) <= LONGEST and all(isinstance(text, str) for text in texts)


def write(template: Json, record: Record, key: str = keys.ADDED) -> Json:
    """The template with a record on it."""
    raw: dict[str, Json] = {"table": record.table, **({"uid": record.uid} if record.uid else {})}
    # ASCII, for a forged uid may be half of a surrogate pair, which no response could carry.
    text = json.dumps({**raw, "added": record.added}, separators=(",", ":"))
    return put(template, (*ANNOTATIONS, key), text)


def strip(template: Json, key: str = keys.ADDED) -> Json:
    """The template as it was before the webhook: without what the record names, the record and the job label.

    The job label goes even where no record names it: its value is computed, never taken over. On a Pod it
    comes from the template and stays.
    """
    record = read(template, key)
    if record:
        # Lists first: dropping a map entry may empty a parent that a list entry is reached through.
        for place, digests in sorted(record.added.items(), key=lambda entry: isinstance(entry[1], str)):
            path = parse_pointer(place)
            if isinstance(digests, str):
                template = edit(template, path, _without_value(digests))
            elif path[-1] == TERMS:
                template = edit(template, path, _without_expressions(set(digests)))
            else:
                template = edit(template, path, _without_items(digests))
    template = drop(template, (*ANNOTATIONS, key))
    return drop(template, JOB_LABEL) if key == keys.ADDED else template


def _without_value(wanted: str) -> Callable[[Json], Json]:
    return lambda value: None if digest(value) == wanted else value


def _without_items(digests: list[str]) -> Callable[[Json], Json]:
    def change(items: Json) -> Json:
        wanted = Counter(digests)
        left = (
            [item for item in items if not _take(wanted, digest(item))] if isinstance(items, list) else items
        )
        return items if isinstance(items, list) and len(left) == len(items) else left

    return change


def _take(wanted: Counter[str], found: str) -> bool:
    taken = wanted[found] > 0
    wanted[found] -= taken
    return taken


def _without_expressions(digests: set[str]) -> Callable[[Json], Json]:
    def change(terms: Json) -> Json:
        if not isinstance(terms, list):
            return terms
        left = [(term, _bare(term, digests)) for term in terms]
        if all(term is bare for term, bare in left):
            return terms
        return [bare for term, bare in left if bare or not term]

    return change


def _bare(term: Json, digests: set[str]) -> Json:
    """A node selector term without the expressions that were added to it, the last added first."""
    for _ in range(len(digests)):
        before = next((bare for bare, said in _one_less(term) if digest([bare, said]) in digests), None)
        if before is None:
            break
        term = before
    return term


def _one_less(term: Json) -> Iterator[tuple[Json, Json]]:
    """A term without one of its last expressions, and that expression.

    What was added is at the end, but for the little that another webhook may have put behind it.
    """
    for kind, expressions in term.items() if isinstance(term, dict) else ():
        for back in range(1, 1 + LAST) if isinstance(expressions, list) else ():
            if back <= len(expressions):
                rest = [*expressions[:-back], *expressions[len(expressions) - back + 1 :]]
                bare = {
                    key: rest if key == kind else value for key, value in term.items() if key != kind or rest
                }
                yield bare, expressions[-back]

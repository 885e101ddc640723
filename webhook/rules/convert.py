"""Converts a rule table of 0.2.0 into the present form: its machines and sizes become a family."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from common.pointers import field_name
from common.texts import cut
from webhook.documents import Document, DocumentError, dump_yaml, read_documents
from webhook.objects.templates import matches
from webhook.rules.convert_rows import RefusedError, Row, at, each, rule, texts, workload
from webhook.rules.load import Text, default_draft, document_of
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import OLD, VERSION

REPLACED: Final = ("candidates", "shapes")
"""Sections that become a family."""

MOVED: Final = ("instanceTypes", "claims", "nodeLabels")
"""Keys of ``candidates`` that a family has unchanged."""

RESTORED: Final = frozenset(
    {"init-in-job-image", "wait-for-all-workers", "apart-across-namespaces", "apart-from-labelled-jobs"}
)
"""Rules that 0.2.0 replaced by those of the AWS document if they did not fire."""


JOINED: Final = ("kueue-level-unset-required", "kueue-level-unset-preferred")
IN_JOB: Final = "kueue-level-unset-in-job"
"""Two rules of 0.2.0, and the one that has the place of both."""

WAITING: Final = (
    "pods-not-at-once",
    "jobs-in-order",
    "jobs-without-numbers",
    "whole-job-workers",
    "whole-job-launcher",
    "whole-job-needs-all-pods",
)
"""Rules of 0.2.0's file 30-placement.yaml, which the packaged table has now."""

GONE: Final = ("driver-sets-mode", "*-as-mpirun", "kueue-own-*", "kueue-more-than-*")
"""Rules of 0.2.0 without which a table has no outcome of today; globs."""

INDEXED: Final = "indexed-job"
"""A workload of 0.2.0; the workload `job` contains it."""
JOB: Final = "job"


def converted(text: Text) -> str:
    """Returns the text of a table in the new form; unchanged sections stay as written.

    Raises:
        TableError: The text is not a table of 0.2.0, or has a key that a family cannot have.
    """
    source, document = text[0], document_of(text[1], text[0])
    if not isinstance(document.value, dict) or document.value.get("apiVersion") != OLD:
        raise TableError([Problem(source, 1, "apiVersion", f"is not a table of 0.2.0, which has {OLD}")])
    try:
        with at():
            for key in ("workloads", "shapes", "rules"):
                each(key, document.value.get(key, ()), itemgetter("name"))
            new = dict(_sections(document.value))
    except RefusedError as error:
        place = field_name(error.path)
        raise TableError([Problem(source, document.line_of(error.path), place, cut(str(error)))]) from error
    raw = text[1] if isinstance(text[1], str) else text[1].decode()
    return _written(document, raw, new)


def lost(text: Text, new: str) -> Iterator[str]:
    """Yields what a converted table does not have, and what has its place."""
    old = document_of(text[1], text[0]).value
    rules = {row["name"]: row for row in document_of(new, text[0]).value.get("rules", ())}
    for row in old.get("rules", ()):
        name = row["name"]
        if name in JOINED and "extends" in old:
            yield f"rule {name} is a part of {IN_JOB} now"
        elif name not in rules:
            yield f"rule {name} is dropped: there is no such rule that could be {_with_mode(row)['mode']}"
        for other in texts(row, "replaces") if name in rules else ():
            if other in rules and "extends" in old:
                yield f"rule {other} is off, because rule {name} replaces it"
            elif other not in rules and other not in JOINED:
                yield f"replaces: {other} of rule {name} is dropped: there is no such rule"


def _sections(old: Row) -> Iterator[tuple[str, Any]]:
    """Yields the sections in the new form, without empty ones."""
    for key, value in old.items():
        if key == "candidates":
            moved = (*MOVED, "requests", "wholeNode")
            with at(key):
                remaining = _with_labels({name: of for name, of in value.items() if name not in moved})
            if remaining:
                yield key, remaining
        elif key == "rules":
            rows = each(key, value, rule)
            rows = _laid_over(rows) if "extends" in old else _in_turn(rows)
            # A bare off is written as it is only if all the rows are.
            yield key, value if rows == value else [*map(_with_mode, rows)]
        elif key == "workloads":
            if "extends" in old and any(row["name"] == INDEXED for row in value):
                raise ValueError(f"workload {INDEXED} is a part of {JOB} now: change {JOB} in its place")
            yield key, each(key, value, workload)
        elif key != "shapes":
            yield key, VERSION if key == "apiVersion" else value
    if family := _family(old):
        yield "families", [family]


def _with_labels(candidates: Row) -> Row:
    """Returns candidates with one list of the labels that have the instance type."""
    one, *others = default_draft().raw["candidates"]["instanceTypeLabels"]
    keys = ("instanceTypeLabel", "olderTypeLabels")
    if candidates.keys().isdisjoint(keys):
        return candidates
    others = texts(candidates, keys[1]) if keys[1] in candidates else others
    labels = [candidates.get(keys[0], one), *others]
    return {"instanceTypeLabels": labels} | {key: of for key, of in candidates.items() if key not in keys}


def _family(old: Row) -> Row:
    """Returns a family with the machines and sizes of a table of 0.2.0; empty if the table has none."""
    below, extends = default_draft().raw["families"][0], "extends" in old
    candidates, shapes = old.get("candidates", {}), old.get("shapes", [])
    family = {key: candidates[key] for key in MOVED if key in candidates}
    if "requests" in candidates or "wholeNode" in candidates:
        whole = candidates.get("wholeNode", below["wholeNode"] if extends else {})
        requests = candidates.get("requests", [*below["wholeNode"]])
        family["wholeNode"] = {name: whole.get(name, 0) for name in requests}
    if units := _units(shapes, below, extends=extends):
        family["units"] = units
    if shapes:
        family["shapes"] = [{k: v for k, v in shape.items() if k != "topologyKey"} for shape in shapes]
    return {"name": below["name"], **family} if family else {}


def _units(shapes: list[Row], below: Row, *, extends: bool) -> list[Row]:
    """Returns the units of shapes that the packaged family does not have.

    Raises:
        ValueError: Shapes of one node config have units by several labels: a family has one for a size.
    """
    packaged = {unit["label"]: unit for unit in below["units"]}
    labels = {unit["nodes"]: label for label, unit in packaged.items()}
    known = (
        [{**row, "topologyKey": labels.get(row["nodeConfig"])} for row in below["shapes"]] if extends else []
    )
    rows: dict[str, Row] = {row["name"]: row for row in known}
    rows |= {row["name"]: {**rows.get(row["name"], {}), **row} for row in shapes}
    each("shapes", shapes, lambda row: int(rows[row["name"]]["nodeConfig"]))
    own = [row for row in rows.values() if row.get("topologyKey") and row not in known]
    chosen = (labels if extends else {}) | {row["nodeConfig"]: row["topologyKey"] for row in own}
    for row in rows.values():
        size, key = row["nodeConfig"], row.get("topologyKey")
        if size == 1 and (row.get("together", "none") != "none" or row.get("apart", "none") != "none"):
            raise ValueError(
                f"shape {row['name']} keeps single nodes together or apart by {key}: give it a unit"
            )
        if size > 1 and key != _label(chosen, size):
            raise ValueError(
                f"shape {row['name']} has units of {size} nodes by {key or 'no label'}, and others by "
                f"{_label(chosen, size)}: use the same label in both, or write two families"
            )
    new = {key: size for size, key in chosen.items() if size > 1 and not (extends and key in packaged)}
    return [packaged.get(key, {"label": key, "nodes": size}) for key, size in new.items()]


def _label(chosen: Mapping[int, str], size: int) -> str | None:
    """Returns the label of the smallest units that have at least ``size`` nodes."""
    return chosen.get(min((known for known in chosen if known >= size), default=0))


def _in_turn(rules: Sequence[Row]) -> list[Row]:
    """Returns the rules of a whole table, each after those that replaced it, for `unless`."""
    named = {row["name"]: row for row in rules}
    instead = {name: [row["name"] for row in rules if name in texts(row, "replaces")] for name in named}
    at = {name: index for index, name in enumerate(named)}
    seen, ordered = set[str](), list[Row]()

    def add(name: str) -> None:
        if name in seen or name not in named:
            return
        seen.add(name)
        row = {key: value for key, value in named[name].items() if key != "replaces"}
        for before in (*instead[name], *texts(row, "needs")):
            add(before)
        ordered.append(row | {"unless": instead[name]} if instead[name] else row)

    for row in sorted(rules, key=lambda row: at.get(next(iter(texts(row, "replaces")), row["name"]), 0)):
        add(row["name"])
    return ordered


def _with_mode(row: Row) -> Row:
    """Returns a row with its mode as text: a bare off is false to YAML."""
    return row | {"mode": "off"} if row.get("mode") is False else row


def _joined(rules: Sequence[Row]) -> list[Row]:
    """Returns the rules, with one in the place of two.

    Raises:
        ValueError: The two are not changed alike, or a rule replaces only one of them.
    """
    joined = f"rules {' and '.join(JOINED)} are one rule now, {IN_JOB}"
    changes = [{**_with_mode(row), "name": IN_JOB} for row in rules if row["name"] in JOINED]
    if changes and changes != [changes[0]] * len(JOINED):
        raise ValueError(f"{joined}: change both alike")
    for row in rules:
        replaced = texts(row, "replaces")
        both = [name for name in JOINED if name in replaced]
        if both and len(both) < len(JOINED):
            raise ValueError(f"{joined}, and rule {row['name']} replaces {both[0]}: let it replace both")
        if both:
            row["replaces"] = [*(name for name in replaced if name not in JOINED), IN_JOB]
    return [row for row in rules if row["name"] not in JOINED] + changes[:1]


def _laid_over(rules: Sequence[Row]) -> list[Row]:
    """Returns the rules of a table that extends the packaged one."""
    packaged = {row["name"]: row for row in default_draft().raw["rules"]}
    places = {row["name"]: [number] for number, row in enumerate(rules)}
    result = list[Row]()
    for row in _joined(rules):
        with at("rules", *places.get(row["name"], [])):
            result += _present(row, packaged)
    return result


def _present(row: Row, packaged: Mapping[str, Row]) -> Iterator[Row]:
    """Yields the rows in place of one that extends the packaged table.

    Raises:
        ValueError: The rule depends on one that the packaged table no longer has.
    """
    if row["name"] in WAITING and "reason" in row:
        raise ValueError(
            f"rule {row['name']} is a copy from 30-placement.yaml, whose rules are packaged now: "
            "remove the row, or leave only its name and what you changed"
        )
    kinds = texts(row.get("match", {}), "workload")
    limits = packaged.get(row["name"], {}).get("match", {}) | row.get("match", {})
    if "numbered" not in limits and matches(INDEXED, (*kinds,)) != matches(JOB, (*kinds,)):
        raise ValueError(
            f"rule {row['name']} is for some Jobs only, and the workload {JOB} is for Indexed ones, too: "
            f"match {JOB}, with numbered: true for those"
        )
    if INDEXED in kinds:
        row["match"] |= {"workload": [JOB if kind == INDEXED else kind for kind in kinds if kind != JOB]}
    name, off = row["name"], row.keys() == {"name", "mode"} and row["mode"] != "enforce"
    if name in RESTORED and (off or "match" in row):
        raise ValueError(
            f"rule {name} left jobs to the AWS document's own rule, which `extends: aws-document` has"
        )
    if name not in packaged and not {"match", "reason"} <= row.keys():
        if off and not matches(name, GONE):
            return
        raise ValueError(f"rule {name} is not in the packaged table any more: remove the row (CHANGELOG.md)")
    for other in texts(row, "replaces") if name not in packaged else ():
        if other in packaged and not row["match"].items() <= packaged[other]["match"].items():
            raise ValueError(
                f"rule {name} replaces {other} for some jobs only: change {other}'s match, "
                "and remove replaces"
            )
        if other in packaged:
            yield {"name": other, "mode": "off"}
    yield {key: value for key, value in row.items() if key != "replaces"}


def _written(document: Document, text: str, new: Mapping[str, Any]) -> str:
    """Returns a table with the lines of every unchanged section, and the new ones in place of the old."""
    lines, old, result = text.splitlines(keepends=True), document.value, ""
    starts = [document.line_of((key,)) - 1 for key in old]
    begins = list(map(partial(_above, lines), starts))
    last = [key for key in old if key in REPLACED][-1:]
    for key, begin, start, end in zip(old, begins, starts, [*begins[1:], len(lines)], strict=True):
        now = [key] if key in new else []
        if now and new[key] == old[key]:
            result += "".join(lines[begin:end])
        elif now or [key] == last:
            now += ["families"] if [key] == last else []
            result += "".join(lines[begin:start])
            result += dump_yaml({name: new[name] for name in now if name in new})
    try:
        (again,) = read_documents(result)
    except (DocumentError, ValueError):
        return dump_yaml(new)
    return result if again.value == new else dump_yaml(new)


def _above(lines: Sequence[str], start: int) -> int:
    """Returns where the comments above a line begin."""
    while start and lines[start - 1].startswith(("#", "\n")):
        start -= 1
    return start

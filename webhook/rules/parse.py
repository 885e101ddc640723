"""From the rows of a table as written, which hold to the schema, to those that the engine sees."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from webhook.documents import Json
from webhook.engine.places import parse_place
from webhook.engine.table import (
    Candidates,
    Count,
    Factor,
    Field,
    Group,
    Match,
    Mode,
    OnConflict,
    Rule,
    Shape,
    Table,
    Workload,
)

Row = TypeVar("Row")

_HUMP = re.compile("([A-Z])")


def table(raw: Mapping[str, Any], revision: str) -> Table:
    """The table that a text says, fragments as they are written."""
    return Table(
        revision=revision,
        candidates=_row(Candidates, raw["candidates"]),
        workloads=tuple(map(_workload, raw["workloads"])),
        shapes=tuple(_row(Shape, row, workers=_count(row["workers"])) for row in raw["shapes"]),
        rules=tuple(map(_rule, raw["rules"])),
        mode=_mode(raw),
    )


def _row(row: type[Row], raw: Mapping[str, Any], **made: object) -> Row:
    """A row for the engine: the keys of the table are its attributes, in snake case.

    Args:
        row: its class.
        raw: as written.
        made: by key, what stands for values that the engine has in another form.
    """
    values = {_HUMP.sub(r"_\1", key).lower(): value for key, value in {**raw, **made}.items()}
    return row(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _workload(raw: Mapping[str, Any]) -> Workload:
    fields = raw.get("fields", {}).items()
    return _row(
        Workload,
        raw,
        groups=tuple(map(_group, raw["groups"])),
        when=_patterns(raw.get("when", {})),
        fields={name: _row(Field, row, path=parse_place(row["path"])) for name, row in fields},
    )


def _group(raw: Mapping[str, Any]) -> Group:
    takes_nodes, replicas = raw.get("takesNodes", False), raw.get("replicas", 1)
    return _row(
        Group,
        raw,
        template=parse_place(raw["template"]),
        replicas=tuple(map(_factor, replicas if isinstance(replicas, list) else [replicas])),
        takesNodes=parse_place(takes_nodes) if isinstance(takes_nodes, str) else takes_nodes,
    )


def _factor(raw: Json) -> Factor:
    if isinstance(raw, str):
        return Factor(parse_place(raw))
    return (
        _row(Factor, raw, path=parse_place(raw["path"])) if isinstance(raw, dict) else Factor(None, int(raw))
    )


def _count(raw: Json) -> Count:
    return Count(int(raw.rpartition(" ")[2]), multiple=True) if isinstance(raw, str) else Count(int(raw))


def _rule(raw: Mapping[str, Any]) -> Rule:
    match = raw["match"]
    plain = {key: match[key] for key in ("role", "named", "mountTaken") if key in match}
    return _row(
        Rule,
        raw,
        match=_row(Match, {**_patterns(match), **plain}),
        onConflict=OnConflict(raw.get("onConflict", OnConflict.KEEP)),
        mode=_mode(raw),
        needs=_patterns(raw.get("needs", [])),
        replaces=_patterns(raw.get("replaces", [])),
    )


def _mode(raw: Mapping[str, Any]) -> Mode:
    return Mode(raw.get("mode", Mode.ENFORCE) or Mode.OFF)  # a bare off is false to YAML 1.1


def _patterns(raw: Json) -> Any:  # noqa: ANN401 - a tuple of texts, or a map of such
    """What is written as one text or a list of them, as the latter; the same for each value of a map."""
    if isinstance(raw, dict):
        return {key: _patterns(value) for key, value in raw.items()}
    return tuple(map(str, raw)) if isinstance(raw, list) else (str(raw),)

"""From the rows of a table as written, which hold to the schema, to those that the engine sees."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from contract import place
from contract.place import Placer
from webhook.documents import Json
from webhook.objects.merge import OnConflict
from webhook.objects.paths import object_path
from webhook.rows.table import Count, Match, Mode, Rule, Shape, Table
from webhook.rows.workloads import DEVICES, Candidates, Factor, Field, Group, Number, Suspending, Workload

Row = TypeVar("Row")

_HUMP = re.compile("([A-Z])")


def table(raw: Mapping[str, Any], revision: str) -> Table:
    """The table that a text says, fragments as they are written."""
    return Table(
        revision=revision,
        candidates=_candidates(raw["candidates"]),
        workloads=tuple(map(_workload, raw["workloads"])),
        shapes=tuple(_row(Shape, row, workers=_count(row["workers"])) for row in raw["shapes"]),
        rules=tuple(map(_rule, raw["rules"])),
        mode=_mode(raw),
        device_counts={name: _counts(counts) for name, counts in raw.get("deviceCounts", {}).items()},
    )


def _counts(raw: Json) -> tuple[int, ...]:
    """Numbers as written in a list, or as ``up to N``."""
    if isinstance(raw, str):
        return tuple(range(1, int(raw.rpartition(" ")[2]) + 1))
    return tuple(sorted(map(int, raw)))


def _row(row: type[Row], raw: Mapping[str, Any], **made: object) -> Row:
    """A row for the engine: the keys of the table are its attributes, in snake case.

    Args:
        row: its class.
        raw: as written.
        made: by key, what stands for values that the engine has in another form.
    """
    values = {_HUMP.sub(r"_\1", key).lower(): value for key, value in {**raw, **made}.items()}
    return row(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _candidates(raw: Mapping[str, Any]) -> Candidates:
    elsewhere = raw.get("elsewhere", {})
    return _row(
        Candidates,
        {key: value for key, value in raw.items() if key != "elsewhere"},
        nodeLabels=_patterns(raw.get("nodeLabels", {})),
        elsewhereLabels=_patterns(elsewhere.get("labels", {})),
        elsewhereTolerations=_patterns(elsewhere.get("tolerations", {})),
    )


def _workload(raw: Mapping[str, Any]) -> Workload:
    fields = raw.get("fields", {}).items()
    return _row(
        Workload,
        raw,
        groups=tuple(map(_group, raw["groups"])),
        when=_patterns(raw.get("when", {})),
        fields={name: _row(Field, row, path=object_path(row["path"])) for name, row in fields},
        updates=_updates(raw.get("updates")),
        place=place.parse(raw["place"]) if "place" in raw else None,
    )


def _updates(raw: Json) -> Suspending | str | None:
    if not isinstance(raw, dict):
        return raw and str(raw)
    return _row(Suspending, {key: text if key == "keeps" else object_path(text) for key, text in raw.items()})


def _group(raw: Mapping[str, Any]) -> Group:
    takes_nodes = raw.get("takesNodes", False)
    if isinstance(takes_nodes, str) and takes_nodes != DEVICES:
        takes_nodes = object_path(takes_nodes)
    return _row(
        Group,
        raw,
        template=object_path(raw["template"]),
        replicas=_factors(raw.get("replicas", 1)),
        takesNodes=takes_nodes,
        index=tuple(Number(row["source"], _factors(row.get("times", []))) for row in raw.get("index", [])),
        numbers=_factors(raw.get("numbers", [])),
    )


def _factors(raw: Json) -> tuple[Factor, ...]:
    return tuple(map(_factor, raw if isinstance(raw, list) else [raw]))


def _factor(raw: Json) -> Factor:
    if isinstance(raw, str):
        return Factor(object_path(raw))
    return (
        _row(Factor, raw, path=object_path(raw["path"])) if isinstance(raw, dict) else Factor(None, int(raw))
    )


def _count(raw: Json) -> Count:
    return Count(int(raw.rpartition(" ")[2]), multiple=True) if isinstance(raw, str) else Count(int(raw))


def _rule(raw: Mapping[str, Any]) -> Rule:
    match = raw["match"]
    plain = {key: match[key] for key in ("role", "named", "numbered", "every", "mountTaken") if key in match}
    candidate = match.get("candidate", True)
    made = {
        "candidate": None if candidate == "any" else candidate,
        "requests": _least(match.get("requests", {})),
        "template": {
            object_path(place): _patterns(texts) for place, texts in match.get("template", {}).items()
        },
    }
    return _row(
        Rule,
        raw,
        match=_row(Match, {**_patterns(match), **plain}, **made),
        onConflict=OnConflict(raw.get("onConflict", OnConflict.KEEP)),
        mode=_mode(raw),
        placer=Placer(raw["placer"]) if "placer" in raw else None,
        needs=_patterns(raw.get("needs", [])),
        replaces=_patterns(raw.get("replaces", [])),
    )


def _least(raw: Json) -> dict[str, int]:
    """Resources and the least number of each; 0 for those of which any amount will do."""
    if isinstance(raw, dict):
        return {name: int(number) for name, number in raw.items()}
    return dict.fromkeys(_patterns(raw), 0)


def _mode(raw: Mapping[str, Any]) -> Mode:
    return Mode(raw.get("mode", Mode.ENFORCE) or Mode.OFF)  # a bare off is false to YAML 1.1


def _patterns(raw: Json) -> Any:  # noqa: ANN401 - a tuple of texts, or a map of such
    """What is written as one text or a list of them, as the latter; the same for each value of a map."""
    if isinstance(raw, dict):
        return {key: _patterns(value) for key, value in raw.items()}
    return tuple(map(str, raw)) if isinstance(raw, list) else (str(raw),)

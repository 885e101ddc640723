"""From the rows of a table as written, which hold to the schema, to those that the engine sees."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.documents import Json, Path
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
    Workload,
)


def misplaced(raw: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Every place of a workload that can be in no object; path and message of each."""
    problems: list[tuple[Path, str]] = []
    for path, text in _written_places(raw.get("workloads", [])):
        try:
            parse_place(text)
        except ValueError as error:
            problems.append((path, str(error)))
    return problems


def _written_places(workloads: list[Mapping[str, Any]]) -> Iterator[tuple[Path, str]]:
    for index, row in enumerate(workloads):
        for name, field in row.get("fields", {}).items():
            yield ("workloads", index, "fields", name, "path"), field["path"]
        for number, group in enumerate(row.get("groups", [])):
            at: Path = ("workloads", index, "groups", number)
            yield (*at, "template"), group["template"]
            if isinstance(group.get("takesNodes"), str):
                yield (*at, "takesNodes"), group["takesNodes"]
            for factor in _listed(group.get("replicas", 1)):
                place = factor["path"] if isinstance(factor, dict) else factor
                if isinstance(place, str):
                    yield (*at, "replicas"), place


def candidates(raw: Mapping[str, Any]) -> Candidates:
    """Which jobs the table speaks about."""
    return Candidates(tuple(raw["requests"]), raw["instanceTypeLabel"], tuple(raw["instanceTypes"]))


def workload(raw: Mapping[str, Any]) -> Workload:
    """A kind that can be opened."""
    fields = raw.get("fields", {}).items()
    return Workload(
        name=raw["name"],
        kinds=tuple(raw["kinds"]),
        groups=tuple(map(_group, raw["groups"])),
        when=_patterns(raw, "when"),
        fields={
            name: Field(parse_place(row["path"]), row["default"], row.get("parent", False))
            for name, row in fields
        },
        node_config_env=raw.get("nodeConfigEnv"),
    )


def _group(raw: Mapping[str, Any]) -> Group:
    takes_nodes = raw.get("takesNodes", False)
    return Group(
        role=raw["role"],
        template=parse_place(raw["template"]),
        replicas=tuple(map(_factor, _listed(raw.get("replicas", 1)))),
        takes_nodes=parse_place(takes_nodes) if isinstance(takes_nodes, str) else takes_nodes,
    )


def _factor(raw: Json) -> Factor:
    if isinstance(raw, int):
        return Factor(None, raw)
    path, default = (raw["path"], raw["default"]) if isinstance(raw, dict) else (raw, 0)
    return Factor(parse_place(path), default)


def _listed(raw: Json) -> list[Json]:
    return raw if isinstance(raw, list) else [raw]


def shape(raw: Mapping[str, Any]) -> Shape:
    """A row about job size."""
    workers = raw["workers"]
    count = (
        Count(workers) if isinstance(workers, int) else Count(int(workers.rsplit(" ", 1)[1]), multiple=True)
    )
    return Shape(
        name=raw["name"],
        workers=count,
        node_config=raw["nodeConfig"],
        topology_key=raw.get("topologyKey"),
        together=raw.get("together", "none"),
        apart=raw.get("apart", "none"),
        warn=raw.get("warn"),
        deny=raw.get("deny"),
    )


def rule(raw: Mapping[str, Any]) -> Rule:
    """When something is added, and what."""
    match = raw["match"]
    return Rule(
        name=raw["name"],
        reason=raw["reason"],
        match=Match(
            role=match["role"],
            workloads=_many(match.get("workload")),
            shape=_patterns(match, "shape"),
            named=match.get("named"),
            requests=_many(match.get("requests")),
            volumes=_many(match.get("volume")),
            fields=_patterns(match, "fields"),
            labels=_patterns(match, "labels"),
            annotations=_patterns(match, "annotations"),
            namespaces=_many(match.get("namespace")),
            mount_taken=match.get("mountTaken", {}),
        ),
        add=raw.get("add", {}),
        on_conflict=OnConflict(raw.get("onConflict", OnConflict.KEEP)),
        mode=mode(raw),
        replaces=_many(raw.get("replaces")),
        needs=_many(raw.get("needs")),
        warn=raw.get("warn"),
        deny=raw.get("deny"),
        quiet=raw.get("quiet", False),
    )


def mode(raw: Mapping[str, Any]) -> Mode:
    """What a rule, or the whole table, does with its result."""
    return Mode(raw.get("mode", Mode.ENFORCE) or Mode.OFF)  # a bare off is false to YAML 1.1


def _many(value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _patterns(raw: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    return {name: _many(value) for name, value in raw.get(key, {}).items()}

"""Reads pod templates: containers, resources, volumes, instance types."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, repeat
from math import inf
from typing import Final

from webhook.objects.lists import EXPRESSIONS
from webhook.objects.tree import Json, get, map_at, maps_at, same

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The key of required terms in each kind of affinity."""

_GLOB: Final = frozenset("*?[")


def containers(template: Json) -> Iterator[dict[str, Json]]:
    """Yields every container and init container of a template that is a map."""
    return chain.from_iterable(maps_at(template, ("spec", kind)) for kind in ("containers", "initContainers"))


def main_container(template: Json, signs: Collection[str], resources: Collection[str]) -> dict[str, Json]:
    """Returns the first container with the most signs; without signs, the first one that requests devices."""
    if len(every := maps_at(template, ("spec", "containers"))) <= 1:
        return every[0] if every else {}
    is_sign = (signs or (*resources, "claims")).__contains__
    return max(every, key=lambda container: sum(map(is_sign, _has(container, signs))))


def _has(container: Json, signs: Collection[str]) -> Iterator[Json]:
    parts = (("env",), ("volumeMounts",)) if signs else (("resources",), ("resources", "limits"))
    for part in parts:
        yield from (
            (item.get("name") for item in maps_at(container, part)) if signs else map_at(container, part)
        )


def takes(amounts: Mapping[str, int], resource: str, least: int, most: float = inf) -> bool:
    """Returns whether a pod requests at least this amount of a resource; with 0, whether it requests any.

    Amounts are in thousandths, as of `common.quantities.requests`.
    """
    return max(1, 1000 * least) <= amounts.get(resource, 0) <= 1000 * most


def has_volume(template: Json, names: tuple[str, ...]) -> bool:
    """Returns whether a template has a volume with one of these names."""
    return any(item.get("name") in names for item in maps_at(template, ("spec", "volumes")))


def mounts_otherwise(template: Json, container: Json, mount: Json) -> bool:
    """Returns whether a container mounts another volume at a volume mount's path."""
    named = (item for item in maps_at(template, ("spec", "containers")) if item.get("name") == container)
    mounts = [
        item
        for item in maps_at(next(named, {}), ("volumeMounts",))
        if item.get("mountPath") == mount["mountPath"]
    ]
    return bool(mounts) and not same(mounts[-1], mount)


@dataclass(frozen=True)
class Selection:
    """The node selection of a pod template.

    Attributes:
        selector: Its node selector.
        terms: Its required node affinity, each term as expressions by key; None without such an affinity.
    """

    selector: Mapping[str, Json]
    terms: tuple[Mapping[str, Sequence[Json]], ...] | None


def selection(template: Json) -> Selection:
    """Returns the node selection of a template. Callers read it once, because it can be long."""
    required = ("spec", "affinity", "nodeAffinity", REQUIRED)
    terms = get(template, (*required, "nodeSelectorTerms"))
    expressions = tuple(map(_by_key, maps_at(terms, ()))) if isinstance(terms, list) and terms else None
    return Selection(map_at(template, ("spec", "nodeSelector")), expressions)


def _by_key(term: Json) -> Mapping[str, Sequence[Json]]:
    by_key: dict[str, list[Json]] = {}
    for item in (item for name in EXPRESSIONS for item in maps_at(term, (name,))):
        if isinstance(item.get("key"), str):
            by_key.setdefault(item["key"], []).append(item)
    return by_key


def chosen_types(wanted: Selection, labels: Sequence[str]) -> Collection[str]:
    """Returns the instance types that a pod's selector or affinity names; none if any type is permitted."""
    chosen = [value for label in labels if isinstance(value := wanted.selector.get(label), str)]
    named = ([*chain(*(listed(term.get(label, ())) for label in labels))] for term in wanted.terms or ())
    terms = [chosen] if chosen else [*named]
    return dict.fromkeys(chain.from_iterable(terms) if all(terms) else ())


def listed(expressions: Sequence[Json], operator: Json = "In") -> Iterator[str]:
    """Yields the values of the expressions with this operator."""
    for item in expressions:
        values = item.get("values")
        if item.get("operator") == operator and isinstance(values, list):
            yield from (value for value in values if isinstance(value, str))


def admits(wanted: Selection, labels: Mapping[str, tuple[str, ...]]) -> bool:
    """Returns whether a template's own node selection admits nodes whose labels can have these values.

    In the values ``*`` and ``?`` are wildcards, as in file names.
    """
    chosen = ((wanted.selector.get(label), values) for label, values in labels.items())
    if not all(value is None or _among([value], values) for value, values in chosen):
        return False
    return wanted.terms is None or any(
        all(_admits(item, labels[key]) for key, items in term.items() if key in labels for item in items)
        for term in wanted.terms
    )


def _admits(expression: Json, wanted: tuple[str, ...]) -> bool:
    values = expression.get("values")
    listed = values if isinstance(values, list) else []
    match expression.get("operator"):
        case "In":
            return _among(listed, wanted)
        case "NotIn":
            return any(value not in listed for value in wanted)
        case operator:
            return bool(operator != "DoesNotExist")


def is_glob(text: str) -> bool:
    """Returns whether a text has wildcards."""
    return not _GLOB.isdisjoint(text)


def matches(text: str, allowed: tuple[str, ...]) -> bool:
    """Returns whether a text is one of the allowed ones; ``*`` and ``?`` are wildcards, as in file names.

    A text that begins with ``!`` is excluded; if there are only such texts, all others are allowed.
    """
    return (_known if len(text) < 64 else _matches)(text, allowed)  # noqa: PLR2004 - jobs are alike


def _matches(text: str, allowed: tuple[str, ...]) -> bool:
    texts, globs, but = _patterns(allowed)
    if but and matches(text, but):
        return False
    if text in texts or (globs and any(map(fnmatchcase, repeat(text), globs))):
        return True
    return bool(but) and not texts and not globs


_known: Final = lru_cache(maxsize=4096)(_matches)


@lru_cache(maxsize=4096)
def _patterns(allowed: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """Returns the allowed texts, the allowed globs, and the excluded ones."""
    plain = [text for text in allowed if not text.startswith("!")]
    globs = tuple(filter(is_glob, plain))
    return frozenset(plain), globs, tuple(text[1:] for text in allowed if text.startswith("!"))


def _among(values: list[Json], allowed: tuple[str, ...]) -> bool:
    """Returns whether one of the values is allowed."""
    return any(isinstance(value, str) and matches(value, allowed) for value in values)

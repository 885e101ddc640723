"""Reads the containers and the node selection of pod templates, and matches texts with globs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from typing import Final

from webhook.objects.lists import EXPRESSIONS
from webhook.objects.tree import Json, get, get_map, get_maps

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The key of required terms in each kind of affinity."""

_WILDCARDS: Final = frozenset("*?[")


def containers(template: Json) -> Iterator[dict[str, Json]]:
    """Yields the containers and init containers of a template, except values that are not maps."""
    lists = (get_maps(template, ("spec", kind)) for kind in ("containers", "initContainers"))
    return chain.from_iterable(lists)


def main_container(template: Json, names: Collection[str], resources: Collection[str]) -> dict[str, Json]:
    """Returns the container with the most variables and mounted volumes that have one of the names.

    If ``names`` is empty, limits of ``resources`` and the key ``claims`` are counted instead. If several
    containers have the maximum, returns the first of them. Without containers, returns an empty map.
    """
    if len(items := get_maps(template, ("spec", "containers"))) <= 1:
        return items[0] if items else {}
    is_counted = (names or (*resources, "claims")).__contains__
    return max(items, key=lambda container: sum(map(is_counted, _names_in(container, names))))


def _names_in(container: Json, names: Collection[str]) -> Iterator[Json]:
    parts = (("env",), ("volumeMounts",)) if names else (("resources",), ("resources", "limits"))
    for part in parts:
        yield from (
            (item.get("name") for item in get_maps(container, part)) if names else get_map(container, part)
        )


@dataclass(frozen=True)
class Selection:
    """The node selection of a pod template.

    Attributes:
        selector: The node selector.
        terms: The terms of the required node affinity, each as its expressions by key; None without terms.
    """

    selector: Mapping[str, Json]
    terms: tuple[Mapping[str, Sequence[Json]], ...] | None


def read_selection(template: Json) -> Selection:
    """Returns the node selection of a template. A caller should keep the result: long terms take time."""
    affinity_path = ("spec", "affinity", "nodeAffinity", REQUIRED)
    terms = get(template, (*affinity_path, "nodeSelectorTerms"))
    expressions = tuple(map(_by_key, get_maps(terms, ()))) if isinstance(terms, list) and terms else None
    return Selection(get_map(template, ("spec", "nodeSelector")), expressions)


def _by_key(term: Json) -> Mapping[str, Sequence[Json]]:
    by_key: dict[str, list[Json]] = {}
    for item in (item for name in EXPRESSIONS for item in get_maps(term, (name,))):
        if isinstance(item.get("key"), str):
            by_key.setdefault(item["key"], []).append(item)
    return by_key


def types_of(selection: Selection, labels: Sequence[str]) -> Collection[str]:
    """Returns the instance types in a pod's node selector or, if it has none, in its node affinity terms.

    Empty if the selector has none, and one of the terms names no type with the operator In.
    """
    types = [value for label in labels if isinstance(value := selection.selector.get(label), str)]
    lists = ([*chain(*(values_of(term.get(key, ())) for key in labels))] for term in selection.terms or ())
    alternatives = [types] if types else [*lists]
    return dict.fromkeys(chain.from_iterable(alternatives) if all(alternatives) else ())


def values_of(expressions: Sequence[Json], operator: Json = "In") -> Iterator[str]:
    """Yields the values of the expressions that have this operator."""
    for item in expressions:
        values = item.get("values")
        if item.get("operator") == operator and isinstance(values, list):
            yield from (value for value in values if isinstance(value, str))


def permits(selection: Selection, labels: Mapping[str, tuple[str, ...]]) -> bool:
    """Returns whether a node selection permits nodes whose labels can have these values.

    Requirements on other labels are ignored. The values are patterns as in `matches`.
    """
    pairs = ((selection.selector.get(label), values) for label, values in labels.items())
    if not all(value is None or _any_matches([value], values) for value, values in pairs):
        return False
    return selection.terms is None or any(
        all(_allows(item, labels[key]) for key, items in term.items() if key in labels for item in items)
        for term in selection.terms
    )


def _allows(expression: Json, label_values: tuple[str, ...]) -> bool:
    values = expression.get("values")
    listed_values = values if isinstance(values, list) else []
    match expression.get("operator"):
        case "In":
            return _any_matches(listed_values, label_values)
        case "NotIn":
            return any(value not in listed_values for value in label_values)
        case operator:
            return bool(operator != "DoesNotExist")


def is_glob(text: str) -> bool:
    """Returns whether a text has wildcards."""
    return not _WILDCARDS.isdisjoint(text)


def matches(text: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether a text matches one of the patterns. ``*`` and ``?`` are wildcards, as in file names.

    A pattern that begins with ``!`` excludes texts. If all patterns exclude texts, every other text matches.
    """
    return (_cached_matches if len(text) < 64 else _matches)(text, patterns)  # noqa: PLR2004


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    included, globs, excluded = _split_patterns(patterns)
    if excluded and matches(text, excluded):
        return False
    if text in included or any(fnmatchcase(text, glob) for glob in globs):
        return True
    return bool(excluded) and not included


_cached_matches: Final = lru_cache(maxsize=4096)(_matches)


@lru_cache(maxsize=4096)
def _split_patterns(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """Returns the patterns without ``!``, the globs among them, and the patterns that follow a ``!``."""
    included = [text for text in patterns if not text.startswith("!")]
    globs = tuple(filter(is_glob, included))
    return frozenset(included), globs, tuple(text[1:] for text in patterns if text.startswith("!"))


def _any_matches(values: list[Json], patterns: tuple[str, ...]) -> bool:
    """Returns whether one of the values is a text that matches a pattern."""
    return any(isinstance(value, str) and matches(value, patterns) for value in values)

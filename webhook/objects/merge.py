"""Merges a fragment into a pod template by Kubernetes identity: it adds, and never replaces a list."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from common.pointers import field_name, pointer
from webhook.objects.lists import DEFAULTS, EXPRESSIONS, IDENTITY, Kind, kind, step
from webhook.objects.tree import Json, Path, as_list, as_map, digest, get, same, shared, with_entry

OTHER_CONTAINERS: Final[dict[str | int, str]] = {
    "containers": "initContainers",
    "initContainers": "containers",
}
"""Lists that share one set of names."""

UNSAID: Final[dict[Path, str]] = {("spec", "schedulerName"): "default-scheduler"}
"""A template's default values: the API server writes these into Pods, and into templates of its own kinds,
before it calls webhooks (``SetDefaults_PodSpec``), and writes them again if they are removed."""

LONGEST_TERMS: Final = 2000
"""Maximum number of node selector terms of a job to which a rule adds.

Each gets the rule's expression, some eighty characters, and ten digits in the record: with more, the record
approaches the 256 KiB that Kubernetes allows for the annotations of a Pod, and the job etcd's 1.5 MiB.
"""


Additions = dict[str, str | list[str]]
"""The additions: by pointer of a map entry the digest of its value, by pointer of a list those of elements.

After the digest of a Pod's variable there is, after a space, the value that it replaced.
"""


class OnConflict(StrEnum):
    """What happens if the user has chosen another value."""

    KEEP = "keep"
    OVERRIDE = "override"
    DENY = "deny"


@dataclass(frozen=True)
class Conflict:
    """A position with another value of the user's."""

    path: str
    theirs: Json
    ours: Json


@dataclass
class Merge:
    """Merges one fragment into a template; collects the additions and the conflicts.

    Attributes:
        at: The path of the template in the object, for messages.
        on_conflict: Whether the user's choice stays.
        additions: Receives the additions.
        before: Names; an added element goes before the first element with one of them.
        places: Receives the paths in the template of all that is set, elements by `lists.step`, unless None.
    """

    at: Path
    on_conflict: OnConflict = OnConflict.KEEP
    additions: Additions = field(default_factory=dict)
    before: Collection[str] = ()
    conflicts: list[Conflict] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    whole: Json = None
    places: list[Path] | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the template now has the whole fragment."""
        return not self.missing and (not self.conflicts or self.on_conflict is OnConflict.OVERRIDE)

    def apply(self, theirs: Json, ours: Json, path: Path = ()) -> Json:
        """Returns the template, or a map at a path in it, with the fragment; the same if it has all of it.

        Raises:
            WrongTypeError: The template has a type that Kubernetes does not allow.
        """
        old = theirs if isinstance(theirs, dict) else {} if theirs is None else as_map(theirs, self.at + path)
        self.whole = self.whole if path else theirs
        changes = {}
        for key, value in ours.items():
            before, place = old.get(key), (*path, key)
            of_map = isinstance(value, dict) and (value or before is not None)
            new = (self.apply if of_map else self._value)(before, value, place)
            if new is not before:
                changes[key] = new
        return {**old, **changes} if changes or theirs is None else theirs

    def _value(self, theirs: Json, ours: Json, path: Path) -> Json:
        of = kind(path) if isinstance(ours, list) else Kind.VALUE
        if of is not Kind.VALUE:
            return (self._terms if of is Kind.TERMS else self._list)(theirs, ours, path)
        if theirs is not None and same(theirs, ours):
            return theirs
        if theirs is None or theirs == UNSAID.get(path):
            self.additions[pointer(path)] = digest(ours)
            if self.places is not None:
                self._placed(path)
            return ours
        return self._settle(theirs, ours, path)

    def _list(self, theirs: Json, ours: list[Json], path: Path) -> Json:
        result = old = [] if theirs is None else as_list(theirs, self.at + path)
        keys = IDENTITY.get(str(path[-1]), ())
        for item in ours:
            index = _find(result, item, keys) if result else None
            if index is None:
                if path[-1] in OTHER_CONTAINERS and (problem := self._unfit(item, path)):
                    self.missing.append(problem)
                else:
                    end = self._end(result) if self.before else len(result)
                    result = [*result[:end], item, *result[end:]]
                    self._note(pointer(path), item)
                    if self.places is not None:
                        self._placed(path, item)
                continue
            if self.before and index > self._end(result):
                last = " or ".join(self.before)
                self.missing.append(f"move {item['name']!r} before {last} in {field_name(self.at + path)}")
            if not same(result[index], item):
                new = self._element(result[index], item, path)
                if new is not result[index]:
                    result = [*result[:index], new, *result[index + 1 :]]
        return theirs if result is old else result

    def _end(self, items: list[Json]) -> int:
        """Returns the index at which to add an element. No call per element: the list is the user's."""
        for at, item in enumerate(items):
            if item.__class__ is dict and "name" in item and item["name"] in self.before:
                return at
        return len(items)

    def _unfit(self, item: Json, path: Path) -> str:
        """Returns why a container cannot be added; empty if it can."""
        if _is_amendment(item, path):
            return f"{field_name(self.at + path)} has no {item['name']!r} to amend"
        # Kubernetes has one set of names for both lists; two equal names make an invalid Pod.
        other = OTHER_CONTAINERS[path[-1]]
        items = get(self.whole, (*path[:-1], other))
        taken = isinstance(items, list) and _find(items, item, ("name",)) is not None
        if not taken:
            return ""
        return f"{field_name(self.at + path)} cannot have {item['name']!r}, a name that is taken in {other}"

    def _element(self, theirs: Json, ours: Json, path: Path) -> Json:
        place = (*path, f"[{ours.get('name', next(iter(ours.values())))}]")
        if _is_amendment(ours, path):
            return self.apply(theirs, ours, place)
        if self.on_conflict is OnConflict.OVERRIDE:
            self._placed(path, ours)
            if not self.at and path[-1] == "env" and isinstance(value := theirs.get("value"), str):
                self._note(pointer(path), ours, f" {value}")  # a Pod may be sent again, without the rule
        return self._settle(theirs, ours, place)

    def _settle(self, theirs: Json, ours: Json, path: Path) -> Json:
        self.conflicts.append(Conflict(field_name(self.at + path), theirs, ours))
        if self.on_conflict is not OnConflict.OVERRIDE:
            return theirs
        self._placed(path)
        return ours

    def _terms(self, theirs: Json, ours: list[Json], path: Path) -> Json:
        old = as_list(theirs, self.at + path)
        if len(old) > LONGEST_TERMS:
            self.refused.append(
                f"{len(old)} terms are more than the {LONGEST_TERMS} that may each get a requirement: "
                "combine them, for example into one expression with operator In, or opt out: "
                f"{field_name(self.at + path)}"
            )
            return theirs
        expressions = [(name, item) for name in EXPRESSIONS for item in ours[0].get(name) or ()]
        # A term without requirements selects no node; an added requirement would make it select some.
        place = pointer(path)
        new = [self._term(term, expressions, path, place) if _selects(term) else term for term in old]
        if not old:
            new = [self._term({}, expressions, path, place)]
        return theirs if shared(old, new) is old else new

    def _term(self, term: Json, expressions: Iterable[tuple[str, Json]], path: Path, place: str) -> Json:
        at = self.at + path
        for name, expression in expressions:
            old = as_list(as_map(term, at).get(name), (*at, name))
            if not old or not any(same(item, expression) for item in old):
                # Taking back leaves no empty list, so the compared value has none either.
                self._note(place, [term if old else with_entry(term, name, None), expression])
                if self.places is not None:
                    self._placed((*path, "", name), expression)
                term = {**term, name: [*old, expression]}
        return term

    def _placed(self, path: Path, item: Json = None) -> None:
        """Stores that the value at a path, or an element of the list there, is the fragment's."""
        if self.places is not None:
            self.places.append(path if item is None else (*path, step(item, path)))

    def _note(self, place: str, value: Json, replaced: str = "") -> None:
        noted = self.additions.setdefault(place, [])
        if isinstance(noted, list):
            noted.append(digest(value) + replaced)


def _find(items: list[Json], wanted: Json, keys: tuple[str, ...]) -> int | None:
    # From the end: of two equal names the last is used, and operators append theirs.
    for index in reversed(range(len(items))):
        item = items[index]
        if keys and isinstance(item, dict):
            for key in keys:
                if item.get(key, DEFAULTS.get(key)) != wanted.get(key, DEFAULTS.get(key)):
                    break
            else:
                return index
        elif same(item, wanted):
            return index
    return None


def _is_amendment(item: Json, path: Path) -> bool:
    """Returns whether a container changes an existing one: then it has no image."""
    return path[-1] in OTHER_CONTAINERS and "image" not in item


def _selects(term: Json) -> bool:
    """Returns whether a node selector term can match: one without requirements matches no node (core/v1)."""
    if isinstance(term, dict):
        return bool(term.get("matchExpressions") or term.get("matchFields"))
    return term is not None

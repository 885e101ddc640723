"""Merging a fragment into a pod template by Kubernetes identity: adds, never replaces a list."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from webhook.engine.table import OnConflict
from webhook.engine.tree import Json, Path, as_list, as_map, digest, get, pointer, same

IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "env": ("name",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "claims": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""What makes two elements of a list the same one: the list map keys of the Pod API.

Source: ``x-kubernetes-list-map-keys`` in the OpenAPI of Kubernetes 1.36. Lists that are not
here (tolerations, affinity terms) are atomic there; their elements are told apart by content.
"""

OTHER_CONTAINERS: Final = {"containers": "initContainers", "initContainers": "containers"}
"""Lists that share one set of names."""

ATOMIC: Final = frozenset({"command", "args"})
"""Lists that mean something only as a whole."""

TERMS: Final = "nodeSelectorTerms"
"""Its elements are ORed, so a requirement is met only when every one of them carries it."""

Additions = dict[str, str | list[str]]
"""What was added: pointer of a map entry -> digest of its value, or of a list -> digests of elements."""


@dataclass(frozen=True)
class Conflict:
    """A place where the user already chose differently."""

    path: str
    theirs: Json
    ours: Json


@dataclass
class Merge:
    """One fragment on its way into a template; collects what it added and what stood in the way.

    Attributes:
        at: path of the template in the object, for messages.
        on_conflict: whether the user's choice stays.
    """

    at: Path
    on_conflict: OnConflict = OnConflict.KEEP
    additions: Additions = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    whole: Json = None

    def apply(self, template: Json, fragment: Json) -> Json:
        """The template with the fragment in it; the same object where nothing had to be added.

        Raises:
            WrongTypeError: where the template has a type that Kubernetes does not allow.
        """
        self.whole = template
        return self._map(template, fragment, ())

    def _map(self, theirs: Json, ours: Json, path: Path) -> Json:
        old = as_map(theirs, self.at + path)
        changes = {}
        for key, value in ours.items():
            new = self._value(old.get(key), value, (*path, key))
            if new is not old.get(key):
                changes[key] = new
        return {**old, **changes} if changes or theirs is None else theirs

    def _value(self, theirs: Json, ours: Json, path: Path) -> Json:
        if isinstance(ours, dict):
            return self._map(theirs, ours, path)
        if isinstance(ours, list) and path[-1] not in ATOMIC:
            merge = self._terms if path[-1] == TERMS else self._list
            return merge(theirs, ours, path)
        if theirs is None:
            self.additions[pointer(path)] = digest(ours)
            return ours
        return theirs if same(theirs, ours) else self._settle(theirs, ours, path)

    def _list(self, theirs: Json, ours: list[Json], path: Path) -> Json:
        result = old = as_list(theirs, self.at + path)
        keys = IDENTITY.get(str(path[-1]), ())
        for item in ours:
            found = _find(result, item, keys)
            if found is None:
                problem = self._unfit(item, path)
                if problem:
                    self.missing.append(problem)
                else:
                    result = [*result, item]
                    self._note(path, item)
            elif not same(result[found], item):
                new = self._element(result[found], item, path)
                result = [new if i == found else other for i, other in enumerate(result)]
        return result if _changed(result, old) else theirs

    def _unfit(self, item: Json, path: Path) -> str:
        """Why an element cannot be added as it is; empty where it can."""
        if path[-1] not in OTHER_CONTAINERS:
            return ""
        if _is_amendment(item, path):
            return f"{path[-1]} has no {item['name']!r} to amend"
        # Kubernetes has one set of names for both lists; two of one name are no Pod.
        other = OTHER_CONTAINERS[path[-1]]
        items = get(self.whole, (*path[:-1], other))
        taken = isinstance(items, list) and _find(items, item, ("name",)) is not None
        return f"{path[-1]} cannot have {item['name']!r}, a name that is taken in {other}" if taken else ""

    def _element(self, theirs: Json, ours: Json, path: Path) -> Json:
        place = (*path, f"[{ours.get('name', next(iter(ours.values())))}]")
        if _is_amendment(ours, path):
            return self._map(theirs, ours, place)
        return self._settle(theirs, ours, place)

    def _settle(self, theirs: Json, ours: Json, path: Path) -> Json:
        self.conflicts.append(Conflict(pointer(self.at + path), theirs, ours))
        return ours if self.on_conflict is OnConflict.OVERRIDE else theirs

    def _terms(self, theirs: Json, ours: list[Json], path: Path) -> Json:
        old = as_list(theirs, self.at + path)
        expressions = [(kind, item) for kind, items in ours[0].items() for item in items]
        # A term without requirements selects no node at all; one more would make it select some.
        new = [self._term(term, expressions, path) if _selects(term) else term for term in old]
        if not old:
            new = [self._term({}, expressions, path)]
        return new if _changed(new, old) else theirs

    def _term(self, term: Json, expressions: Iterable[tuple[str, Json]], path: Path) -> Json:
        for kind, expression in expressions:
            old = as_list(as_map(term, self.at + path).get(kind), (*self.at, *path, kind))
            if not any(same(item, expression) for item in old):
                self._note(path, [term, expression])
                term = {**term, kind: [*old, expression]}
        return term

    def _note(self, path: Path, value: Json) -> None:
        noted = self.additions.setdefault(pointer(path), [])
        if isinstance(noted, list):
            noted.append(digest(value))


def _find(items: list[Json], wanted: Json, keys: tuple[str, ...]) -> int | None:
    # From the end: of two variables with one name the last counts, and operators append theirs.
    for index in reversed(range(len(items))):
        item = items[index]
        if keys and isinstance(item, dict):
            if all(_key(item, key) == _key(wanted, key) for key in keys):
                return index
        elif same(item, wanted):
            return index
    return None


def _key(item: Json, key: str) -> Json:
    return item.get(key, "TCP" if key == "protocol" else None)


def _is_amendment(item: Json, path: Path) -> bool:
    """A container without an image speaks about one that is there; with one it is a container of its own."""
    return path[-1] in OTHER_CONTAINERS and "image" not in item


def _selects(term: Json) -> bool:
    """Whether a node selector term can match: one without requirements matches no node (core/v1)."""
    if isinstance(term, dict):
        return bool(term.get("matchExpressions") or term.get("matchFields"))
    return term is not None


def _changed(new: list[Json], old: list[Json]) -> bool:
    return len(new) != len(old) or any(a is not b for a, b in zip(new, old, strict=True))

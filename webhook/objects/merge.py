"""Merges a rule's fragment into a pod template, and identifies list elements as Kubernetes does."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from common.pointers import field_name, pointer
from webhook.objects import messages
from webhook.objects.lists import DEFAULTS, EXPRESSIONS, IDENTITY_KEYS, ListKind, list_kind, path_part
from webhook.objects.tree import Json, Path, as_list, as_map, digest, get, same, share, with_entry

OTHER_CONTAINERS: Final[dict[str | int, str]] = {
    "containers": "initContainers",
    "initContainers": "containers",
}
"""For each list of containers, the other list. A Pod is invalid if a name occurs in both lists."""

API_DEFAULTS: Final[dict[Path, str]] = {("spec", "schedulerName"): "default-scheduler"}
"""Default values that the API server writes into Pods, and into templates of built-in kinds, before it calls
webhooks (``SetDefaults_PodSpec``). A rule replaces them as if the user had not set them."""

MAX_SELECTOR_TERMS: Final = 2000
"""Maximum number of node selector terms to which a rule may add an expression.

For each term, an expression adds about eighty characters to the job and ten digits to the record. With more
terms, the record could exceed 256 KiB (Kubernetes' limit), or the job could exceed 1.5 MiB (etcd's limit).
"""


Additions = dict[str, str | list[str]]
"""What was added, by JSON pointer: the digest of a map entry, or the digests of the elements of a list.

If a variable of a Pod was replaced, a space and its old value follow the digest.
"""


class OnConflict(StrEnum):
    """What a rule does if the user has chosen another value."""

    KEEP = "keep"
    OVERRIDE = "override"
    DENY = "deny"


@dataclass(frozen=True)
class Conflict:
    """A field to which the user and the rule give different values."""

    path: str
    user_value: Json
    rule_value: Json


@dataclass
class Merge:
    """Merges one fragment into a template, and collects the additions and the conflicts.

    Attributes:
        root: The path of the template in the object, for messages.
        on_conflict: What to do if the user has chosen another value.
        additions: The dictionary to which additions are written.
        before: Names of elements. An added element is inserted before the first element with such a name.
        obstacles: Messages about parts of the fragment that cannot be added, or are in the wrong order.
        refusals: Messages about lists that are too long, so that nothing is added to them.
        template: The template before the merge; None until `apply` is called.
        written_paths: The path of each value that the merge has set. A path has the result of
            `lists.path_part` for an element of a list, and an empty text for a node selector term. None if
            the caller does not need the paths.
    """

    root: Path
    on_conflict: OnConflict = OnConflict.KEEP
    additions: Additions = field(default_factory=dict)
    before: Collection[str] = ()
    conflicts: list[Conflict] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    template: Json = None
    written_paths: list[Path] | None = None

    @property
    def has_all_values(self) -> bool:
        """Whether the template has all values of the fragment, except lists with `refusals`."""
        return not self.obstacles and (not self.conflicts or self.on_conflict is OnConflict.OVERRIDE)

    def apply(self, old: Json, fragment: Json, path: Path = ()) -> Json:
        """Returns ``old`` merged with the fragment; ``old`` itself if nothing changes.

        ``old`` is the template, or the map at ``path`` in the template.

        Raises:
            WrongTypeError: A value in the template has a type that Kubernetes does not allow.
        """
        old_map = old if isinstance(old, dict) else {} if old is None else as_map(old, self.root + path)
        self.template = self.template if path else old
        changes = {}
        for key, value in fragment.items():
            old_value, inner_path = old_map.get(key), (*path, key)
            is_map = isinstance(value, dict) and (value or old_value is not None)
            new_value = (self.apply if is_map else self._merge_value)(old_value, value, inner_path)
            if new_value is not old_value:
                changes[key] = new_value
        return {**old_map, **changes} if changes or old is None else old

    def _merge_value(self, user_value: Json, rule_value: Json, path: Path) -> Json:
        kind = list_kind(path) if isinstance(rule_value, list) else ListKind.VALUE
        if kind is not ListKind.VALUE:
            merge = self._merge_terms if kind is ListKind.TERMS else self._merge_list
            return merge(user_value, rule_value, path)
        if user_value is not None and same(user_value, rule_value):
            return user_value
        if user_value is None or user_value == API_DEFAULTS.get(path):
            self.additions[pointer(path)] = digest(rule_value)
            if self.written_paths is not None:
                self._store_path(path)
            return rule_value
        return self._keep_or_replace(user_value, rule_value, path)

    def _merge_list(self, user_list: Json, rule_list: list[Json], path: Path) -> Json:
        result = old_list = [] if user_list is None else as_list(user_list, self.root + path)
        keys = IDENTITY_KEYS.get(str(path[-1]), ())
        for item in rule_list:
            index = _find(result, item, keys) if result else None
            if index is None:
                if path[-1] in OTHER_CONTAINERS and (problem := self._explain_obstacle(item, path)):
                    self.obstacles.append(problem)
                else:
                    position = self._insertion_index(result) if self.before else len(result)
                    result = [*result[:position], item, *result[position:]]
                    self._note_digest(pointer(path), item)
                    if self.written_paths is not None:
                        self._store_path(path, item)
                continue
            if self.before and index > self._insertion_index(result):
                names, field_text = " and ".join(self.before), field_name(self.root + path)
                self.obstacles.append(messages.wrong_order(item["name"], names, field_text))
            if not same(result[index], item):
                new = self._merge_element(result[index], item, path)
                if new is not result[index]:
                    result = [*result[:index], new, *result[index + 1 :]]
        return user_list if result is old_list else result

    def _insertion_index(self, items: list[Json]) -> int:
        """Returns the index at which to add an element. Lists can be long, so the loop calls no function."""
        for index, item in enumerate(items):
            if item.__class__ is dict and "name" in item and item["name"] in self.before:
                return index
        return len(items)

    def _explain_obstacle(self, item: Json, path: Path) -> str:
        """Returns why a container cannot be added; empty if it can."""
        if _is_amendment(item, path):
            return messages.cannot_amend(field_name(self.root + path), item["name"])
        other = OTHER_CONTAINERS[path[-1]]
        items = get(self.template, (*path[:-1], other))
        is_taken = isinstance(items, list) and _find(items, item, ("name",)) is not None
        return messages.name_taken(field_name(self.root + path), item["name"], other) if is_taken else ""

    def _merge_element(self, user_value: Json, rule_value: Json, path: Path) -> Json:
        inner_path = (*path, f"[{rule_value.get('name', next(iter(rule_value.values())))}]")
        if _is_amendment(rule_value, path):
            return self.apply(user_value, rule_value, inner_path)
        if self.on_conflict is OnConflict.OVERRIDE:
            self._store_path(path, rule_value)
            if not self.root and path[-1] == "env" and isinstance(value := user_value.get("value"), str):
                self._note_digest(pointer(path), rule_value, f" {value}")  # so that `take_back` restores it
        return self._keep_or_replace(user_value, rule_value, inner_path)

    def _keep_or_replace(self, user_value: Json, rule_value: Json, path: Path) -> Json:
        self.conflicts.append(Conflict(field_name(self.root + path), user_value, rule_value))
        if self.on_conflict is not OnConflict.OVERRIDE:
            return user_value
        self._store_path(path)
        return rule_value

    def _merge_terms(self, user_terms: Json, rule_terms: list[Json], path: Path) -> Json:
        terms = as_list(user_terms, self.root + path)
        if len(terms) > MAX_SELECTOR_TERMS:
            field_text = field_name(self.root + path)
            self.refusals.append(messages.many_terms(len(terms), MAX_SELECTOR_TERMS, field_text))
            return user_terms
        expressions = [(name, item) for name in EXPRESSIONS for item in rule_terms[0].get(name) or ()]
        # A term without requirements selects no node. With an added requirement, it would select some nodes.
        key = pointer(path)
        result = [self._extend(term, expressions, path, key) if _selects(term) else term for term in terms]
        if not terms:
            result = [self._extend({}, expressions, path, key)]
        return user_terms if share(terms, result) is terms else result

    def _extend(self, term: Json, expressions: Iterable[tuple[str, Json]], path: Path, key: str) -> Json:
        """Returns a node selector term with the expressions; ``key`` is the pointer in the record."""
        terms_path = self.root + path
        for name, expression in expressions:
            items = as_list(as_map(term, terms_path).get(name), (*terms_path, name))
            if not items or not any(same(item, expression) for item in items):
                # The digest is of a term without empty lists, because `take_back` leaves no empty list.
                self._note_digest(key, [term if items else with_entry(term, name, None), expression])
                if self.written_paths is not None:
                    self._store_path((*path, "", name), expression)
                term = {**term, name: [*items, expression]}
        return term

    def _store_path(self, path: Path, item: Json = None) -> None:
        """Stores the path of a value from the fragment; with ``item``, the path of this list element."""
        if self.written_paths is not None:
            self.written_paths.append(path if item is None else (*path, path_part(item, path)))

    def _note_digest(self, list_pointer: str, value: Json, replaced_value: str = "") -> None:
        digests = self.additions.setdefault(list_pointer, [])
        if isinstance(digests, list):
            digests.append(digest(value) + replaced_value)


def _find(items: list[Json], element: Json, keys: tuple[str, ...]) -> int | None:
    # Searches from the end: Kubernetes uses the last of two equal names, and operators append variables.
    for index in reversed(range(len(items))):
        item = items[index]
        if keys and isinstance(item, dict):
            for key in keys:
                if item.get(key, DEFAULTS.get(key)) != element.get(key, DEFAULTS.get(key)):
                    break
            else:
                return index
        elif same(item, element):
            return index
    return None


def _is_amendment(item: Json, path: Path) -> bool:
    """Returns whether an element is a container without an image, which changes an existing container."""
    return path[-1] in OTHER_CONTAINERS and "image" not in item


def _selects(term: Json) -> bool:
    """Returns whether a node selector term can match a node. A term without requirements cannot (core/v1)."""
    if isinstance(term, dict):
        return bool(term.get("matchExpressions") or term.get("matchFields"))
    return term is not None

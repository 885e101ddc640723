"""Defines how the elements of each list in a pod template are identified, for patch, merge and record.

Kubernetes treats a list whose elements are not identified, such as ``command`` and ``args``, as one value.
Therefore patch and merge replace such a list in a pod template only as a whole.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from webhook.objects.tree import Json, canonical


class ListKind(Enum):
    """How the elements of a list relate to each other."""

    BY_KEY = "each element is identified by its keys, such as its name"
    ITEMS = "each element is identified by its content; the webhook appends elements"
    TERMS = "the elements are alternatives; the webhook extends every element and keeps their order"
    VALUE = "the whole list is one value"


IDENTITY_KEYS: Final[dict[str, tuple[str, ...]]] = {
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
"""The keys that identify an element, by the name of the list: the list map keys of the Pod API.

Source: ``x-kubernetes-list-map-keys`` in the OpenAPI of Kubernetes 1.36.
"""

DEFAULTS: Final = {"protocol": "TCP"}
"""The values that the API server sets for missing keys of `IDENTITY_KEYS`."""

APPENDABLE: Final = frozenset(
    {
        "tolerations",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        "readinessGates",
        "envFrom",
        "supplementalGroups",
        "add",
        "drop",
    }
)
"""Names of lists to which a rule may append: their elements have no keys and do not depend on each other.

Examples are affinity terms, tolerations, and the capabilities of security contexts.
"""

CONTAINERS: Final = ("containers", "initContainers")

TERMS: Final = "nodeSelectorTerms"
"""The list of node selector terms. A node needs to match only one term, so a rule extends all terms."""

EXPRESSIONS: Final = ("matchExpressions", "matchFields")
"""The two lists of a node selector term. In a label selector, such a list is one value."""


def list_kind(path: Sequence[str | int]) -> ListKind:
    """Returns the kind of the list at a path, by the list's key and, for expressions, by the parent list."""
    key = path[-1] if path else ""
    if key in IDENTITY_KEYS:
        return ListKind.BY_KEY
    if key == TERMS:
        return ListKind.TERMS
    if key in APPENDABLE or (key in EXPRESSIONS and len(path) > 2 and path[-3] == TERMS):  # noqa: PLR2004
        return ListKind.ITEMS
    return ListKind.VALUE


def identity(item: Json, path: Sequence[str | int]) -> tuple[str, ...]:
    """Returns what identifies an element of the list at a path: the values of its keys, or its content."""
    keys = IDENTITY_KEYS.get(str(path[-1]), ()) if path else ()
    if keys and isinstance(item, dict) and keys[0] in item:
        return tuple([canonical(item.get(key, DEFAULTS.get(key))) for key in keys])
    return "content", canonical(item)


def path_part(item: Json, path: Sequence[str | int]) -> str:
    """Returns the part of a path that selects an element of a list, and that stays valid if elements move."""
    if path[-1] in CONTAINERS and isinstance(item, dict):
        return f"[{item.get('name')}]"
    return f"[{','.join(identity(item, path))}]"


def find_old_indices(items: list[Json], old_items: list[Json], path: Sequence[str | int]) -> list[int | None]:
    """Returns, for each item, the index of the old item with the same `identity`; None for a new item.

    No index occurs twice. Node selector terms are identified by their position if their number is unchanged.
    A user can make the lists long, so the time is proportional to their length.
    """
    if list_kind(path) is ListKind.TERMS and len(items) == len(old_items):
        return [*range(len(items))]
    length = min(len(items), len(old_items))
    start = next((i for i in range(length) if items[i] is not old_items[i]), length)
    end = next((i for i in range(length - start) if items[-1 - i] is not old_items[-1 - i]), length - start)
    indices: dict[tuple[str, ...], deque[int]] = {}
    for index in range(start, len(old_items) - end):
        indices.setdefault(identity(old_items[index], path), deque()).append(index)
    middle_items = items[start : len(items) - end]
    queues = (indices.get(identity(item, path)) if indices else None for item in middle_items)
    middle_indices = (queue.popleft() if queue else None for queue in queues)
    return [*range(start), *middle_indices, *range(len(old_items) - end, len(old_items))]

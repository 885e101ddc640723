"""The lists of a pod template: which of them may be compared or merged by element, and how.

Patch, merge and record use this. For a list that is not named here, such as command and args, Kubernetes
treats the list as one value, and so does the engine: it never reorders, merges or compares its parts.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from webhook.objects.tree import Json, canonical


class Kind(Enum):
    """How the elements of a list relate to each other."""

    BY_KEY = "elements are the same one where their keys are equal"
    ITEMS = "each element is identified by its content; the webhook appends elements"
    TERMS = "alternatives, each of which the webhook adds to; their order is the author's"
    VALUE = "one value"


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
"""The keys that identify an element of a list: the list map keys of the Pod API.

Source: ``x-kubernetes-list-map-keys`` in the OpenAPI of Kubernetes 1.36.
"""

DEFAULTS: Final = {"protocol": "TCP"}
"""The API's defaults for these keys."""

ADDED_TO: Final = frozenset(
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
"""Lists that are atomic in the API, but whose elements are independent of each other: a rule appends to them.

These are affinity terms, tolerations, and the capabilities and groups of security contexts.
"""

CONTAINERS: Final = ("containers", "initContainers")

TERMS: Final = "nodeSelectorTerms"
"""The elements are ORed, so a requirement is met only if every element has it."""

EXPRESSIONS: Final = ("matchExpressions", "matchFields")
"""The lists of a node selector term; elsewhere a list of this name is part of a selector, and one value."""


def kind(path: Sequence[str | int]) -> Kind:
    """Returns the kind of the list at a path, which depends on its key and, for expressions, on the term."""
    key = path[-1] if path else ""
    if key in IDENTITY:
        return Kind.BY_KEY
    if key == TERMS:
        return Kind.TERMS
    if key in ADDED_TO or (key in EXPRESSIONS and len(path) > 2 and path[-3] == TERMS):  # noqa: PLR2004
        return Kind.ITEMS
    return Kind.VALUE


def element(item: Json, path: Sequence[str | int]) -> tuple[str, ...]:
    """Returns what identifies an element of a list, changed or not: its keys, or its whole content."""
    keys = IDENTITY.get(str(path[-1]), ()) if path else ()
    if keys and isinstance(item, dict) and keys[0] in item:
        return tuple([canonical(item.get(key, DEFAULTS.get(key))) for key in keys])
    return "says", canonical(item)


def step(item: Json, path: Sequence[str | int]) -> str:
    """Returns an element of a list as a part of a path that stays valid when elements move."""
    if path[-1] in CONTAINERS and isinstance(item, dict):
        return f"[{item.get('name')}]"
    return f"[{','.join(element(item, path))}]"


def paired(items: list[Json], others: list[Json], path: Sequence[str | int]) -> list[int | None]:
    """Returns the index of each item's counterpart in another state of the list; each index is used once.

    An alternative has its position as identity, because one more alternative would widen the choice. The time
    is proportional to the length of the lists, which are the user's, and not to its square.
    """
    if kind(path) is Kind.TERMS and len(items) == len(others):
        return [*range(len(items))]
    shorter = min(len(items), len(others))
    start = next((i for i in range(shorter) if items[i] is not others[i]), shorter)
    end = next((i for i in range(shorter - start) if items[-1 - i] is not others[-1 - i]), shorter - start)
    free: dict[tuple[str, ...], deque[int]] = {}
    for index in range(start, len(others) - end):
        free.setdefault(element(others[index], path), deque()).append(index)
    rest = (free.get(element(item, path)) if free else None for item in items[start : len(items) - end])
    middle = (places.popleft() if places else None for places in rest)
    return [*range(start), *middle, *range(len(others) - end, len(others))]

"""What each list of a pod template is: the one place that says which lists may be taken apart, and how.

Patch, merge and record all ask here. What is not named here, command and args among it, Kubernetes
treats as one value, and so does everything in the engine: it is never reordered, merged or compared in parts.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from webhook.objects.tree import Json, canonical


class Kind(Enum):
    """What the elements of a list are to each other."""

    BY_KEY = "elements are the same one where their keys are equal"
    ITEMS = "elements stand for themselves, and the webhook adds to them"
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
"""What makes two elements of a list the same one: the list map keys of the Pod API.

Source: ``x-kubernetes-list-map-keys`` in the OpenAPI of Kubernetes 1.36.
"""

DEFAULTS: Final = {"protocol": "TCP"}
"""The API's defaults of these keys."""

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
"""Lists that are atomic to the API, but whose elements do not depend on each other: a rule appends to them.

The lists of affinity terms, tolerations, and of the security context capabilities and groups.
"""

CONTAINERS: Final = ("containers", "initContainers")

TERMS: Final = "nodeSelectorTerms"
"""Its elements are ORed, so a requirement is met only when every one of them carries it."""

EXPRESSIONS: Final = ("matchExpressions", "matchFields")
"""The lists of a node selector term; anywhere else a list of this name is part of a selector, one value."""


def kind(path: Sequence[str | int]) -> Kind:
    """What the list at a path is: by its key alone, but for the expressions of a node selector term."""
    key = path[-1] if path else ""
    if key in IDENTITY:
        return Kind.BY_KEY
    if key == TERMS:
        return Kind.TERMS
    if key in ADDED_TO or (key in EXPRESSIONS and len(path) > 2 and path[-3] == TERMS):  # noqa: PLR2004
        return Kind.ITEMS
    return Kind.VALUE


def element(item: Json, path: Sequence[str | int]) -> tuple[str, ...]:
    """What makes an element of a list the same one, changed or not: its keys, or all that it says."""
    keys = IDENTITY.get(str(path[-1]), ()) if path else ()
    if keys and isinstance(item, dict) and keys[0] in item:
        return tuple([canonical(item.get(key, DEFAULTS.get(key))) for key in keys])
    return "says", canonical(item)


def step(item: Json, path: Sequence[str | int]) -> str:
    """An element of the list at a path as a part of a path that stays true when elements move."""
    if path[-1] in CONTAINERS and isinstance(item, dict):
        return f"[{item.get('name')}]"
    return f"[{','.join(element(item, path))}]"


def paired(items: list[Json], others: list[Json], path: Sequence[str | int]) -> list[int | None]:
    """For each item of a list the index of its counterpart in another state of it; each used once.

    Nobody appends to alternatives without widening them, so each is compared with the one at its place. The
    time grows with the length of the lists and not with its square: they are the user's.
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

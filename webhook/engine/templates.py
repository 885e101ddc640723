"""What a pod template says: containers, resources, volumes, instance types."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from common.quantities import thousandths
from webhook.engine.tree import Json, get, map_at, maps_at, same, text_of

_GLOB: Final = frozenset("*?[")


def containers(template: Json) -> Iterator[dict[str, Json]]:
    """Every container and init container of a template that is a map."""
    return chain.from_iterable(maps_at(template, ("spec", kind)) for kind in ("containers", "initContainers"))


def first_container(template: Json) -> dict[str, Json]:
    """The container that the operator treats as the main one; an empty map where there is none."""
    return map_at(template, ("spec", "containers", 0))


def requested(template: Json, resources: tuple[str, ...]) -> str | None:
    """The first of the resources that a container of the template asks for, none for a quantity of 0."""
    for container in containers(template):
        for kind in ("limits", "requests"):
            asked = map_at(container, ("resources", kind))
            for name in resources if asked else ():
                if str(asked.get(name) or "0").strip("0.") != "":
                    return name
    return None


def asks_for(template: Json, wanted: Mapping[str, int]) -> str | None:
    """The first of the resources of which a pod asks for at least that number; 0 is any amount."""
    for name, least in wanted.items():
        if (amount(template, name) >= least * 1000) if least else requested(template, (name,)):
            return name
    return None


def amount(template: Json, name: str) -> int:
    """Thousandths of a resource that a pod asks for, as kube-scheduler counts it.

    As ``PodRequests`` in ``k8s.io/component-helpers/resource``: containers and sidecars run together, an init
    container runs beside the sidecars before it. A request that is not given is as the limit: the API server
    stores it so.
    """
    sidecars = peak = 0
    for container in maps_at(template, ("spec", "initContainers")):
        asked = _asked(container, name)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            asked = 0
        peak = max(peak, sidecars + asked)
    return max(peak, sidecars + sum(_asked(c, name) for c in maps_at(template, ("spec", "containers"))))


def _asked(container: Json, name: str) -> int:
    found = (map_at(container, ("resources", kind)).get(name) for kind in ("requests", "limits"))
    return thousandths(str(next((value for value in found if value is not None), "0")))


def tolerated(template: Json, taints: Mapping[str, tuple[str, ...]]) -> str | None:
    """The first toleration of the template that is of one of the taints, values by key; None if none is."""
    for item in maps_at(template, ("spec", "tolerations")):
        key, value = item.get("key"), text_of(item.get("value") or "")
        if isinstance(key, str) and _among([value], taints.get(key, ())):
            return f"{key}={value}" if value else key
    return None


def has_volume(template: Json, names: tuple[str, ...]) -> bool:
    """Whether a template declares a volume of one of the names."""
    return any(item.get("name") in names for item in maps_at(template, ("spec", "volumes")))


def mounts_otherwise(template: Json, mount: Json) -> bool:
    """Whether the first container mounts something else than a volume mount at that mount's place."""
    mounts = maps_at(first_container(template), ("volumeMounts",))
    here = [item for item in mounts if item.get("mountPath") == mount["mountPath"]]
    return bool(here) and not same(here[-1], mount)


def admits(template: Json, labels: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether the template's own node selector and affinity leave nodes with such labels open.

    Args:
        template: of the pods.
        labels: the values that the nodes can have, by key; ``*`` and ``?`` as in file names.
    """
    selector = map_at(template, ("spec", "nodeSelector"))
    chosen = ((selector.get(label), values) for label, values in labels.items())
    if not all(value is None or _among([value], values) for value, values in chosen):
        return False
    required = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = get(template, (*required, "nodeSelectorTerms"))
    return not (isinstance(terms, list) and terms) or any(
        all(_admits(item, labels) for item in maps_at(term, ("matchExpressions",)))
        for term in terms
        if isinstance(term, dict)
    )


def _admits(expression: Json, labels: Mapping[str, tuple[str, ...]]) -> bool:
    key, values = expression.get("key"), expression.get("values")
    wanted = labels.get(key) if isinstance(key, str) else None
    if wanted is None:
        return True
    listed = values if isinstance(values, list) else []
    match expression.get("operator"):
        case "In":
            return _among(listed, wanted)
        case "NotIn":
            return any(value not in listed for value in wanted)
        case operator:
            return bool(operator != "DoesNotExist")


def _among(values: list[Json], allowed: tuple[str, ...]) -> bool:
    """Whether one of the values is allowed."""
    if any(value in values for value in allowed):
        return True
    globs = [pattern for pattern in allowed if not _GLOB.isdisjoint(pattern)]
    return any(fnmatchcase(value, glob) for glob in globs for value in values if isinstance(value, str))

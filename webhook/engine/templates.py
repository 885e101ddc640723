"""What a pod template says: containers, resources, volumes, instance types."""

from collections.abc import Iterator
from itertools import chain

from webhook.engine.tree import Json, get, map_at, maps_at, same


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


def has_volume(template: Json, names: tuple[str, ...]) -> bool:
    """Whether a template declares a volume of one of the names."""
    return any(item.get("name") in names for item in maps_at(template, ("spec", "volumes")))


def mounts_otherwise(template: Json, mount: Json) -> bool:
    """Whether the first container mounts something else than a volume mount at that mount's place."""
    mounts = maps_at(first_container(template), ("volumeMounts",))
    here = [item for item in mounts if item.get("mountPath") == mount["mountPath"]]
    return bool(here) and not same(here[-1], mount)


def admits_type(template: Json, label: str, name: str) -> bool:
    """Whether the template's own node selector and affinity leave nodes of an instance type open."""
    if get(template, ("spec", "nodeSelector", label)) not in (None, name):
        return False
    required = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = get(template, (*required, "nodeSelectorTerms"))
    return not (isinstance(terms, list) and terms) or any(
        all(_admits(item, name) for item in maps_at(term, ("matchExpressions",)) if item.get("key") == label)
        for term in terms
        if isinstance(term, dict)
    )


def _admits(expression: Json, value: str) -> bool:
    values = expression.get("values")
    listed = isinstance(values, list) and value in values
    match expression.get("operator"):
        case "In":
            return listed
        case "NotIn":
            return not listed
        case operator:
            return bool(operator != "DoesNotExist")

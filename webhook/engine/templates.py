"""What a pod template says: containers, resources, volumes, instance types."""

from webhook.engine.table import Candidates
from webhook.engine.tree import Json, get, map_at, maps_at, same


def containers(template: Json) -> list[dict[str, Json]]:
    """Every container and init container of a template that is a map."""
    return [*maps_at(template, ("spec", "containers")), *maps_at(template, ("spec", "initContainers"))]


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


def admitted_types(template: Json, candidates: Candidates) -> tuple[str, ...]:
    """The table's instance types that the template's own node selector and affinity leave open."""
    label = candidates.instance_type_label
    chosen = get(template, ("spec", "nodeSelector", label))
    required = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = get(template, (*required, "nodeSelectorTerms"))

    def admitted(name: str) -> bool:
        return not (isinstance(terms, list) and terms) or any(
            all(
                _admits(item, name)
                for item in maps_at(term, ("matchExpressions",))
                if item.get("key") == label
            )
            for term in terms
            if isinstance(term, dict)
        )

    return tuple(name for name in candidates.instance_types if chosen in (None, name) and admitted(name))


def names_type(template: Json, candidates: Candidates) -> bool:
    """Whether the template's node selector names one of the table's instance types."""
    chosen = get(template, ("spec", "nodeSelector", candidates.instance_type_label))
    return isinstance(chosen, str) and chosen in candidates.instance_types


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

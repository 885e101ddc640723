"""What a pod template says: containers, resources, volumes, instance types."""

from collections.abc import Iterator

from webhook.engine.table import Candidates
from webhook.engine.tree import Json, get, same

CONTAINERS = ("containers", "initContainers")


def containers(template: Json) -> Iterator[Json]:
    """Every container and init container of a template that is a map."""
    for kind in CONTAINERS:
        items = get(template, ("spec", kind))
        yield from (item for item in items or () if isinstance(item, dict)) if isinstance(items, list) else ()


def first_container(template: Json) -> Json:
    """The container that the operator treats as the main one; an empty map where there is none."""
    items = get(template, ("spec", "containers"))
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def requested(template: Json, resources: tuple[str, ...]) -> str | None:
    """The first of the resources that a container of the template asks for, none for a quantity of 0."""
    for container in containers(template):
        for kind in ("limits", "requests"):
            asked = get(container, ("resources", kind))
            for name in resources if isinstance(asked, dict) else ():
                if str(asked.get(name) or "0").strip("0.") != "":
                    return name
    return None


def has_volume(template: Json, names: tuple[str, ...]) -> bool:
    """Whether a template declares a volume of one of the names."""
    volumes = get(template, ("spec", "volumes"))
    items = volumes if isinstance(volumes, list) else ()
    return any(isinstance(item, dict) and item.get("name") in names for item in items)


def mounts_otherwise(template: Json, mount: Json) -> bool:
    """Whether the first container mounts something else than a volume mount at that mount's place."""
    mounts = first_container(template).get("volumeMounts")
    items = mounts if isinstance(mounts, list) else ()
    here = [item for item in items if get(item, ("mountPath",)) == mount["mountPath"]]
    return bool(here) and not same(here[-1], mount)


def admitted_types(template: Json, candidates: Candidates) -> tuple[str, ...]:
    """The table's instance types that the template's own node selector and affinity leave open."""
    chosen = get(template, ("spec", "nodeSelector", candidates.instance_type_label))
    required = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = get(template, (*required, "nodeSelectorTerms"))
    return tuple(
        name
        for name in candidates.instance_types
        if chosen in (None, name) and _terms_admit(terms, candidates.instance_type_label, name)
    )


def names_type(template: Json, candidates: Candidates) -> bool:
    """Whether the template's node selector names one of the table's instance types."""
    chosen = get(template, ("spec", "nodeSelector", candidates.instance_type_label))
    return isinstance(chosen, str) and chosen in candidates.instance_types


def _terms_admit(terms: Json, key: str, value: str) -> bool:
    if not isinstance(terms, list) or not terms:
        return True
    return any(
        all(_admits(expression, value) for expression in _expressions(term) if expression.get("key") == key)
        for term in terms
        if isinstance(term, dict)
    )


def _expressions(term: Json) -> Iterator[Json]:
    found = term.get("matchExpressions")
    return (item for item in found if isinstance(item, dict)) if isinstance(found, list) else iter(())


def _admits(expression: Json, value: str) -> bool:
    values = expression.get("values") if isinstance(expression.get("values"), list) else []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case _:
            return True

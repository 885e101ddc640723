"""Opening a job: what a workload row finds in an object."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webhook.engine import keys
from webhook.engine.outcome import JobError, Request, cut
from webhook.engine.table import Candidates, Workload
from webhook.engine.tree import Json, Path, WrongTypeError, get, pointer, same, shown

WORKER, LAUNCHER = "worker", "launcher"
"""The role whose pods take the nodes, and the one that starts the ranks."""

CONTAINERS = ("containers", "initContainers")


@dataclass(frozen=True)
class Job:
    """An object opened by a workload row.

    Attributes:
        object: without what the webhook added earlier.
        templates: paths of the pod templates of every role that is there. A launcher that runs ranks has
            two roles, so that what goes for workers goes for it.
    """

    workload: Workload
    object: Json
    name: str
    generate_name: str
    templates: Mapping[str, tuple[Path, ...]]

    def template(self, role: str) -> Json:
        """The pod template of a role; None where the job has none."""
        return get(self.object, self.templates[role][0]) if role in self.templates else None

    def field(self, name: str) -> str:
        """The value of one of the workload's named fields as text, its default where the job does not say.

        Raises:
            WrongTypeError: if it is neither text nor a truth value.
        """
        row = self.workload.fields[name]
        found = get(self.object, row.path)
        if isinstance(found, bool):
            return str(found).lower()
        if found is not None and not isinstance(found, str):
            raise WrongTypeError(pointer(row.path), "text", found)
        text = found or row.default
        return text.rstrip("/").rpartition("/")[0] if row.parent else text

    @property
    def record_key(self) -> str:
        """The annotation that tells what was added."""
        return record_key(self.workload)

    def workers(self) -> int:
        """The number of workers; 0 where the field is missing.

        Raises:
            JobError: if it is not a whole number of at least 0.
        """
        path = self.workload.workers or ()
        count = get(self.object, path)
        if count is None:
            return 0
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise JobError(
                f"{pointer(path)} is {shown(count)}: the number of workers must be a whole number, 0 or more"
            )
        return count

    def nodes(self) -> int:
        """How many UltraServer nodes the job takes: its workers, and the launcher where it runs ranks."""
        return self.workers() + len(self.templates.get(WORKER, ())) - 1


def open_job(workload: Workload, obj: Json, request: Request) -> Job:
    """What the workload row finds in the object."""
    there = {role: path for role, path in workload.roles.items() if isinstance(get(obj, path), dict)}
    templates: dict[str, tuple[Path, ...]] = {role: (path,) for role, path in there.items()}
    switch = workload.launcher_is_worker
    if switch and get(obj, switch) is True and LAUNCHER in templates and WORKER in templates:
        templates[WORKER] += templates[LAUNCHER]
    name, generate_name = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    return Job(workload, obj, _text(name), _text(generate_name), templates)


def record_key(workload: Workload) -> str:
    """The annotation that tells what was added to a template of the workload."""
    return keys.ADDED if workload.workers else keys.ADDED_TO_POD


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def marked(obj: Json, key: str) -> tuple[str, str] | None:
    """Place and value of one of our keys among an object's annotations, then its labels."""
    for kind in ("annotations", "labels"):
        value = get(obj, ("metadata", kind, key))
        if value is not None:
            return f"/metadata/{kind}/{key}", value if isinstance(value, str) else shown(value)
    return None


def injection(obj: Json) -> bool | None:
    """Whether the object is opted in (True), out (False), or says nothing.

    Raises:
        JobError: if it says something that is neither.
    """
    mark = marked(obj, keys.INJECT)
    if mark is None:
        return None
    if mark[1] in keys.ON:
        return True
    if mark[1] in keys.OFF:
        return False
    raise JobError(f'{mark[0]} is {shown(mark[1])}: use "true" to opt in, "false" to opt out, or remove it')


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


def own_node_config(job: Job) -> tuple[str, str] | None:
    """Place and value of the node config that the job's own containers name, if any does."""
    for role in job.templates if job.workload.node_config_env else ():
        for container in containers(job.template(role)):
            env = container.get("env")
            for item in env if isinstance(env, list) else ():
                if isinstance(item, dict) and item.get("name") == job.workload.node_config_env:
                    place = f"env {item['name']} of container {cut(repr(container.get('name')))}"
                    value = item.get("value")
                    return (
                        (place, value if isinstance(value, str) else shown(value))
                        if value is not None
                        else None
                    )
    return None

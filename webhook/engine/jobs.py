"""Opening a job: what a workload row finds in an object."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from common.quantities import requests, thousandths
from contract import keys
from contract.place import Index, Term
from webhook.engine.claims import claimed_node
from webhook.engine.outcome import JobError, Request
from webhook.objects.paths import ObjectPath
from webhook.objects.templates import Selection, matches, selection, takes
from webhook.objects.tree import Json, Path, WrongTypeError, get, map_at, shown, text_of
from webhook.rows.workloads import ANY, DEVICES, WORKER, Candidates, Factor, Group, Workload

_MOST: Final = 10**9
"""Above all of these."""


@dataclass(frozen=True)
class OpenGroup:
    """A group of a job that has a pod template.

    Attributes:
        template: path of the template in the object.
        replicas: number of its pods.
        takes_nodes: whether each of them takes a node.
        index: where a pod's number is; None where pods have none.
        numbered: whether every number from 0 is there, and each once.
        later: whether its pods are created when those of other groups have ended.
    """

    role: str
    template: Path
    replicas: int
    takes_nodes: bool
    index: Index | None
    numbered: bool
    later: bool = False


@dataclass(frozen=True)
class OpenJob:
    """An object opened by a workload row.

    Attributes:
        object: without what the webhook added earlier.
        namespace: where it is being created.
        groups: its groups that have a template.
    """

    workload: Workload
    object: Json
    name: str
    generate_name: str
    namespace: str
    groups: tuple[OpenGroup, ...]

    @cached_property
    def asked(self) -> Mapping[Path, Mapping[str, int]]:
        """Thousandths of each resource that a pod of a template asks for, by the template's path."""
        paths = (group.template for group in self.groups)
        return {path: requests(map_at(self.object, (*path, "spec"))) for path in paths}

    @cached_property
    def selections(self) -> Mapping[Path, Selection]:
        """How each template selects nodes, by the template's path."""
        return {group.template: selection(get(self.object, group.template)) for group in self.groups}

    def paths(self, role: str) -> tuple[Path, ...]:
        """Where the templates are that a rule for ``role`` is for; a worker's own comes first."""
        return self._paths.get(role, ())

    @cached_property
    def _paths(self) -> Mapping[str, tuple[Path, ...]]:
        every = {
            role: [group.template for group in self.groups if group.role == role]
            for role in self.workload.roles
        }
        if WORKER in every:
            every[WORKER] += [group.template for group in self.groups if group.takes_nodes]
        every[ANY] = [group.template for group in self.groups]
        return {role: tuple(dict.fromkeys(paths)) for role, paths in every.items()}

    def templates(self, role: str) -> list[Json]:
        """The templates that a rule for ``role`` is for."""
        return [get(self.object, path) for path in self.paths(role)]

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that the job has a template for."""
        return tuple(role for role in self._paths if self._paths[role])

    def workers(self) -> int:
        """Number of pods in the groups called worker, of those that run at once."""
        return self._counts[0]

    def has_workers(self) -> bool:
        """Whether it takes nodes; one with a group called worker needs pods in that."""
        return self.nodes() > 0 and (
            self.workers() > 0 or not any(group.role == WORKER for group in self.groups)
        )

    @cached_property
    def numbered(self) -> bool:
        """Whether each pod that takes a node has a number of its own, from 0."""
        return all(group.numbered for group in self.groups if group.takes_nodes)

    def field(self, name: str) -> str:
        """The value of a named field, as of the function of this name; found out once."""
        if name not in self._fields:
            self._fields[name] = field(self.workload, self.object, name)
        return self._fields[name]

    @cached_property
    def _fields(self) -> dict[str, str]:
        return {}

    def nodes(self) -> int:
        """How many nodes the job takes at once."""
        return self._counts[1]

    @cached_property
    def _counts(self) -> tuple[int, int]:
        workers = _at_once(group for group in self.groups if group.role == WORKER)
        return workers, _at_once(group for group in self.groups if group.takes_nodes)


def _at_once(groups: Iterable[OpenGroup]) -> int:
    first = later = 0
    for group in groups:
        first, later = (first, later + group.replicas) if group.later else (first + group.replicas, later)
    return max(first, later)


def is_pod(job: OpenJob) -> bool:
    """Whether it is a Pod, which is its own template."""
    return () in job.paths(ANY)


def unlike(workload: Workload, obj: Json) -> tuple[str, str] | None:
    """The first field, and its value, by which an object is not what the ``when`` of its kind's row says.

    Raises:
        WrongTypeError: if a field is neither text nor a truth value.
    """
    values = ((name, field(workload, obj, name)) for name in workload.when)
    return next(((name, value) for name, value in values if not matches(value, workload.when[name])), None)


def open_job(candidates: Candidates, workload: Workload, obj: Json, request: Request) -> OpenJob:
    """What a workload row finds in the object of a request, without what was added to that earlier.

    Raises:
        JobError: if a number of pods is not a whole number of at least 0.
    """
    groups: list[OpenGroup] = []
    found = template_paths(workload, obj)
    asked = [get(obj, path) for group, path in found if group.takes_nodes == DEVICES]
    takers = {id(template) for template in _takers(candidates, asked, obj)}
    before = {False: 0, True: 0}
    for group, path in found:
        groups.append(opened := _open(takers, group, obj, path, before))
        before[opened.later] += opened.replicas if opened.takes_nodes else 0
    name, generate_name = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    return OpenJob(workload, obj, _text(name), _text(generate_name), request.namespace, tuple(groups))


def marked(obj: Json, key: str) -> tuple[str, str] | None:
    """Place and value of one of our keys among an object's annotations, then its labels."""
    for kind in ("annotations", "labels"):
        value = get(obj, ("metadata", kind, key))
        if value is not None:
            return f"/metadata/{kind}/{key}", text_of(value)
    return None


def template_paths(workload: Workload, obj: Json) -> list[tuple[Group, Path]]:
    """The workload's groups that have a template in the object, and where it is."""
    found = ((group, path) for group in workload.groups for path in group.template.find_all(obj))
    return [(group, path) for group, path in found if isinstance(get(obj, path), dict)]


def group_key(group: Group, obj: Json, path: Path) -> str:
    """What tells a group from the others of an object, wherever in a list its template stands."""
    listed = group.template.list
    return f"{group.role}/{get(obj, (*path[: len(listed.parts) + 1], 'name'))}" if listed else group.role


def record_key(template: Path) -> str:
    """The annotation that tells what was added to a template; a Pod carries that of its template as well."""
    return keys.ADDED if template else keys.ADDED_TO_POD


def _takers(wanted: Candidates, templates: list[Json], obj: Json) -> list[Json]:
    """Of templates of pods that take nodes for their devices those that do; all of a job that is opted in."""
    found = [template for template in templates if wants_ultraservers(wanted, template)]
    mark = marked(obj, keys.INJECT)
    if found or not (mark and mark[1] in keys.ON):
        return found
    return [template for template in templates if _asks(wanted, template)] or templates


def _asks(wanted: Candidates, template: Json) -> bool:
    asked = requests(map_at(template, ("spec",)))
    return any(asked.get(name) for name in wanted.requests)


def _open(
    takers: Container[int], group: Group, obj: Json, path: Path, before: Mapping[bool, int]
) -> OpenGroup:
    takes_nodes, role = group.takes_nodes, group.role
    if isinstance(takes_nodes, ObjectPath):
        takes_nodes = takes_nodes.value(obj) is True
    elif takes_nodes == DEVICES:
        takes_nodes = id(get(obj, path)) in takers
        role = role if takes_nodes else group.otherwise
    replicas = prod(_number(factor, obj, path) for factor in group.replicas)
    terms = tuple(
        Term(number.source, prod(_number(factor, obj, path) for factor in number.times))
        for number in group.index
    )
    later = group.later is not None and group.later.value(obj, path) is not None
    numbers = prod(_number(factor, obj, path) for factor in group.numbers)
    return OpenGroup(
        role,
        path,
        replicas,
        bool(takes_nodes),
        Index(terms, before[later] if group.continues else 0) if terms else None,
        numbered=bool(terms) and (not group.numbers or numbers in {0, replicas}),  # 0: it does not say
        later=later,
    )


def _number(factor: Factor, obj: Json, template: Path) -> int:
    number, limit = _whole(factor.path, obj, template), _whole(factor.at_most, obj, template)
    number = factor.default if number is None else number
    return number if limit is None else min(number, limit)


def _whole(path: ObjectPath | None, obj: Json, template: Path) -> int | None:
    found = path.value(obj, template) if path else None
    if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 0):
        raise JobError(f"{path} is {shown(found)}: the number of workers must be a whole number, 0 or more")
    return found


def field(workload: Workload, obj: Json, name: str) -> str:
    """The value of a named field of an object as text, its default where the object does not say.

    Raises:
        WrongTypeError: if it is neither text, a truth value nor a number of a size that a job's can have.
    """
    row = workload.fields[name]
    found = row.path.value(obj)
    if row.smaller:
        return _smaller(found, row.default)
    if row.counted and isinstance(found, list):
        found = len(found)
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int) and abs(found) < _MOST:
        found = str(found)
    if found is not None and not isinstance(found, str):
        raise WrongTypeError(str(row.path), "text", found)
    text = found or row.default
    if not row.parent:
        return text
    # What is in the root has the default's directory: the root is none of its own.
    above = (path.rstrip("/").rpartition("/")[0] for path in (text, row.default))
    return next(filter(None, above), "/")


def _smaller(found: Json, most: str) -> str:
    """The smaller of two quantities; ``most`` where the other is none, or 0, which means no limit."""
    text = str(found) if isinstance(found, str | int | float) else ""
    return text if 0 < thousandths(text) < thousandths(most) else most


def wants_ultraservers(wanted: Candidates, template: Json) -> bool:
    """Whether a template asks for a whole node's devices, or claims them, or selects UltraServers."""
    asked = requests(map_at(template, ("spec",)))
    whole = any(takes(asked, name, wanted.whole_node.get(name, 0)) for name in wanted.requests)
    whole = whole or claimed_node(wanted, template) is not None
    return whole or selects_type(wanted, template)


def selects_type(wanted: Candidates, template: Json) -> bool:
    """Whether a template's node selector names an UltraServer instance type."""
    selector = map_at(template, ("spec", "nodeSelector"))
    return any(selector.get(label) in wanted.instance_types for label in wanted.type_labels)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""

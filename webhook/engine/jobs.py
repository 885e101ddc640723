"""Opening a job: what a workload row finds in an object."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from typing import Final

from common.quantities import thousandths
from contract import keys
from webhook.engine.outcome import JobError, Request
from webhook.engine.places import Place
from webhook.engine.templates import Selection, asked, selection
from webhook.engine.tree import Json, Path, WrongTypeError, get, shown
from webhook.engine.workloads import ANY, WORKER, Factor, Group, Workload

_WHOLE: Final = re.compile(r"[0-9]{1,9}")
"""A whole number of a size that a job's numbers can have."""

_MOST: Final = 10**9
"""Above all of these."""

_NEUTRAL: Final = {"times": 1, "plus": 0, "dividedBy": 1}
"""What is done with a field's number, in this order, and what changes nothing."""


@dataclass(frozen=True)
class OpenGroup:
    """A group of a job that has a pod template.

    Attributes:
        template: path of the template in the object.
        replicas: number of its pods.
        takes_nodes: whether each of them takes a node.
    """

    role: str
    template: Path
    replicas: int
    takes_nodes: bool


@dataclass(frozen=True)
class Job:
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
        return {group.template: asked(get(self.object, group.template)) for group in self.groups}

    @cached_property
    def selections(self) -> Mapping[Path, Selection]:
        """How each template selects nodes, by the template's path."""
        return {group.template: selection(get(self.object, group.template)) for group in self.groups}

    def paths(self, role: str) -> tuple[Path, ...]:
        """Where the templates are that a rule for ``role`` speaks about; a worker's own comes first."""
        own = [group.template for group in self.groups if role in {ANY, group.role}]
        more = [group.template for group in self.groups if role == WORKER and group.takes_nodes]
        return tuple(dict.fromkeys([*own, *more]))

    def templates(self, role: str) -> list[Json]:
        """The templates that a rule for ``role`` speaks about."""
        return [get(self.object, path) for path in self.paths(role)]

    def roles(self) -> list[str]:
        """The roles that the job has a template for."""
        return [role for role in self.workload.roles() if self.paths(role)]

    def workers(self) -> int:
        """Number of pods in the groups called worker."""
        return sum(group.replicas for group in self.groups if group.role == WORKER)

    def has_workers(self) -> bool:
        """Whether it takes nodes; what has a group called worker does without its pods in no sense."""
        return self.nodes() > 0 and (
            self.workers() > 0 or not any(group.role == WORKER for group in self.groups)
        )

    def nodes(self) -> int:
        """How many nodes the job takes."""
        return sum(group.replicas for group in self.groups if group.takes_nodes)


def is_of(workload: Workload, obj: Json) -> bool:
    """Whether an object of the workload's kinds is what its ``when`` says.

    Raises:
        WrongTypeError: if a field is neither text nor a truth value.
    """
    return all(matches(field(workload, obj, name), allowed) for name, allowed in workload.when.items())


def matches(text: str, allowed: tuple[str, ...]) -> bool:
    """Whether a text is one of the allowed ones; ``*`` and ``?`` as in file names."""
    return any(fnmatchcase(text, pattern) for pattern in allowed)


def open_job(workload: Workload, obj: Json, request: Request) -> Job:
    """What the workload row finds in the object.

    Raises:
        JobError: if a number of pods is no whole number of at least 0.
    """
    groups = tuple(_open(group, obj, path) for group, path in template_paths(workload, obj))
    name, generate_name = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    return Job(workload, obj, _text(name), _text(generate_name), request.namespace, groups)


def template_paths(workload: Workload, obj: Json) -> list[tuple[Group, Path]]:
    """The workload's groups that have a template in the object, and where it is."""
    found = ((group, group.template.find(obj)) for group in workload.groups)
    return [(group, path) for group, path in found if path is not None and isinstance(get(obj, path), dict)]


def record_key(template: Path) -> str:
    """The annotation that tells what was added to a template; a Pod carries that of its template as well."""
    return keys.ADDED if template else keys.ADDED_TO_POD


def _open(group: Group, obj: Json, path: Path) -> OpenGroup:
    takes_nodes = group.takes_nodes
    if isinstance(takes_nodes, Place):
        takes_nodes = takes_nodes.value(obj) is True
    return OpenGroup(group.role, path, prod(_number(factor, obj) for factor in group.replicas), takes_nodes)


def _number(factor: Factor, obj: Json) -> int:
    found = factor.path.value(obj) if factor.path else None
    if found is None:
        return factor.default
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise JobError(
            f"{factor.path} is {shown(found)}: the number of workers must be a whole number, 0 or more"
        )
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
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int) and abs(found) < _MOST:
        found = str(found)
    if found is not None and not isinstance(found, str):
        raise WrongTypeError(str(row.path), "text", found)
    if others := row.others():
        numbers = {key: field(workload, obj, other) for key, other in others.items()}
        return _computed(found or "", numbers) or row.default
    text = found or row.default
    return text.rstrip("/").rpartition("/")[0] if row.parent else text


def _smaller(found: Json, most: str) -> str:
    """The smaller of two quantities; ``most`` where the other is none, or 0, which means no limit."""
    text = str(found) if isinstance(found, str | int | float) else ""
    return text if 0 < thousandths(text) < thousandths(most) else most


def _computed(number: str, others: Mapping[str, str]) -> str:
    """A whole number times, plus, and divided by others, rounded down; empty where one is no such number."""
    if not all(map(_WHOLE.fullmatch, (number, *others.values()))):
        return ""
    times, plus, divisor = (int(others.get(key, neutral)) for key, neutral in _NEUTRAL.items())
    return str((int(number) * times + plus) // divisor) if divisor else ""


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""

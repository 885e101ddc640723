"""Defines the conditions of ``match``, which decide whether a rule applies to an object.

Each condition that `Match` has as a field is a class here. The class has the type of the value, a check and a
short form for listings. Its docstring is the description of the key in the published schema. The protocols
`Group` and `Job` list the attributes that conditions read; classes of `webhook.engine` implement them.
"""

import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field as Limits

from common.texts import MAX_MESSAGE_LENGTH, cut
from contract.placement import Placer
from webhook.objects.paths import ObjectPath
from webhook.objects.templates import Selection, containers, matches, permits
from webhook.objects.tree import Json, Path, get, get_map, shown, text_of
from webhook.rows import messages
from webhook.rows.families import Family, JobShape
from webhook.rows.placeholders import fill_texts, placeholders_in
from webhook.rows.selectors import Selector
from webhook.rows.shapes import NumberSet, Shape, WrittenNumberSet
from webhook.rows.workloads import Workload
from webhook.rows.written import (
    WORD_GLOBS,
    Flag,
    Integer,
    Patterns,
    Pointer,
    Positive,
    Range,
    SomePatterns,
    Texts,
    as_range,
    one_or_more,
    read_as,
)

T = TypeVar("T")
NotDevices = Literal[
    "!configured", "!claimed", "!requested", "!shared", "!unknown", "!none", "!mixed", "!some"
]
Devices = Literal["configured", "claimed", "requested", "shared", "unknown", "none", "mixed", "some"]
"""How a job's workers get their devices; `GetsDevices` describes each word."""


NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has. Its value is the name of the namespace."""


class Group(Protocol):
    """The attributes of a group of pods that conditions read."""

    template: Json

    @property
    def amounts(self) -> Mapping[str, int]: ...

    @property
    def chosen_types(self) -> Collection[str]: ...

    @property
    def selection(self) -> Selection: ...

    def describe_unsupported_request(self, resources: Sequence[str]) -> Mapping[str, str]: ...


class Job(Protocol):
    """The attributes of a job that conditions read."""

    workload: Workload
    object: Json
    name: str
    namespace: str
    is_numbered: bool  # whether each worker has its own number
    nodes: int
    family: Family
    shape: JobShape | None
    placer: Placer | None
    devices: Devices

    @property
    def field(self) -> Callable[[str], str]: ...  # returns the text of a field of the workload, by its name


class Scope(NamedTuple):
    """The workloads of a rule, and all families, shapes and device counts of the rule's table."""

    workloads: Sequence[Workload]
    families: Sequence[Family]
    shapes: Sequence[Shape]
    device_counts: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Condition(Generic[T]):
    """A condition of a rule.

    Attributes:
        written: The type by which pydantic reads the value in the table.
        value: The value.
    """

    written: ClassVar[Any] = None
    value: T

    def __init_subclass__(cls, written: Any = None) -> None:  # noqa: ANN401 - any annotation that pydantic reads
        cls.written = written or cls.written

    def short_form(self, key: str) -> Iterable[str]:
        """Returns texts that describe the condition in listings."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if isinstance(values[0], Mapping):
            return [" or ".join(map(_join_patterns, values))]
        if isinstance(self.value, tuple):
            return [f"{key} {join_bar(self.value)}"]
        return [key if self.value else f"not {key}"]

    def explain_unreachable(self, _: Scope) -> Iterator[tuple[Path, str]]:
        """Yields the reasons why the condition is invalid or never met, each with a path in its value."""
        yield from ()


class JobCondition(Condition[T]):
    """A condition on facts that many jobs have in common, so that its result can be cached."""

    def failure(self, job: Job) -> str | None:
        """Returns why a job does not meet the condition; None if it does."""
        raise NotImplementedError


class TemplateCondition(Condition[T]):
    """A condition on each template of the rule's role."""

    def failure(self, group: Group, owner_name: str) -> str | None:
        """Returns why a group's template does not meet the condition; None if it does."""
        raise NotImplementedError


class ObjectCondition(Condition[T]):
    """A condition on fields of the object itself."""

    def failure(self, job: Job) -> str | None:
        """Returns why a job does not meet the condition; None if it does."""
        raise NotImplementedError


class FamilyName(JobCondition[tuple[str, ...]], written=Texts):
    """Names of families."""

    def allows(self, name: str) -> bool:
        """Returns whether a family with this name meets the condition."""
        return matches(name, self.value)

    def failure(self, job: Job) -> str | None:
        name = job.family.name
        return None if self.allows(name) else messages.other_family(name, join_or(self.value))

    def explain_unreachable(self, scope: Scope) -> Iterator[tuple[Path, str]]:
        names = [family.name for family in scope.families]
        if not any(map(self.allows, names)):
            yield (), messages.no_such_family(", ".join(names))


class ShapeValues(JobCondition[Mapping[str, tuple[str, ...]]]):
    """Values of the shape's keys name, nodeConfig, together and apart, or globs for its topologyKey."""

    written = Annotated[
        Mapping[
            Literal["name", "nodeConfig", "together", "apart", "topologyKey"],
            Annotated[tuple[str, ...], one_or_more(str | Integer, str)],
        ],
        Limits(min_length=1),
    ]

    def find_mismatch(self, shape: Shape) -> str | None:
        """Returns the first key for which no job of a shape can meet the condition, or else None."""
        return next((key for key, allowed in self.value.items() if not shape.can_have(key, allowed)), None)

    def failure(self, job: Job) -> str | None:
        if not (shape := job.shape):
            return messages.no_shape(job.workload.name)
        for key, allowed in self.value.items():
            if not matches(fact := shape.value_of(key), allowed):
                return messages.other_shape(shape.shape.name, key, fact, join_or(allowed))
        return None

    def explain_unreachable(self, scope: Scope) -> Iterator[tuple[Path, str]]:
        has_sizes = any(row.takes_nodes for row in scope.workloads)
        if not has_sizes or all(map(self.find_mismatch, scope.shapes)):
            yield (), messages.NO_SUCH_SHAPE


class PlacedBy(JobCondition[tuple[Placer, ...]], written=Annotated[tuple[Placer, ...], one_or_more(Placer)]):
    """The placer: scheduler (affinity), whole-job (whole-job admission), kueue or gang (gang scheduling)."""

    def failure(self, job: Job) -> str | None:
        names = [messages.PLACERS.get(placer, placer) for placer in (job.placer or "", *self.value)]
        return None if job.placer in self.value else messages.other_placer(names[0], join_or(names[1:]))


class GetsDevices(
    JobCondition[tuple[str, ...]], written=Annotated[tuple[str, ...], one_or_more(Devices | NotDevices)]
):
    """How workers get devices: configured (claim with nodeConfig), claimed (other claim), requested or none.

    unknown: only by claims that pods share. shared: by claims that pods share, and in another way. If the
    ways of several templates differ: mixed if at most one pod has none or unknown, or else some. ``!`` and a
    word stand for all other words.
    """

    def failure(self, job: Job) -> str | None:
        is_met = matches(job.devices, self.value)
        return None if is_met else messages.other_devices(job.devices, join_or(self.value))


class Numbered(JobCondition[bool], written=Flag):
    """true: each pod that takes a node has a number of its own. false: some of these pods do not."""

    def failure(self, job: Job) -> str | None:
        return None if self.value == job.is_numbered else messages.NUMBERED[job.is_numbered]


def _to_ranges(value: Any) -> Mapping[str, Range]:  # noqa: ANN401 - a checked list or map
    amounts = value if isinstance(value, dict) else dict.fromkeys(value, 0)
    return {name: as_range(amount) for name, amount in amounts.items()}


class Requests(TemplateCondition[Mapping[str, Range]]):
    """The pod requests at least one of these resources. In a map, each resource has a minimum or a Range.

    The request of a pod is computed as in Kubernetes.
    """

    written = Annotated[
        Mapping[str, Range],
        read_as(Texts | Annotated[dict[str, Positive | Range], Limits(min_length=1)], _to_ranges),
    ]

    @cached_property
    def _amounts(self) -> list[str]:
        return [name if amount == Range() else f"{amount} {name}" for name, amount in self.value.items()]

    def failure(self, group: Group, owner_name: str) -> str | None:
        items = self.value.items() if group.amounts else ()
        is_met = any(amount.is_requested(group.amounts.get(name, 0)) for name, amount in items)
        return None if is_met else messages.requests_none(owner_name, ", ".join(self._amounts))

    def short_form(self, key: str) -> Iterable[str]:  # noqa: ARG002 - the short form does not name the key
        return [f"asks for {'|'.join(self._amounts)}"]


class Image(TemplateCondition[tuple[str, ...]], written=Texts):
    """The image of any container or init container; globs. E.g. registry.example/*."""

    def failure(self, group: Group, owner_name: str) -> str | None:
        images = (text_of(item.get("image") or "") for item in containers(group.template))
        is_met = any(matches(image, self.value) for image in images)
        return None if is_met else messages.no_image(owner_name, join_or(self.value))


class InstanceType(TemplateCondition[tuple[str, ...]], written=Texts):
    """Instance types that the pod selects; globs, Exists or DoesNotExist. E.g. p5.*."""

    def failure(self, group: Group, owner_name: str) -> str | None:
        if any(matches(name, self.value) for name in group.chosen_types or ("",)):
            return None
        names = cut(" or ".join(group.chosen_types)) or messages.NO_INSTANCE_TYPE
        return messages.other_instance_type(owner_name, names, join_or(self.value))


class Excludes(TemplateCondition[Mapping[str, tuple[str, ...]]], written=SomePatterns):
    """Values of node labels; globs. For at least one label, the pod excludes all nodes with these values."""

    def failure(self, group: Group, owner_name: str) -> str | None:
        selection = group.selection
        items = self.value.items() if selection.selector or selection.terms else ()
        is_met = not all(permits(selection, {label: values}) for label, values in items)
        return None if is_met else messages.not_excluded(owner_name, " or ".join(self.value))


class InTemplate(
    TemplateCondition[tuple[Mapping[ObjectPath, tuple[str, ...]], ...]],
    written=Annotated[
        tuple[Mapping[Pointer, Texts], ...],
        one_or_more(Annotated[Mapping[Pointer, Texts], Limits(min_length=1)]),
    ],
):
    """Values in the pod template, by JSON pointer; globs, Exists, DoesNotExist, or placeholders.

    In a pointer, ``*`` is a wildcard.
    """

    @property
    def texts(self) -> list[str]:
        """The patterns of all JSON pointers."""
        return [text for patterns in self.value for allowed in patterns.values() for text in allowed]

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the patterns."""
        return frozenset(placeholders_in(self.texts))

    def fill(self, values: Mapping[str, Json]) -> "InTemplate":
        """Returns the condition with its placeholders filled in."""
        filled = (
            {path: _fill_patterns(allowed, values) for path, allowed in item.items()} for item in self.value
        )
        return InTemplate(tuple(filled))

    def failure(self, group: Group, owner_name: str) -> str | None:
        reason = ""
        for patterns in self.value:
            for path, allowed in patterns.items():
                values = [get(group.template, location) for location in path.find_all(group.template)]
                value = _find_deciding_value(values, allowed) if len(values) > 1 else next(iter(values), "")
                if not matches(text_of(value) if value else "", allowed):
                    if not reason:
                        text = shown(value, 40) if value else ""
                        reason = describe_mismatch(path.name, text, allowed, owner_name)
                    break
            else:
                return None
        return reason


class UnsupportedCount(TemplateCondition[tuple[str, ...]], written=Texts):
    """The pod requests one of these resources in a number that deviceCounts does not permit."""

    def failure(self, group: Group, owner_name: str) -> str | None:
        return None if group.describe_unsupported_request(self.value) else messages.valid_count(owner_name)

    def explain_unreachable(self, scope: Scope) -> Iterator[tuple[Path, str]]:
        if not scope.device_counts:
            yield (), messages.NO_DEVICE_COUNTS


class Workers(
    ObjectCondition[tuple[NumberSet | Range, ...]],
    written=Annotated[tuple[Any, ...], one_or_more(WrittenNumberSet | Range)],
):
    """The number of pods that take a node, written like a shape's ``workers`` or as a Range. E.g. 1 to 8."""

    def failure(self, job: Job) -> str | None:
        is_met = any(job.nodes in numbers for numbers in self.value)
        return None if is_met else messages.other_workers(job.nodes, " or ".join(map(str, self.value)))

    def short_form(self, key: str) -> Iterable[str]:
        return [f"{key} {join_bar(map(str, self.value))}"]


class Fields(
    ObjectCondition[tuple[Patterns, ...]], written=Annotated[tuple[Patterns, ...], one_or_more(SomePatterns)]
):
    """Values of the workload's fields; globs, Exists or DoesNotExist."""

    def failure(self, job: Job) -> str | None:
        first_reason = ""
        for patterns in self.value:
            for name, allowed in patterns.items():
                if reason := _find_mismatch(job, name, allowed):
                    first_reason = first_reason or reason
                    break
            else:
                return None
        return first_reason

    def explain_unreachable(self, scope: Scope) -> Iterator[tuple[Path, str]]:
        for name in chain.from_iterable(self.value) if scope.workloads else ():
            if not any(name in row.fields for row in scope.workloads):
                kinds = ", ".join(sorted(row.name for row in scope.workloads))
                yield (name,), messages.no_such_field(kinds, name)


class Labels(ObjectCondition[Mapping[str, tuple[str, ...]]], written=SomePatterns):
    """Values of the job's labels; globs, Exists or DoesNotExist. In a key, ``*`` is a wildcard."""

    kind: ClassVar = "label"

    def failure(self, job: Job) -> str | None:
        labels = get_map(job.object, ("metadata", f"{self.kind}s"))
        for key, allowed in self.value.items():
            name, value = key, labels.get(key, "")
            if "*" in key:
                named_labels = {name: labels[name] for name in fnmatch.filter(labels, key)}
                value = _find_deciding_value([*named_labels.values()], allowed)
                name = next((name for name in named_labels if value and named_labels[name] == value), key)
            if not matches(text_of(value), allowed):
                return messages.other_value(f"{self.kind} {name}", shown(value, 40), join_or(allowed))
        return None


class Annotations(Labels):
    """Values of the job's annotations, written like the values of the key ``labels``."""

    kind = "annotation"


class LabelSelector(ObjectCondition[Selector], written=Selector):
    """A label selector of Kubernetes, for the job's labels. E.g. {matchLabels: {team: vision}}."""

    def failure(self, job: Job) -> str | None:
        return self.value.find_mismatch(get_map(job.object, ("metadata", "labels")))

    def short_form(self, _: str) -> Iterable[str]:
        return [f"{item.key} {item}" for item in self.value.expressions]

    def explain_unreachable(self, _: Scope) -> Iterator[tuple[Path, str]]:
        for item in self.value.expressions:
            if bool(item.values) != (item.operator in {"In", "NotIn"}):
                yield (), (messages.takes_no_values if item.values else messages.needs_values)(item.operator)


class NamespaceSelector(LabelSelector):
    """A label selector for the job's namespace. It may use only the label kubernetes.io/metadata.name.

    E.g. {matchLabels: {kubernetes.io/metadata.name: vision}}.
    """

    def failure(self, job: Job) -> str | None:
        return self.value.find_mismatch({NAMESPACE_LABEL: job.namespace})

    def explain_unreachable(self, scope: Scope) -> Iterator[tuple[Path, str]]:
        yield from super().explain_unreachable(scope)
        if other_labels := [item.key for item in self.value.expressions if item.key != NAMESPACE_LABEL]:
            yield (), messages.unknown_label(NAMESPACE_LABEL, join_or(other_labels))


class Namespace(ObjectCondition[tuple[str, ...]], written=Texts):
    """Names of namespaces; globs. E.g. research-*."""

    def failure(self, job: Job) -> str | None:
        is_met = matches(job.namespace, self.value)
        return None if is_met else messages.other_value("the namespace", job.namespace, join_or(self.value))


def _fill_patterns(patterns: tuple[str, ...], values: Mapping[str, Json]) -> tuple[str, ...]:
    """Returns patterns with placeholders filled in; ``*`` if all patterns exclude texts of empty lists."""
    texts = tuple(fill_texts(patterns, values))
    are_exclusions = [text.startswith("!") for text in patterns]
    if all(are_exclusions):
        return texts or ("*",)
    # If only exclusions remain, each list of allowed texts is empty: allow nothing, not all other texts.
    return texts if not all(text.startswith("!") for text in texts) else ()


def _find_deciding_value(values: Sequence[Json], patterns: tuple[str, ...]) -> Json:
    """Returns the value that decides whether several values match the patterns.

    This is the first value that a pattern excludes, or else the first that the patterns allow, or else the
    first value. Empty values, false and 0 are ignored. If no value is left, returns an empty text.
    """
    items = [value for value in values if value]
    exclusions = tuple(text for text in patterns if text.startswith("!"))
    excluded_values = (value for value in items if exclusions and not matches(text_of(value), exclusions))
    allowed_values = (value for value in items if matches(text_of(value), patterns))
    return next(chain(excluded_values, allowed_values, items), "")


def _join_patterns(patterns: Mapping[object, Iterable[str]]) -> str:
    return ", ".join(f"{key} {join_bar(values)}" for key, values in patterns.items())


def _find_mismatch(job: Job, name: str, allowed: tuple[str, ...]) -> str | None:
    """Returns why the value of a workload's field is not allowed; None if it is allowed."""
    if name not in job.workload.fields:
        return messages.no_field(job.workload.name, name)
    if matches(text := job.field(name), allowed):
        return None
    subject = job.workload.fields[name].path.name
    return describe_mismatch(subject, cut(text) if len(text) > MAX_MESSAGE_LENGTH else text, allowed)


@lru_cache(maxsize=1024)  # the same few mismatches are found in most jobs
def describe_mismatch(subject: str, text: str, allowed: tuple[str, ...], owner_name: str = "") -> str:
    """Returns the message that a field has a text that is not allowed."""
    subject = messages.of_owner(subject, owner_name) if owner_name else subject
    return messages.other_value(subject, cut(text) or '""', join_or(allowed))


_WORD_OF_GLOB: Mapping[str, str] = {glob: word for word, glob in WORD_GLOBS.items()}


def join_or(values: Iterable[str]) -> str:
    """Returns patterns as part of a sentence: ``a or b``."""
    return " or ".join([_WORD_OF_GLOB.get(value, value) for value in values])


def join_bar(values: Iterable[str]) -> str:
    """Returns patterns as part of a short form: ``a|b``."""
    return "|".join([_WORD_OF_GLOB.get(value, value) for value in values])


def describe_numbers(numbers: Sequence[int]) -> str:
    """Returns ascending numbers as part of a sentence: ``1, 4 or 8 to 16``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))

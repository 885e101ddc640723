"""The conditions of ``match``: a class has the type of the written value, the check, and the short form.

A class is one key: its docstring is the key's description, and `Match` has a field for it. The protocols list
what a condition may read of a job or a group; `webhook.engine` has the classes behind them.
"""

import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field as Limits

from common.texts import LONGEST_MESSAGE, cut
from contract.place import Placer
from webhook.objects.paths import ObjectPath
from webhook.objects.templates import Selection, admits, containers, is_requested, matches
from webhook.objects.tree import Json, Path, map_at, shown, text_of
from webhook.rows.families import Family, Fitted
from webhook.rows.placeholders import names, spliced
from webhook.rows.selectors import Selector
from webhook.rows.shapes import Count, Counted, Shape
from webhook.rows.workloads import Workload
from webhook.rows.written import (
    WORDS,
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
    written,
)

T = TypeVar("T")
NAMES: Mapping[str, str] = {Placer.SCHEDULER: "the scheduler", Placer.WHOLE_JOB: "whole-job admission"}
Devices = Literal["configured", "claimed", "requested", "shared", "unknown", "none", "mixed", "some"]
NotDevices = Literal[
    "!configured", "!claimed", "!requested", "!shared", "!unknown", "!none", "!mixed", "!some"
]
"""How a job's workers get their devices.

configured: by a device claim that the table knows with a node config; claimed: by other device claims;
requested: by requests; shared: by one of these, and by claims that several pods share; unknown: by shared
claims alone; none: not at all. If its templates differ: mixed, if at most one pod, such as a launcher, has no
devices, and some otherwise."""


NAMESPACE = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


class Group(Protocol):
    """What a condition may read of a group of a job's pods."""

    template: Json

    @property
    def amounts(self) -> Mapping[str, int]: ...

    @property
    def chosen_types(self) -> Collection[str]: ...

    @property
    def selection(self) -> Selection: ...

    def unsupported(self, resources: Sequence[str]) -> Mapping[str, str]: ...


class Job(Protocol):
    """What a condition may read of a job."""

    workload: Workload
    object: Json
    name: str
    namespace: str
    numbered: bool
    nodes: int
    family: Family
    shape: Fitted | None
    placer: Placer | None
    devices: Devices

    @property
    def field(self) -> Callable[[str], str]: ...


class Reach(NamedTuple):
    """The rows of a table that a rule can apply to."""

    workloads: Sequence[Workload]
    families: Sequence[Family]
    shapes: Sequence[Shape]
    device_counts: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Condition(Generic[T]):
    """One condition of a rule.

    Attributes:
        value: The value in the table.
    """

    written: ClassVar[Any] = None
    value: T

    def __init_subclass__(cls, written: Any = None) -> None:  # noqa: ANN401 - a type of the table
        cls.written = written or cls.written

    def shown(self, key: str) -> Iterable[str]:
        """Returns the condition in short."""
        several = self.value if isinstance(self.value, tuple) else (self.value,)
        if isinstance(several[0], Mapping):
            return [" or ".join(map(_in_short, several))]
        if isinstance(self.value, tuple):
            return [f"{key} {one_of(self.value)}"]
        return [key if self.value else f"not {key}"]

    def unreachable(self, _: Reach) -> Iterator[tuple[Path, str]]:
        """Yields why no object can meet it, with the path below its key."""
        yield from ()


class OfJob(Condition[T]):
    """A condition with one answer for all jobs with the same facts."""

    def failed(self, job: Job) -> str | None:
        """Returns why a job does not meet it; None if it does."""
        raise NotImplementedError


class OfTemplate(Condition[T]):
    """A condition on each template of the rule's role."""

    def failed(self, group: Group, whose: str) -> str | None:
        """Returns why a group's template does not meet it; None if it does."""
        raise NotImplementedError


class OfObject(Condition[T]):
    """A condition on fields of the object itself."""

    def failed(self, job: Job) -> str | None:
        """Returns why a job does not meet it; None if it does."""
        raise NotImplementedError


class OfFamily(OfJob[tuple[str, ...]], written=Texts):
    """Names of families."""

    def allows(self, name: str) -> bool:
        """Returns whether a family of this name meets it."""
        return matches(name, self.value)

    def failed(self, job: Job) -> str | None:
        if self.allows(job.family.name):
            return None
        return f"its machines are {job.family.name}, not {either(self.value)}"

    def unreachable(self, of: Reach) -> Iterator[tuple[Path, str]]:
        known = [family.name for family in of.families]
        if not any(map(self.allows, known)):
            yield (), f"unreachable: no family of the table has such a name; it has {', '.join(known)}"


class OfShape(OfJob[Mapping[str, tuple[str, ...]]]):
    """Values of name, nodeConfig, together, apart, or topologyKey (globs)."""

    written = Annotated[
        Mapping[
            Literal["name", "nodeConfig", "together", "apart", "topologyKey"],
            Annotated[tuple[str, ...], one_or_more(str | Integer, str)],
        ],
        Limits(min_length=1),
    ]

    def unlike(self, shape: Shape) -> str | None:
        """Returns the first key in which no job of a shape can meet it."""
        return next((key for key, allowed in self.value.items() if not shape.may_have(key, allowed)), None)

    def failed(self, job: Job) -> str | None:
        if not (shape := job.shape):
            return f"a {job.workload.name} has no shape"
        for key, allowed in self.value.items():
            if not matches(fact := shape.fact(key), allowed):
                return f"shape {shape.name} has {key} {fact}, not {either(allowed)}"
        return None

    def unreachable(self, of: Reach) -> Iterator[tuple[Path, str]]:
        sized = any(row.takes_nodes for row in of.workloads)
        if not sized or all(map(self.unlike, of.shapes)):
            yield (), "unreachable: no shape of the table is like that"


class PlacedBy(OfJob[tuple[Placer, ...]], written=Annotated[tuple[Placer, ...], one_or_more(Placer)]):
    """scheduler (by affinity), whole-job (whole-job admission), kueue or gang (Kubernetes' own)."""

    def failed(self, job: Job) -> str | None:
        if job.placer in self.value:
            return None
        present, *others = (NAMES.get(placer, placer) for placer in (job.placer or "", *self.value))
        placed = f"placed by {present}" if present else "in no placed job"
        return f"it is {placed}, not by {either(others)}"


class GetsDevices(
    OfJob[tuple[str, ...]], written=Annotated[tuple[str, ...], one_or_more(Devices | NotDevices)]
):
    """How workers get devices: configured (by claims with a nodeConfig), claimed (others), requested or none.

    shared: in one of these ways, and also by claims that pods share; unknown: only by shared claims. If the
    templates differ: mixed if at most one pod has no devices, otherwise some. ``!none``: all except none.
    """

    def failed(self, job: Job) -> str | None:
        if matches(job.devices, self.value):
            return None
        return f"the way in which its workers get devices is {job.devices}, not {either(self.value)}"


class Numbered(OfJob[bool], written=Flag):
    """true: each pod that takes a node has a number."""

    def failed(self, job: Job) -> str | None:
        if self.value == job.numbered:
            return None
        return f"{'not every' if self.value else 'every'} pod has a number of its own"


def _ranges(value: Any) -> Mapping[str, Range]:  # noqa: ANN401 - what the type of match.requests takes
    amounts = value if isinstance(value, dict) else dict.fromkeys(value, 0)
    return {name: as_range(amount) for name, amount in amounts.items()}


class Requests(OfTemplate[Mapping[str, Range]]):
    """The pod requests one of these resources; a map gives the minimum, or a Range, for each.

    The amounts of all containers are added.
    """

    written = Annotated[
        Mapping[str, Range],
        written(Texts | Annotated[dict[str, Positive | Range], Limits(min_length=1)], _ranges),
    ]

    @cached_property
    def _resources(self) -> list[str]:
        return [name if wanted == Range() else f"{wanted} {name}" for name, wanted in self.value.items()]

    def failed(self, group: Group, whose: str) -> str | None:
        for name, wanted in self.value.items() if group.amounts else ():
            if name in group.amounts and is_requested(group.amounts, name, wanted.at_least, wanted.at_most):
                return None
        return f"the {whose} asks for none of {', '.join(self._resources)}"

    def shown(self, key: str) -> Iterable[str]:  # noqa: ARG002 - its text does not name the key
        return [f"asks for {'|'.join(self._resources)}"]


class Image(OfTemplate[tuple[str, ...]], written=Texts):
    """The image of any container or init container; globs. E.g. registry.example/*."""

    def failed(self, group: Group, whose: str) -> str | None:
        if any(matches(text_of(item.get("image") or ""), self.value) for item in containers(group.template)):
            return None
        return f"the {whose} has no image that is {either(self.value)}"


class InstanceType(OfTemplate[tuple[str, ...]], written=Texts):
    """Instance types that the pod selects; globs, Exists or DoesNotExist. E.g. p5.*."""

    def failed(self, group: Group, whose: str) -> str | None:
        named = group.chosen_types or ("",)
        if any(matches(name, self.value) for name in named):
            return None
        types = cut(" or ".join(named)) or "no instance type"
        return f"the {whose} names {types}, not {either(self.value)}"


class Excludes(OfTemplate[Mapping[str, tuple[str, ...]]], written=SomePatterns):
    """Values of node labels that the pod's node selector or required affinity excludes; globs."""

    def failed(self, group: Group, whose: str) -> str | None:
        chosen = group.selection
        for label, values in self.value.items() if chosen.selector or chosen.terms else ():
            if not admits(chosen, {label: values}):
                return None
        return f"the {whose} does not leave out nodes with such {' or '.join(self.value)}"


class InTemplate(
    OfTemplate[tuple[Mapping[ObjectPath, tuple[str, ...]], ...]],
    written=Annotated[
        tuple[Mapping[Pointer, Texts], ...],
        one_or_more(Annotated[Mapping[Pointer, Texts], Limits(min_length=1)]),
    ],
):
    """Values by JSON pointer into the template; globs, Exists, DoesNotExist, or placeholders.

    In a pointer, ``*`` is a wildcard. E.g. {/spec/resourceClaims: Exists}.
    """

    @property
    def texts(self) -> list[str]:
        """Its values."""
        return [text for places in self.value for allowed in places.values() for text in allowed]

    @cached_property
    def quotes(self) -> frozenset[str]:
        """The placeholders of its values."""
        return frozenset(names(self.texts))

    def filled(self, values: Mapping[str, Json]) -> "InTemplate":
        """Returns the condition with the values of placeholders."""
        return InTemplate(
            tuple(
                {place: _spliced(allowed, values) for place, allowed in places.items()}
                for places in self.value
            )
        )

    def failed(self, group: Group, whose: str) -> str | None:
        why = ""
        for places in self.value:
            for place, allowed in places.items():
                values = place.values(group.template)
                value = _decisive(values, allowed) if len(values) > 1 else next(iter(values), "")
                if not matches(text_of(value) if value else "", allowed):
                    why = why or differs(place.name, shown(value, 40) if value else '""', allowed, whose)
                    break
            else:
                return None
        return why


class UnsupportedCount(OfTemplate[tuple[str, ...]], written=Texts):
    """The pod requests a number of one of these resources that deviceCounts does not permit."""

    def failed(self, group: Group, whose: str) -> str | None:
        if group.unsupported(self.value):
            return None
        return f"the {whose} requests no number of devices that its instance type does not support"

    def unreachable(self, of: Reach) -> Iterator[tuple[Path, str]]:
        if not of.device_counts:
            yield (), "unreachable: the table has no deviceCounts"


class Workers(
    OfObject[tuple[Count | Range, ...]], written=Annotated[tuple[Any, ...], one_or_more(Counted | Range)]
):
    """The number of pods that take a node, $(job.nodes), as in a shape or as a Range. E.g. 1 to 8."""

    def failed(self, job: Job) -> str | None:
        if any(job.nodes in numbers for numbers in self.value):
            return None
        return f"it has {job.nodes} workers, not {' or '.join(map(str, self.value))}"

    def shown(self, key: str) -> Iterable[str]:
        return [f"{key} {one_of(map(str, self.value))}"]


class Fields(
    OfObject[tuple[Patterns, ...]], written=Annotated[tuple[Patterns, ...], one_or_more(SomePatterns)]
):
    """Values of the workload's fields; globs, Exists or DoesNotExist."""

    def failed(self, job: Job) -> str | None:
        why = ""
        for patterns in self.value:
            for name, allowed in patterns.items():
                if unlike := _unlike(job, name, allowed):
                    why = why or unlike
                    break
            else:
                return None
        return why

    def unreachable(self, of: Reach) -> Iterator[tuple[Path, str]]:
        for name in chain.from_iterable(self.value) if of.workloads else ():
            if not any(name in row.fields for row in of.workloads):
                kinds = ", ".join(sorted(row.name for row in of.workloads))
                yield (name,), f"no workload it matches has a field {name!r}: {kinds}"


class Labels(OfObject[Mapping[str, tuple[str, ...]]], written=SomePatterns):
    """Values of the job's labels; globs, Exists or DoesNotExist. In a key, ``*`` is a wildcard."""

    kind: ClassVar = "label"

    def failed(self, job: Job) -> str | None:
        marks = map_at(job.object, ("metadata", f"{self.kind}s"))
        for key, allowed in self.value.items():
            name, value = key, marks.get(key, "")
            if "*" in key:
                of = {name: marks[name] for name in fnmatch.filter(marks, key)}
                value = _decisive([*of.values()], allowed)
                name = next((name for name in of if value and of[name] == value), key)
            if not matches(text_of(value), allowed):
                return f"{self.kind} {name} is {shown(value, 40)}, not {either(allowed)}"
        return None


class Annotations(Labels):
    """Values of the job's annotations, in the form of ``labels``."""

    kind = "annotation"


class LabelSelector(OfObject[Selector], written=Selector):
    """A label selector of Kubernetes, for the job's labels. E.g. {matchLabels: {team: vision}}."""

    def failed(self, job: Job) -> str | None:
        return self.value.unlike(map_at(job.object, ("metadata", "labels")))

    def shown(self, _: str) -> Iterable[str]:
        return [f"{one.key} {one}" for one in self.value.expressions]

    def unreachable(self, _: Reach) -> Iterator[tuple[Path, str]]:
        for one in self.value.expressions:
            if bool(one.values) != (one.operator in {"In", "NotIn"}):
                yield (), f"operator {one.operator} {'takes no' if one.values else 'needs'} values"


class NamespaceSelector(LabelSelector):
    """A selector for the job's namespace, by kubernetes.io/metadata.name: the webhook has no other label.

    E.g. {matchLabels: {kubernetes.io/metadata.name: vision}}.
    """

    def failed(self, job: Job) -> str | None:
        return self.value.unlike({NAMESPACE: job.namespace})

    def unreachable(self, of: Reach) -> Iterator[tuple[Path, str]]:
        yield from super().unreachable(of)
        if others := [one.key for one in self.value.expressions if one.key != NAMESPACE]:
            yield (), f"the webhook knows only the label {NAMESPACE}, not {either(others)}"


class Namespace(OfObject[tuple[str, ...]], written=Texts):
    """Names of namespaces; globs. E.g. research-*."""

    def failed(self, job: Job) -> str | None:
        if matches(job.namespace, self.value):
            return None
        return f"the namespace is {job.namespace}, not {either(self.value)}"


def _spliced(allowed: tuple[str, ...], values: Mapping[str, Json]) -> tuple[str, ...]:
    """Returns the allowed texts with placeholders filled in: all texts, if only an empty list is excluded."""
    texts = tuple(spliced(allowed, values))
    excluding = [text.startswith("!") for text in allowed]
    if all(excluding):
        return texts or ("*",)
    # Without the texts that a list would have allowed, the excluded ones would allow all others.
    return texts if not all(text.startswith("!") for text in texts) else ()


def _decisive(values: Sequence[Json], allowed: tuple[str, ...]) -> Json:
    """Returns which of several values decides: one that is excluded, or else one that is allowed.

    If there is none of these, it is the first. An empty value is used only if there are no others.
    """
    present = [value for value in values if value]
    excluded = tuple(text for text in allowed if text.startswith("!"))
    bad = (value for value in present if excluded and not matches(text_of(value), excluded))
    good = (value for value in present if matches(text_of(value), allowed))
    return next(chain(bad, good, present), "")


def _in_short(patterns: Mapping[object, Iterable[str]]) -> str:
    return ", ".join(f"{key} {one_of(values)}" for key, values in patterns.items())


def _unlike(job: Job, name: str, allowed: tuple[str, ...]) -> str | None:
    """Returns how a field of the workload differs from what is allowed."""
    if name not in job.workload.fields:
        return f"a {job.workload.name} has no field {name}"
    if matches(text := job.field(name), allowed):
        return None
    what = job.workload.fields[name].path.name
    return differs(what, cut(text) if len(text) > LONGEST_MESSAGE else text, allowed)


@lru_cache(maxsize=1024)  # most jobs differ from the rows in the same way
def differs(what: str, text: str, allowed: tuple[str, ...], whose: str = "") -> str:
    """Returns the message that a field has another text than is allowed."""
    shortened = cut(text) or '""'
    return f"{what}{whose and f' of the {whose}'} is {shortened}, not {either(allowed)}"


_WORDS: Mapping[str, str] = {glob: word for word, glob in WORDS.items()}


def either(values: Iterable[str]) -> str:
    """Returns texts as part of a sentence: ``a or b``."""
    return " or ".join([_WORDS.get(value, value) for value in values])


def one_of(values: Iterable[str]) -> str:
    """Returns texts in short: ``a|b``."""
    return "|".join([_WORDS.get(value, value) for value in values])


def ranges(numbers: Sequence[int]) -> str:
    """Returns ascending numbers as part of a sentence: ``1, 4, 8 or 16``, and ``1 to 12`` for a run."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))

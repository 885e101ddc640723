"""The rule table as the engine sees it: frozen rows, checked and built by ``webhook.rules``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from contract import keys
from contract.place import Placer
from webhook.objects.merge import OnConflict
from webhook.objects.paths import ObjectPath
from webhook.objects.tree import Json, get
from webhook.rows.placeholders import Filling, filling, names
from webhook.rows.workloads import ANY, Candidates, Workload


class Mode(StrEnum):
    """What a rule does with its result."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    OFF = "off"


@dataclass(frozen=True)
class Count:
    """A set of worker counts: one number, or every multiple of one.

    Attributes:
        number: the count, or the divisor; at least 1.
        multiple: whether multiples of the number count too.
    """

    number: int
    multiple: bool = False

    def __contains__(self, workers: int) -> bool:
        return workers % self.number == 0 and workers > 0 if self.multiple else workers == self.number

    def __str__(self) -> str:
        return f"multiple of {self.number}" if self.multiple else str(self.number)


@dataclass(frozen=True)
class Shape:
    """A row about job size.

    Attributes:
        workers: the worker counts it fits.
        node_config: 4, 2 or 1: how many UltraServer nodes make one unit.
        topology_key: node label whose value the nodes of one unit share; None for node config 1.
        together: how strictly workers of the job share a unit: ``required``, ``preferred``, ``none``.
        apart: how strictly workers of other jobs are kept off it.
        warn: a message for a person whose job has this shape.
        deny: a message with which a job of this shape is refused.
    """

    name: str
    workers: Count
    node_config: int
    topology_key: str | None = None
    together: str = "none"
    apart: str = "none"
    warn: str | None = None
    deny: str | None = None

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What ``match.shape`` of a rule compares, by the names the table uses."""
        return {
            "name": self.name,
            "nodeConfig": str(self.node_config),
            "together": self.together,
            "apart": self.apart,
        }


_CONDITIONS: Final = (
    *("shape", "placer", "numbered", "named"),
    *("requests", "volume", "template", "unsupported_count"),
    *("fields", "labels", "annotations", "namespace"),
)
"""In the order in which they are looked at: a job's, each template's, the object's."""


@dataclass(frozen=True)
class Match:
    """When a rule fires; every condition that is given must hold.

    Attributes:
        role: the pods that the rule speaks about: a group's, ``worker`` for all that take nodes, or ``any``.
        candidate: whether the object is one that the section candidates speaks about; None for either.
        workload: names of workloads.
        shape: allowed values by fact of the shape.
        named: whether the job has a name already (``generateName`` jobs have none at admission).
        numbered: whether each pod that takes a node has a number of its own, from 0.
        placer: who finds the nodes of the job; of a Pod, what it says itself.
        requests: the template asks for one of these resources, for at least this number; 0 is any amount.
        volume: the template has a volume of one of these names.
        template: allowed values by place in the template; what is not there, or empty, is the empty text.
        every: whether all of the role's templates have to meet the conditions on templates.
        unsupported_count: a container asks for a number of one of these that its instance type does not take.
        fields: allowed values by name of a workload's field; ``*`` and ``?`` as in file names.
        labels: the same by key of a label of the object; one that it does not have is the empty text.
        annotations: the same for its annotations.
        namespace: the same for the name of its namespace.
        mount_taken: a volume mount whose place the first container uses for something else.
    """

    role: str
    candidate: bool | None = True
    workload: tuple[str, ...] = ()
    shape: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: bool | None = None
    numbered: bool | None = None
    placer: tuple[str, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    volume: tuple[str, ...] = ()
    template: Mapping[ObjectPath, tuple[str, ...]] = field(default_factory=dict)
    every: bool = False
    unsupported_count: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    namespace: tuple[str, ...] = ()
    mount_taken: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def given(self) -> Mapping[str, Any]:
        """The conditions that it has, by attribute: role, workload and candidate aside."""
        every = {name: getattr(self, name) for name in _CONDITIONS}
        return {name: wanted for name, wanted in every.items() if wanted not in (None, (), {})}

    @cached_property
    def decided(self) -> dict[tuple[object, ...], str | None]:
        """What conditions on the job said of the facts about one, which are as few as rows of the table."""
        return {}

    @cached_property
    def mount(self) -> Filling | None:
        """What fills in the mount whose place may be taken; None where that is the same for every job."""
        return filling(self.mount_taken)

    def requests_shown(self) -> list[str]:
        """The resources of ``requests``, each with its least number where there is one."""
        return [f"{least} {name}" if least else name for name, least in self.requests.items()]


@dataclass(frozen=True)
class Rule:
    """One row of the table: when it fires, what it adds, and why.

    Attributes:
        reason: why, in plain words.
        add: the fragment of a pod template, placeholders and all.
        replaces: rules that do not fire where this one does.
        needs: rules of which one must have fired and met no conflict, or this one would refer to nothing.
        warn: a message for a person whose job the rule fires for.
        deny: a message with which such a job is refused.
        quiet: whether conflicts are what the rule is for, and no news to anybody.
        placer: who finds the nodes of the jobs that the rule fires for; the first such rule decides.
        per_template: whether what it adds differs from template to template of a role.
        waits_for: a value that it quotes and that the table does not give, as in its placeholder.
    """

    name: str
    reason: str
    match: Match
    add: Mapping[str, Json] = field(default_factory=dict)
    on_conflict: OnConflict = OnConflict.KEEP
    mode: Mode = Mode.ENFORCE
    replaces: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    warn: str | None = None
    deny: str | None = None
    quiet: bool = False
    placer: Placer | None = None
    waits_for: str = ""
    per_template: bool = False

    @cached_property
    def quotes(self) -> frozenset[str]:
        """The placeholders of its condition, messages and fragment."""
        parts = (self.match.mount_taken, self.warn or "", self.deny or "", self.add)
        return frozenset(name for part in parts for name in names(part))

    @cached_property
    def fragment(self) -> Filling | None:
        """What fills in what it adds; None where that is the same for every job."""
        return filling(self.add)

    @property
    def place(self) -> str:
        """The rule in whose place it is applied: the first that it replaces, or itself."""
        return self.replaces[0] if self.replaces else self.name


@dataclass(frozen=True)
class Table:
    """A whole rule table.

    Attributes:
        revision: twelve hexadecimal digits that change with the table's content.
        shapes: tried in this order; the first that fits is taken.
        rules: applied in this order.
        mode: of the whole table: the switch that stops everything, or lets it be watched first.
        device_counts: by instance type, which numbers of devices a container may ask for, ascending.
    """

    revision: str
    candidates: Candidates
    workloads: tuple[Workload, ...]
    shapes: tuple[Shape, ...]
    rules: tuple[Rule, ...]
    mode: Mode = Mode.ENFORCE
    device_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def labels_jobs(self) -> bool:
        """Whether a rule sets the job label."""
        labels = (
            get(rule.add, ("metadata", "labels", keys.JOB))
            for rule in self.rules
            if rule.mode is Mode.ENFORCE
        )
        return any(label is not None for label in labels)

    def rules_of(self, workload: Workload) -> Sequence[Rule]:
        """The rules for a kind of object: those of others cost it nothing."""
        return self._rules_of[workload.name]

    @cached_property
    def _rules_of(self) -> Mapping[str, Sequence[Rule]]:
        return {
            workload.name: [
                rule
                for rule in self.rules
                if (not rule.match.workload or workload.name in rule.match.workload)
                and rule.match.role in {ANY, *workload.roles()}
            ]
            for workload in self.workloads
        }

    def quoted_of(self, workload: Workload) -> Collection[str]:
        """The placeholders that rules for a kind of object quote."""
        return self._quoted_of[workload.name]

    @cached_property
    def _quoted_of(self) -> Mapping[str, Collection[str]]:
        return {
            name: frozenset().union(*(rule.quotes for rule in rules))
            for name, rules in self._rules_of.items()
        }

    def workloads_of(self, kind: str) -> tuple[Workload, ...]:
        """The workloads for a ``group/version/Kind``; the first whose ``when`` holds opens an object.

        One without a ``when`` comes last: it is for what the others leave.
        """
        return tuple(
            sorted((row for row in self.workloads if kind in row.kinds), key=lambda row: not row.when)
        )

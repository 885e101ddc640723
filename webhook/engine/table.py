"""The rule table as the engine sees it: frozen rows, checked and built by ``webhook.rules``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.engine.places import Place
from webhook.engine.tree import Json

WORKER = "worker"
"""The role of every group that takes nodes, whatever else it is."""


class Mode(StrEnum):
    """What a rule does with its result."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    OFF = "off"


class OnConflict(StrEnum):
    """What happens where the user already chose differently."""

    KEEP = "keep"
    OVERRIDE = "override"
    DENY = "deny"


@dataclass(frozen=True)
class Field:
    """A value of the object that fragments may quote as ``$(field.NAME)``.

    Attributes:
        path: where it is in the object.
        default: what stands for it where it is missing or null.
        parent: it is a path of files, and the directory that it is in is meant.
        divided_by: name of another field: both are whole numbers, and their quotient, rounded down, is meant.
        smaller: it is a quantity, and the smaller of it and the default is meant.
    """

    path: Place
    default: str
    parent: bool = False
    divided_by: str | None = None
    smaller: bool = False


@dataclass(frozen=True)
class Factor:
    """A number of a job: one that it says, or a constant.

    Attributes:
        path: where the job says it; None for a constant.
        default: the constant, and what stands for a number that the job does not say.
    """

    path: Place | None
    default: int = 0


@dataclass(frozen=True)
class Group:
    """One set of equal pods of a workload.

    Attributes:
        role: what rules call it.
        template: place of its pod template; the empty place where the object is a Pod itself.
        replicas: how many pods; the product of these.
        takes_nodes: whether each of its pods takes a node: always, never, or where the job says ``true``.
    """

    role: str
    template: Place
    replicas: tuple[Factor, ...] = (Factor(None, 1),)
    takes_nodes: bool | Place = False


@dataclass(frozen=True)
class Workload:
    """A kind that the webhook knows how to open.

    Attributes:
        kinds: ``group/version/Kind`` each.
        groups: its sets of pods.
        when: allowed values by name of a field; an object that has others is not this workload.
        node_config_env: an environment variable in the job's own containers that names the node config.
    """

    name: str
    kinds: tuple[str, ...]
    groups: tuple[Group, ...]
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)
    node_config_env: str | None = None

    @property
    def takes_nodes(self) -> bool:
        """Whether it has a group that can take nodes; only then it has a size, and so a shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: those of its groups, and ``worker`` for what takes nodes."""
        named = [group.role for group in self.groups]
        return tuple(dict.fromkeys([*named, WORKER] if self.takes_nodes else named))


@dataclass(frozen=True)
class Candidates:
    """Which jobs the table speaks about, the annotation aside (design.md, "Which jobs")."""

    requests: tuple[str, ...]
    instance_type_label: str
    instance_types: tuple[str, ...]


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

    def facts(self) -> dict[str, str]:
        """What ``match.shape`` of a rule compares, by the names the table uses."""
        return {
            "name": self.name,
            "nodeConfig": str(self.node_config),
            "together": self.together,
            "apart": self.apart,
        }


@dataclass(frozen=True)
class Match:
    """When a rule fires; every condition that is given must hold.

    Attributes:
        role: the pods that the rule speaks about: a group's, or ``worker`` for all that take nodes.
        workload: names of workloads.
        shape: allowed values by fact of the shape.
        named: whether the job has a name already (``generateName`` jobs have none at admission).
        requests: the template asks for one of these resources.
        volume: the template has a volume of one of these names.
        fields: allowed values by name of a workload's field; ``*`` and ``?`` as in file names.
        labels: the same by key of a label of the object; one that it does not have is the empty text.
        annotations: the same for its annotations.
        namespace: the same for the name of its namespace.
        mount_taken: a volume mount whose place the first container uses for something else.
    """

    role: str
    workload: tuple[str, ...] = ()
    shape: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: bool | None = None
    requests: tuple[str, ...] = ()
    volume: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    namespace: tuple[str, ...] = ()
    mount_taken: Mapping[str, str] = field(default_factory=dict)


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
    """

    revision: str
    candidates: Candidates
    workloads: tuple[Workload, ...]
    shapes: tuple[Shape, ...]
    rules: tuple[Rule, ...]
    mode: Mode = Mode.ENFORCE

    def workloads_of(self, kind: str) -> tuple[Workload, ...]:
        """The workloads for a ``group/version/Kind``; the first whose ``when`` holds opens an object."""
        return tuple(row for row in self.workloads if kind in row.kinds)

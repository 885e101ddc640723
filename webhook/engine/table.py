"""The rule table as the engine sees it: frozen rows, checked and built by ``webhook.rules``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.engine.tree import Json, Path


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
    """

    path: Path
    default: str
    parent: bool = False


@dataclass(frozen=True)
class Workload:
    """A kind that the webhook knows how to open.

    Attributes:
        kinds: ``group/version/Kind`` each.
        roles: path of the pod template of each role; the empty path where the object is a Pod itself.
        workers: path of the number of workers; None for a kind that is no job of its own.
        launcher_is_worker: path of a switch that makes the launcher run ranks like a worker.
        node_config_env: an environment variable in the job's own containers that names the node config.
    """

    name: str
    kinds: tuple[str, ...]
    roles: Mapping[str, Path]
    workers: Path | None = None
    launcher_is_worker: Path | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    node_config_env: str | None = None


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
        role: the template that the rule speaks about.
        workloads: names of workloads.
        shape: allowed values by fact of the shape.
        named: whether the job has a name already (``generateName`` jobs have none at admission).
        requests: the template asks for one of these resources.
        volumes: the template has a volume of one of these names.
        fields: allowed values by name of a workload's field; ``*`` and ``?`` as in file names.
        mount_taken: a volume mount whose place the first container uses for something else.
    """

    role: str
    workloads: tuple[str, ...] = ()
    shape: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: bool | None = None
    requests: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mount_taken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """One row of the table: when it fires, what it adds, and why.

    Attributes:
        reason: why, in plain words.
        add: the fragment of a pod template, placeholders and all.
        replaces: a rule that does not fire where this one does.
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
    replaces: str | None = None
    needs: tuple[str, ...] = ()
    warn: str | None = None
    deny: str | None = None
    quiet: bool = False


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

    def workload(self, kind: str) -> Workload | None:
        """The workload that opens a ``group/version/Kind``."""
        return next((row for row in self.workloads if kind in row.kinds), None)

"""The workload rows of a rule table: kinds of object, their groups of pods, their fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from contract.place import Place
from webhook.objects.paths import ObjectPath

WORKER = "worker"
"""The role of every group that takes nodes, whatever else it is."""

ANY = "any"
"""The role of every group there is."""


@dataclass(frozen=True)
class Candidates:
    """Which jobs the table speaks about, the annotation aside (design.md, "Which jobs").

    Attributes:
        requests: resources; a job whose workers ask for one of them is a candidate.
        whole_node: how much of a resource a node has; who asks for less is left alone. One that is not here
            has no such amount.
        node_labels: values of UltraServer nodes by node label; a job whose own selection admits none of them
            is left alone. ``*`` and ``?`` as in file names, here and below.
        elsewhere_labels: values of a job's label that mean nodes elsewhere, by key.
        elsewhere_tolerations: values of a taint that is on nodes elsewhere, by key.
    """

    requests: tuple[str, ...]
    instance_type_label: str
    instance_types: tuple[str, ...]
    whole_node: Mapping[str, int] = field(default_factory=dict)
    node_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elsewhere_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elsewhere_tolerations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Field:
    """A value of the object that fragments may quote as ``$(field.NAME)``.

    Attributes:
        path: where it is in the object.
        default: what stands for it where it is missing or null.
        parent: it is a path of files, and the directory that it is in is meant.
        smaller: it is a quantity, and the smaller of it and the default is meant.
    """

    path: ObjectPath
    default: str
    parent: bool = False
    smaller: bool = False


@dataclass(frozen=True)
class Factor:
    """A number of a job: one that it says, or a constant.

    Attributes:
        path: where the job says it; None for a constant.
        default: the constant, and what stands for a number that the job does not say.
    """

    path: ObjectPath | None
    default: int = 0


@dataclass(frozen=True)
class Number:
    """A number that a pod has, as a term of its index.

    Attributes:
        source: ``name`` for the number at the end of its name, or ``labels/KEY``.
        times: what it is multiplied by; the product of these.
    """

    source: str
    times: tuple[Factor, ...] = ()


DEVICES = "devices"
"""In place of whether a group takes nodes: where its pods ask for devices, or select UltraServers."""


@dataclass(frozen=True)
class Group:
    """One set of equal pods of a workload, or several where the template's path is for all of a list.

    Attributes:
        role: what rules call it.
        template: path of its pod template; the empty path where the object is a Pod itself.
        replicas: how many pods; the product of these.
        takes_nodes: whether each of its pods takes a node: always, never, where the job says ``true``, or
            `DEVICES`.
        otherwise: the role of pods that take no nodes for want of devices.
        index: the sum of these is a pod's number, from 0, among those that take nodes; empty where pods have
            none.
        continues: whether it is so among the group's own only, and those of the groups before come first.
        numbers: how many numbers there are, the product of these, where that may differ from the pods.
    """

    role: str
    template: ObjectPath
    replicas: tuple[Factor, ...] = (Factor(None, 1),)
    takes_nodes: bool | str | ObjectPath = False
    otherwise: str = ""
    index: tuple[Number, ...] = ()
    continues: bool = False
    numbers: tuple[Factor, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """Its role, and the other one that it may have."""
        return (self.role, self.otherwise) if self.otherwise else (self.role,)


@dataclass(frozen=True)
class Suspending:
    """Where an object of a kind that can be suspended says that its pods are still to come.

    Attributes:
        suspend: ``true`` where it is, or is to be, suspended.
        started: there once the operator has found it not suspended for the first time.
        stopped: ``True`` once the pods of an object that was suspended later are gone.
        active: how many pods it has: a map of groups with ``active`` each.
        keeps: role whose Job, ``NAME-ROLE``, is made while the object is suspended.
    """

    suspend: ObjectPath
    started: ObjectPath
    stopped: ObjectPath
    active: ObjectPath
    keeps: str | None = None


ALWAYS = "always"
"""In place of that: an update gets back what it takes out, whatever the object's state."""


@dataclass(frozen=True)
class Workload:
    """A kind that the webhook knows how to open.

    Attributes:
        kinds: ``group/version/Kind`` each.
        groups: its sets of pods.
        when: allowed values by name of a field; an object that has others is not this workload.
        peers: labels that the pods of a named job that take nodes have, and no other pods of its namespace;
            the job label where it is empty.
        group: a label whose value tells apart the units of one object; empty where it is one.
        place: of its Pods, where they say none.
        node_config_env: an environment variable in the job's own containers that names the node config.
        updates: when an update keeps what was added; ``ALWAYS``, or None for never.
    """

    name: str
    kinds: tuple[str, ...]
    groups: tuple[Group, ...]
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    place: Place | None = None
    node_config_env: str | None = None
    updates: Suspending | str | None = None

    @property
    def takes_nodes(self) -> bool:
        """Whether it has a group that can take nodes; only then it has a size, and so a shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: those of its groups, and ``worker`` for what takes nodes."""
        named = [role for group in self.groups for role in group.roles]
        return tuple(dict.fromkeys([*named, WORKER] if self.takes_nodes else named))

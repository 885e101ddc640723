"""The workload rows of a rule table: kinds of object, their groups of pods, their fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic import Field as Limits

from contract.place import MOST_TERMS, Place, parse
from webhook.objects.paths import ObjectPath
from webhook.rows.placeholders import names
from webhook.rows.written import (
    Flag,
    Key,
    Kind,
    MaybeText,
    Name,
    Patterns,
    Pointer,
    Positive,
    Role,
    Row,
    SomePatterns,
    TemplatePath,
    Unique,
    Whole,
    one_or_more,
    written,
)

WORKER = "worker"
"""The role of every group that takes nodes, whatever else it is."""

ANY = "any"
"""The role of every group there is."""


@dataclass(frozen=True)
class Elsewhere(Row):
    """What else says that somebody else sees to a job's nodes; it is left alone, unless it is annotated.

    Attributes:
        labels: Values of labels of the job, such as its queue; ``*`` and ``?`` as in file names.
        tolerations: Values of taints of other nodes: the job's workers tolerate one of these values of the
            key. A toleration without a value is the empty text.
        owners: Kinds of what made the job, by API group, such as an operator that chooses nodes itself.
    """

    labels: Patterns = field(default_factory=dict)
    tolerations: Patterns = field(default_factory=dict)
    owners: Patterns = field(default_factory=dict)


NODE: Literal["node"] = "node"
"""In place of a number of devices: all that a node has."""


@dataclass(frozen=True)
class Claimed(Row):
    """What a pod takes by a claim that is made from one template.

    Attributes:
        takes: ``node`` for a whole node, or a number of devices.
        node_config: The node config that the template asks the driver for; missing where it asks for none.
    """

    takes: Positive | Literal["node"]
    node_config: Annotated[int | None, written(Positive)] = None


@dataclass(frozen=True)
class Candidates(Row):
    """Which jobs the table speaks about.

    A job is a candidate if its workers ask for a whole node of one of the resources, or claim one, or select
    one of the instance types, or if it is annotated ``ultraserver-webhook.io/inject: "true"``; unless it
    points to other nodes.

    Attributes:
        requests: Resources; a job whose workers ask for one of them is a candidate.
        instance_type_label: The node label that holds the instance type.
        instance_types: UltraServer instance types. The first is chosen for a job that names none.
        whole_node: How much of a resource a node has. A job whose workers ask for less is left alone, unless
            it is annotated. A resource that is not here has no such amount; {} switches it off.
        claims: By name of a ResourceClaimTemplate, what a pod takes that claims by it; ``*`` and ``?`` as in
            file names, and the first that fits counts. A worker claims a node with ``takes: node``, or with
            as many devices as whole_node says of aws.amazon.com/neuron.
        node_labels: What UltraServer nodes have as other labels; ``*`` and ``?`` as in file names. A job
            whose own node selector or required node affinity admits none of these values is left alone.
        elsewhere: What else says that a job is for other nodes.
    """

    requests: Unique[str]
    instance_type_label: str
    instance_types: Unique[str]
    whole_node: Mapping[str, Positive] = field(default_factory=dict)
    claims: Mapping[str, Claimed] = field(default_factory=dict)
    node_labels: Patterns = field(default_factory=dict)
    elsewhere: Elsewhere = Elsewhere()


@dataclass(frozen=True)
class Field(Row):
    """A text of the object that fragments may quote as ``$(field.NAME)``.

    Attributes:
        path: Where it is in the object; with [*] in the first element that has it.
        default: What stands for it where the job does not say.
        parent: It is a file path, and the directory that it is in is meant.
        smaller: It is a quantity, and the smaller of it and the default is meant.
        counted: It is a list, and the number of its elements is meant.
    """

    path: Pointer
    default: str
    parent: Flag = False
    smaller: Flag = False
    counted: Flag = False


@dataclass(frozen=True)
class Factor(Row):
    """A number of a job: one that it says, or a constant.

    Attributes:
        path: Where the job says it; None for a constant.
        default: The constant, and what stands for a number that the job does not say.
    """

    path: Annotated[ObjectPath | None, written(Pointer)]
    default: Whole


def _factor(one: int | ObjectPath | Factor) -> Factor:
    if isinstance(one, Factor):
        return one
    return Factor(None, one) if isinstance(one, int) else Factor(one, 0)


Factors = Annotated[tuple[Factor, ...], one_or_more(Whole | Pointer | Factor, _factor)]
"""A number, where the job says it (not said is 0), or a list whose product is meant."""


@dataclass(frozen=True)
class Number(Row):
    """A number that a pod has, as a term of its index.

    Attributes:
        source: ``labels/KEY``, or ``name`` for the number at the end of the pod's name.
        times: What it is multiplied by, as replicas.
    """

    source: Annotated[str, Limits(pattern="^(name|labels/[^ =*+]+)$")]
    times: Factors = ()


DEVICES: Literal["devices"] = "devices"
"""In place of whether a group takes nodes: where its pods ask for devices, or select UltraServers."""


@dataclass(frozen=True)
class Group(Row):
    """One set of equal pods of a workload, or several where the template's path is for all of a list.

    Attributes:
        role: What rules call it. Rules for ``worker`` are for every group that takes nodes.
        template: Where its pod template is; an empty text where the object is a Pod itself. A list element is
            selected by a key: /spec/replicatedJobs[name=workers]/template; [*] is every element, in
            ``replicas`` and ``index`` the same one.
        replicas: How many pods: a number, where the job says it (not said is 0), or a list whose product is
            meant. Default: 1.
        takes_nodes: Whether each of its pods takes a node: true, false (default), where the job says
            ``true``, or with the word devices where they ask for a whole node's, or select an instance type,
            of the section candidates.
        otherwise: The role of pods that take no nodes for want of devices.
        index: Where a pod's number is, from 0 among those that take nodes: the sum of these.
        continues: The number is one among the group's own pods, and those of the groups before it come first.
        numbers: How many numbers its pods have in turn, as replicas, where that may differ from the pods at a
            time; as many, where the job does not say.
    """

    role: Role
    template: TemplatePath
    replicas: Factors = (Factor(None, 1),)
    takes_nodes: Flag | Literal["devices"] | Pointer = False
    otherwise: Role = ""
    index: Annotated[tuple[Number, ...], Limits(min_length=1, max_length=MOST_TERMS)] = ()
    continues: Flag = False
    numbers: Factors = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """Its role, and the other one that it may have."""
        return (self.role, self.otherwise) if self.otherwise else (self.role,)


@dataclass(frozen=True)
class Suspending(Row):
    """Where an object of a kind that can be suspended says that its pods are still to come.

    Attributes:
        suspend: true where it is, or is to be, suspended.
        started: There once the operator has found it not suspended for the first time.
        stopped: The text True once the pods of an object that was suspended later are gone.
        active: How many pods it has: a map of groups with active each.
        keeps: The role whose Job, NAME-ROLE, is made while the object is suspended: after a change of size
            it is one of the old size.
    """

    suspend: Pointer
    started: Pointer
    stopped: Pointer
    active: Pointer
    keeps: Annotated[str | None, written(Name)] = None


def _peer(value: str) -> str:
    if value != "$(job.name)" and any(names(value)):
        raise ValueError(f"is {value!r}: it must be $(job.name), or quote nothing")
    return value


ALWAYS: Literal["always"] = "always"
"""In place of that: an update gets back what it takes out, whatever the object's state."""


@dataclass(frozen=True)
class Workload(Row):
    """A kind that the webhook knows how to open.

    Attributes:
        name: Unique among its kind of row; it appears in outcomes, warnings and audit annotations.
        kinds: group/version/Kind each.
        groups: Its sets of equal pods.
        when: An object is this workload only if its fields have these values; ``*`` and ``?`` as in file
            names. So workloads can share a kind; one without ``when`` takes what the others leave.
        fields: Texts of the job that fragments quote as $(field.NAME).
        peers: Labels that the pods of a named job that take nodes have, and no other pods of its namespace; a
            value may be $(job.name). Default: the job label.
        group: A label whose value tells apart the units of one object, each a job of its own to whatever
            places it.
        place: For Pods that say no place of their own: the annotation ultraserver-webhook.io/place that they
            would have.
        node_config_env: An environment variable by which a job's own container names its node config.
        updates: When an update of a stored object gets back what it takes out: always, where pods are made of
            the stored template at any time or the template cannot be changed; or while its pods are still to
            come, by where the object says so. Never where this is missing.
    """

    name: Name
    kinds: Unique[Kind]
    groups: Annotated[tuple[Group, ...], Limits(min_length=1)]
    when: SomePatterns = field(default_factory=dict)
    fields: Mapping[Key, Field] = field(default_factory=dict)
    peers: Annotated[Mapping[str, Annotated[str, AfterValidator(_peer)]], Limits(min_length=1)] = field(
        default_factory=dict
    )
    group: str = ""
    place: Annotated[Place | None, written(str, parse)] = None
    node_config_env: MaybeText = None
    updates: Annotated[Suspending | str | None, written(Literal["always"] | Suspending)] = None

    @property
    def takes_nodes(self) -> bool:
        """Whether it has a group that can take nodes; only then it has a size, and so a shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: those of its groups, and ``worker`` for what takes nodes."""
        named = [role for group in self.groups for role in group.roles]
        return tuple(dict.fromkeys([*named, WORKER] if self.takes_nodes else named))

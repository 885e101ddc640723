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
    """What else says that a job is for other nodes; such a job is left alone, unless it is opted in.

    Attributes:
        labels: Values of labels of the job, such as its queue, by key; globs.
        tolerations: Values of tolerations of the job's workers, by the taint's key; globs; the empty text for
            a toleration without a value.
        owners: Kinds of what made the job, by API group, such as an operator that chooses nodes itself;
            globs.
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
        takes: ``node`` for a whole node, or a number of devices; it is a whole node if it equals wholeNode of
            aws.amazon.com/neuron.
        node_config: The node config that the template asks the driver for. It counts as the annotation does;
            a job that says another one is refused. Missing where the template asks for none.
    """

    takes: Positive | Literal["node"]
    node_config: Annotated[int | None, written(Positive)] = None


@dataclass(frozen=True)
class Candidates(Row):
    """Which jobs the table is for.

    A job is a candidate if its workers request a whole node of one of the resources, or claim one, or select
    one of the instance types, or if it is annotated ``ultraserver-webhook.io/inject: "true"``; unless it
    points to other nodes.

    Attributes:
        requests: Resources; a job whose workers request one of them is a candidate.
        instance_type_label: The node label that holds the instance type.
        instance_types: UltraServer instance types. A job whose own node selector or required node affinity
            excludes all of them is left alone. $(job.instanceType) is the first that the job does not
            exclude.
        whole_node: How much of a resource a node has. A job whose workers request less is left alone, unless
            it is opted in. A resource that is not listed counts in any amount; {} takes every amount.
        claims: What a pod takes by a claim, by name of the ResourceClaimTemplate; globs; the first that fits
            counts. Names of a table that extends another are tried first.
        node_labels: Other labels of UltraServer nodes: values by label; globs. A job whose own selection
            allows none of the values of one of them is left alone.
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
    """A text of the object that fragments use as ``$(field.NAME)``; at most one of the flags.

    Attributes:
        path: JSON pointer; with [*] the first list element that has it.
        default: The text where the job has none; may contain $(value.NAME).
        parent: true: the text is a file path, and its directory is used.
        smaller: true: the smaller of two quantities, the text and the default.
        counted: true: the number of elements of a list.
    """

    path: Pointer
    default: str
    parent: Flag = False
    smaller: Flag = False
    counted: Flag = False


@dataclass(frozen=True)
class Factor(Row):
    """A number of a job, or a constant.

    Attributes:
        path: JSON pointer to the number.
        default: The number where the job has none.
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
    """One term of the sum that is a pod's number.

    Attributes:
        source: ``labels/KEY``, or ``name`` for the number at the end of the pod's name.
        times: A factor, written as replicas.
    """

    source: Annotated[str, Limits(pattern="^(name|labels/[^ =*+]+)$")]
    times: Factors = ()


DEVICES: Literal["devices"] = "devices"
"""In place of whether a group takes nodes: where its pods ask for devices, or select UltraServers."""


@dataclass(frozen=True)
class Group(Row):
    """One set of identical pods of a workload; several if the pointer to the template has [*].

    Attributes:
        role: Its name in rules. ``worker`` in a rule is every group that takes nodes.
        template: JSON pointer to its pod template; the empty text where the object is a Pod itself.
            LIST[KEY=VALUE] selects a list element by a key; LIST[*] is every element, and the same element in
            replicas, times and numbers.
        replicas: How many pods: a number, a JSON pointer (0 if the field is missing), {path, default}, or a
            list of these, which are multiplied. Default: 1. The number 0 is for a group whose one pod is the
            first of the next group's.
        takes_nodes: Whether each pod takes a node: true, false (default), a JSON pointer to a boolean field,
            or ``devices``: if the pods request a whole node of candidates, or select one of its instance
            types. In a job that is opted in and has no such pods: those that request any devices, or else
            all.
        otherwise: With ``takesNodes: devices``, the role of pods that take no nodes.
        index: Where a pod's number is, from 0 among those that take nodes: a sum of up to four terms.
        continues: true: the number counts within the group; pods of the groups before it come first.
        numbers: How many numbers there are, written as replicas, if that can differ from the number of pods.
            Then not all pods exist at once, and the job has no whole-job admission.
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
    """Where an object that can be suspended says that its pods are still to come.

    Attributes:
        suspend: JSON pointer: true while the object is, or is to be, suspended.
        started: JSON pointer: present once the operator has seen the object not suspended.
        stopped: JSON pointer: "True" once the pods of an object that was suspended later are gone.
        active: JSON pointer to a map of groups with the number of active pods of each.
        keeps: Role whose Job, NAME-ROLE, is created while the object is suspended; after a change of size a
            warning says to delete it.
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
    """A kind of job.

    Attributes:
        name: Unique among workloads.
        kinds: ``group/version/Kind`` each.
        groups: Its sets of identical pods.
        when: An object is this workload only if its fields have these values; globs. So workloads can share a
            kind: the first that matches is used, and last one without ``when``.
        fields: Texts of the job, used as $(field.NAME) and in match.fields.
        peers: Labels that the pods of a named job which take nodes have, and no other pods of its namespace;
            a value may be $(job.name). Default: the job label.
        group: A label whose value tells apart the units of one object: each is a job of its own.
        place: Of a workload of Pods: the annotation ultraserver-webhook.io/place of those that have none.
        node_config_env: Environment variable with which a job's containers choose the node config.
        updates: When an update of a stored object gets back what it takes out: ``always``, or while its pods
            are still to come. Default: never.
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

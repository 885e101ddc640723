"""Defines the workload rows of a rule table: kinds of objects, their groups of pods, and their fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic import Field as Limits

from common.quantities import thousandths
from contract.placement import ENV, LABEL, MOST_SUMMANDS, NAME, Placement, parse
from webhook.objects.paths import ObjectPath
from webhook.objects.templates import matches
from webhook.objects.tree import Json, Path, WrongTypeError, get
from webhook.rows import messages
from webhook.rows.placeholders import placeholders_in
from webhook.rows.written import (
    Flag,
    Key,
    Maybe,
    Name,
    ObjectKind,
    Patterns,
    Pointer,
    Role,
    Row,
    SomePatterns,
    TemplatePath,
    Texts,
    Unique,
    Whole,
    one_or_more,
    read_as,
)

WORKER = "worker"
"""The additional role of every group that takes nodes."""

ANY = "any"
"""The role of all groups."""

NUMBER_LIMIT = 10**9
"""A number in a Field must be below this limit, unless the Field has the function min or least."""


@dataclass(frozen=True)
class Elsewhere(Row):
    """Labels, tolerations and owners of jobs that are for other nodes than those of the families.

    The table does not place a job that has one of them, unless the job is opted in.

    Attributes:
        labels: Labels of the job, such as its queue, with the values that are for other nodes; globs. E.g.
            {kueue.x-k8s.io/queue-name: gpu-*}
        tolerations: Tolerations of the workers, by key of the taint, with the values that are for other
            nodes; globs. ``DoesNotExist`` stands for a toleration of the key without a value. E.g.
            {nvidia.com/gpu: DoesNotExist}
        owners: Kinds of owner whose jobs are for other nodes, by API group; globs.
    """

    labels: Patterns = field(default_factory=dict)
    tolerations: Patterns = field(default_factory=dict)
    owners: Patterns = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates(Row):
    """Which jobs the table places. These settings are for all families.

    Attributes:
        instance_type_labels: The node label with the instance type, and other labels with the same value.
        other_labels: Globs of node labels that nodes of every instance type can have, such as
            kubernetes.io/arch. If a job selects nodes by a label that the table does not have, a rule can
            warn.
        elsewhere: Labels, tolerations and owners of jobs for nodes of no family: see Elsewhere.
    """

    instance_type_labels: Unique[str]
    other_labels: Texts = ()
    elsewhere: Elsewhere = Elsewhere()


Function = Literal["dirname", "min", "count", "least"]
MIN: Literal["min"] = "min"
LEAST: Literal["least"] = "least"


@dataclass(frozen=True)
class Field(Row):
    """A value of the object, as text. A JSON pointer alone stands for a Field with this path.

    Attributes:
        path: JSON pointer to the value. With [*], the first element that has a value is used.
        default: The text if the value is missing. It may contain $(value.NAME). Default: an empty text. E.g.
            none
        function: dirname: the directory of a file path. min: the smaller of two quantities, the value and the
            default; a value of 0 means no limit. count: the length of a list. least: with [*], the smallest
            number of all elements; the default is used for an element without a number. E.g. count
    """

    path: Pointer
    default: str = ""
    function: Maybe[Function] = None

    def text(self, obj: Json) -> str:
        """Returns the text of the field in an object; the default if the value is missing or empty.

        Raises:
            WrongTypeError: The value is neither a text, nor true or false, nor a whole number below
                `NUMBER_LIMIT`, and the field has no function that can read the value.
        """
        if self.function == LEAST:
            values = (get(obj, path) for path in self.path.find_all(obj))
            base = int(self.default)
            return str(min((value if isinstance(value, int) else base for value in values), default=base))
        value = self.path.value(obj)
        if self.function == MIN:
            text = str(value) if isinstance(value, str | int | float) else ""
            # A value of 0, or a text that is not a quantity, means no limit.
            return text if 0 < thousandths(text) < thousandths(self.default) else self.default
        if self.function == "count" and isinstance(value, list):
            value = len(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int) and abs(value) < NUMBER_LIMIT:
            value = str(value)
        if value is not None and not isinstance(value, str):
            raise WrongTypeError(self.path.name, "text", value)
        text = value or self.default
        if self.function != "dirname":
            return text
        # For a file in the root directory, the default's directory is used: the root has other files, too.
        directories = (path.rstrip("/").rpartition("/")[0] for path in (text, self.default))
        return next(filter(None, directories), "/")


def _to_field(value: ObjectPath | Field) -> Field:
    return value if isinstance(value, Field) else Field(value)


@dataclass(frozen=True)
class Factor(Row):
    """A number in the object.

    Attributes:
        path: JSON pointer to the number.
        default: The number if the field is missing.
        at_most: JSON pointer to an upper limit of the number. The field may be missing. Default: no limit.
    """

    path: Maybe[Pointer]
    default: Whole
    at_most: Maybe[Pointer] = None


def _to_factor(value: int | ObjectPath | Factor) -> Factor:
    if isinstance(value, Factor):
        return value
    return Factor(None, value) if isinstance(value, int) else Factor(value, 0)


Factors = Annotated[tuple[Factor, ...], one_or_more(Whole | Pointer | Factor, _to_factor)]
"""A number of the job, or several numbers that are multiplied. A pointer to a missing field gives 0."""


@dataclass(frozen=True, kw_only=True)
class Summand(Row):
    """A summand of a pod's number. It has exactly one of the keys label, env and podName.

    Attributes:
        label: The pod's label whose value is the number. E.g. batch.kubernetes.io/job-completion-index
        env: The environment variable of a container whose value is the number. E.g. RANK
        pod_name: true: the number is at the end of the pod's name. E.g. true
        times: A factor for the number, written like ``replicas``. Default: 1. E.g. /spec/parallelism
    """

    label: Annotated[str, Limits(pattern="^[^ =*+]+$")] = ""
    env: Annotated[str, Limits(pattern="^[^ =*+/]+$")] = ""
    pod_name: Flag = False
    times: Factors = ()

    @property
    def sources(self) -> list[str]:
        """The sources of the summand, as the placement annotation names them. A valid summand has one."""
        sources = [f"{LABEL}{self.label}"] if self.label else []
        return [*sources, *([f"{ENV}{self.env}"] if self.env else []), *([NAME] if self.pod_name else [])]


@dataclass(frozen=True, kw_only=True)
class Number(Summand):
    """The number of a pod among the pods of the job that take nodes, from 0.

    Attributes:
        plus: Up to three more summands.
        continues: true: the sum of the summands is the number within the group, to which the size of all
            earlier groups is added.
        count: How many distinct numbers the pods have, written like ``replicas``. If it is neither 0 nor the
            number of pods, the job is not ``numbered``, so whole-job admission does not place the job.
            Default: the number of pods.
        completion_mode: A field. If its value is NonIndexed, the pods have no number.
    """

    plus: Annotated[tuple[Summand, ...], one_or_more(Summand), Limits(max_length=MOST_SUMMANDS - 1)] = ()
    continues: Flag = False
    count: Factors = ()
    completion_mode: Maybe[Annotated[Field, read_as(Pointer | Field, _to_field)]] = None

    @cached_property
    def summands(self) -> Sequence[tuple[str, Factors]]:
        """The source and the factors of each summand."""
        return [(summand.sources[0], summand.times) for summand in (self, *self.plus)]


BY_DEVICES: Literal["devices"] = "devices"
"""The value of takesNodes for groups whose pods take nodes if they request a node or select its type."""

HELPER = "helper"
"""The role of a group with `BY_DEVICES` whose pods take no nodes."""


@dataclass(frozen=True)
class Group(Row):
    """A set of equal pods of the job. A template with [*] gives a set for each element of a list.

    Attributes:
        role: The role of the pods, by which rules select them.
        template: JSON pointer to the pod template; empty for a Pod. Here, and in replicas and number,
            LIST[KEY=VALUE] selects an element of a list, and LIST[*] all elements.
        replicas: The number of pods that exist at the same time: a number, a JSON pointer (0 if the field is
            missing), a Factor, or a list of these, which are multiplied. Default: 1. The number 0 in the row
            itself means that the template is for the first pod of the next group, such as the leader of a
            LeaderWorkerSet; the number of the next group includes this pod.
        takes_nodes: Whether each pod takes a node: true, false (default), a JSON pointer, or ``devices``.
            With ``devices``, pods take a node if they request a whole node or select an instance type. If an
            opted-in job has no such pods, its pods that request devices take a node; if no pod requests
            devices, all pods do. Pods that take no node have the role ``helper``.
        number: Where the number of a pod is. Default: pods have no number. E.g. {label:
            batch.kubernetes.io/job-completion-index}
        later: JSON pointer. If the field has a value, the pods of this group are created after the pods of
            other groups have ended. The job's size is the larger number: these pods, or all other pods.
    """

    role: Role
    template: TemplatePath
    replicas: Factors = (Factor(None, 1),)
    takes_nodes: Flag | Literal["devices"] | Pointer = False
    number: Maybe[Number] = None
    later: Maybe[Pointer] = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of the group; with `BY_DEVICES`, also the role of pods that take no nodes."""
        return (self.role, HELPER) if self.takes_nodes == BY_DEVICES else (self.role,)

    def key(self, obj: Json, path: Path) -> str:
        """Returns the role of a group and, in a list, also the name or else the position of the element."""
        if not (list_path := self.template.list_path):
            return self.role
        element_path = path[: len(list_path.parts) + 1]
        return f"{self.role}/{get(obj, (*element_path, 'name')) or element_path[-1]}"


@dataclass(frozen=True)
class Suspending(Row):
    """The fields by which a user suspends a job of Kubeflow's training operators.

    If an update removes added fields, the webhook adds them again, as long as the job has no pods.

    Attributes:
        suspend: JSON pointer to the field by which the user suspends the object.
        keeps: The role whose Job exists while the object is suspended. If the size of the object changes, a
            warning asks the user to delete this Job.
    """

    suspend: Pointer
    keeps: Maybe[Name] = None


def _check_peer(value: str) -> str:
    if value != "$(job.name)" and any(placeholders_in(value)):
        raise ValueError(messages.other_peer(value))
    return value


@dataclass(frozen=True)
class Workload(Row):
    """A kind of job.

    Attributes:
        name: The workload's name, which no other workload has.
        kinds: Kinds of object, each as ``group/version/Kind``.
        groups: The sets of pods.
        when: Values of fields; globs. If several workloads have the same kind, the first workload whose
            values match is used. A workload without ``when`` comes last.
        fields: Values of the object, which ``match`` and $(field.NAME) use.
        peers: Labels by which affinity selects the pods of the job that take nodes. No other pods in the
            namespace may have these labels. A value may be $(job.name). For jobs with a
            generateName, affinity selects by the job label. Default: the job label.
        group: A label of the pods. Pods with different values of this label are placed as separate jobs.
        place: Only for Pods: the value that is used if a Pod has no placement annotation. E.g.
            placer=affinity workers=1 size=1 unit=kubernetes.io/hostname
        main_container: Names of environment variables or mounted volumes that the operator adds to the main
            container. If no container has them, the first container is the main container. Default: the
            first container that requests devices.
        updates: Whether the webhook adds fields again that an update removed: ``always``, or as long as no
            pods exist (see Suspending). Default: never.
    """

    name: Name
    kinds: Unique[ObjectKind]
    groups: Annotated[tuple[Group, ...], Limits(min_length=1)]
    when: SomePatterns = field(default_factory=dict)
    fields: Mapping[Key, Annotated[Field, read_as(Pointer | Field, _to_field)]] = field(default_factory=dict)
    peers: Annotated[Mapping[str, Annotated[str, AfterValidator(_check_peer)]], Limits(min_length=1)] = field(
        default_factory=dict
    )
    group: str = ""
    place: Annotated[Placement | None, read_as(str, parse)] = None
    main_container: Texts = ()
    updates: Annotated[Suspending | str | None, read_as(Literal["always"] | Suspending)] = None

    def find_mismatch(self, obj: Json) -> tuple[str, str] | None:
        """Returns the first field that does not match ``when``, and its value; None if all fields match.

        Raises:
            WrongTypeError: A field in ``when`` cannot be read as text.
        """
        for name, allowed in self.when.items():
            if not matches(value := self.fields[name].text(obj), allowed):
                return name, value
        return None

    @cached_property
    def takes_nodes(self) -> bool:
        """Whether the workload has a group that can take nodes. If not, jobs have no size and no shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: the roles of groups, and ``worker`` if a group can take nodes."""
        roles = [role for group in self.groups for role in group.roles]
        return tuple(dict.fromkeys([*roles, WORKER] if self.takes_nodes else roles))

"""Defines the workload rows of a rule table: kinds of objects, their groups of pods, and their fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic import Field as Limits

from common.quantities import thousandths
from contract.place import ENV, LABEL, MOST_TERMS, NAME, Place, parse
from webhook.objects.paths import ObjectPath
from webhook.objects.templates import matches
from webhook.objects.tree import Json, Path, WrongTypeError, get
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

LARGEST_NUMBER = 10**9
"""Numbers from this one on are not read from a job's fields."""


@dataclass(frozen=True)
class Elsewhere(Row):
    """Signs that a job is meant for other nodes.

    The webhook does not change such a job unless it is opted in.

    Attributes:
        labels: Values of the job's labels, such as its queue; globs.
        tolerations: Values of the workers' tolerations, by key of the taint; globs, or DoesNotExist.
        owners: Kinds of the job's owner, by API group; globs.
    """

    labels: Patterns = field(default_factory=dict)
    tolerations: Patterns = field(default_factory=dict)
    owners: Patterns = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates(Row):
    """Which jobs are placed, on machines of every family.

    Attributes:
        instance_type_labels: The node label with the instance type, and other labels with the same value.
        other_labels: Globs of node labels that do not depend on the instance type. A rule can warn about a
            job that selects nodes by any other label.
        elsewhere: See Elsewhere.
    """

    instance_type_labels: Unique[str]
    other_labels: Texts = ()
    elsewhere: Elsewhere = Elsewhere()


Function = Literal["dirname", "min", "count", "least"]
MIN: Literal["min"] = "min"
LEAST: Literal["least"] = "least"


@dataclass(frozen=True)
class Field(Row):
    """A text that is read from the object. A JSON pointer alone is the path.

    Attributes:
        path: JSON pointer; with [*], the first element that has the field.
        default: The text if the field is missing; may contain $(value.NAME). E.g. none
        function: dirname: the directory of a file path; min: the smaller of two quantities, the field's and
            the default; count: the length of a list; least: with [*], the smallest number of all elements.
    """

    path: Pointer
    default: str = ""
    function: Maybe[Function] = None

    def text(self, obj: Json) -> str:
        """Returns the value of the field as text, or the default if the object has no value.

        Raises:
            WrongTypeError: The value is not a text, a truth value or a number of a permitted size.
        """
        if self.function == LEAST:
            values = (get(obj, path) for path in self.path.find_all(obj))
            other = int(self.default)
            return str(min((value if isinstance(value, int) else other for value in values), default=other))
        value = self.path.value(obj)
        if self.function == MIN:
            text = str(value) if isinstance(value, str | int | float) else ""
            # A value of 0, or a text that is not a quantity, means no limit.
            return text if 0 < thousandths(text) < thousandths(self.default) else self.default
        if self.function == "count" and isinstance(value, list):
            value = len(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int) and abs(value) < LARGEST_NUMBER:
            value = str(value)
        if value is not None and not isinstance(value, str):
            raise WrongTypeError(self.path.name, "text", value)
        text = value or self.default
        if self.function != "dirname":
            return text
        # For a file in the root directory, the default is used, because that directory is not the file's own.
        directories = (path.rstrip("/").rpartition("/")[0] for path in (text, self.default))
        return next(filter(None, directories), "/")


def _to_field(value: ObjectPath | Field) -> Field:
    return value if isinstance(value, Field) else Field(value)


@dataclass(frozen=True)
class Factor(Row):
    """A number that is read from the object.

    Attributes:
        path: JSON pointer.
        default: The number if the field is missing.
        at_most: JSON pointer to an upper limit, which may be missing.
    """

    path: Maybe[Pointer]
    default: Whole
    at_most: Maybe[Pointer] = None


def _to_factor(value: int | ObjectPath | Factor) -> Factor:
    if isinstance(value, Factor):
        return value
    return Factor(None, value) if isinstance(value, int) else Factor(value, 0)


Factors = Annotated[tuple[Factor, ...], one_or_more(Whole | Pointer | Factor, _to_factor)]
"""A number of the job, which is 0 if it is missing, or several numbers that are multiplied."""


@dataclass(frozen=True, kw_only=True)
class Term(Row):
    """A term of a pod's number, which is a sum. It has one of label, env and podName.

    Attributes:
        label: The label whose value it is. E.g. batch.kubernetes.io/job-completion-index
        env: The variable of a container whose value it is.
        pod_name: true: the number at the end of the pod's name.
        times: A factor, in the form of ``replicas``.
    """

    label: Annotated[str, Limits(pattern="^[^ =*+]+$")] = ""
    env: Annotated[str, Limits(pattern="^[^ =*+/]+$")] = ""
    pod_name: Flag = False
    times: Factors = ()

    @property
    def sources(self) -> list[str]:
        """The sources of the term, as the placement annotation names them. A valid term has one source."""
        sources = [f"{LABEL}{self.label}"] if self.label else []
        return [*sources, *([f"{ENV}{self.env}"] if self.env else []), *([NAME] if self.pod_name else [])]


@dataclass(frozen=True, kw_only=True)
class Number(Term):
    """A pod's number, from 0 among the pods that take nodes.

    Attributes:
        plus: Up to three more terms.
        continues: If true, the number is the position within the group; the pods of earlier groups have the
            smaller numbers.
        count: How many different numbers there are, in the form of ``replicas``. Necessary if several pods
            can have the same number. Such a job is placed without whole-job admission.
        completion_mode: A field; if its value is NonIndexed, pods have no number.
    """

    plus: Annotated[tuple[Term, ...], one_or_more(Term), Limits(max_length=MOST_TERMS - 1)] = ()
    continues: Flag = False
    count: Factors = ()
    completion_mode: Maybe[Annotated[Field, read_as(Pointer | Field, _to_field)]] = None

    @cached_property
    def terms(self) -> Sequence[tuple[str, Factors]]:
        """The source and the factors of each term of the sum."""
        return [(term.sources[0], term.times) for term in (self, *self.plus)]


BY_DEVICES: Literal["devices"] = "devices"
"""The value of takesNodes for groups that take nodes if their pods request devices or select UltraServers."""

HELPER = "helper"
"""The role of a group with `BY_DEVICES` whose pods take no nodes."""


@dataclass(frozen=True)
class Group(Row):
    """A set of identical pods; several if the template has [*].

    Attributes:
        role: Its name in rules.
        template: JSON pointer; empty for a Pod. LIST[KEY=VALUE] selects an element of a list, LIST[*] all
            elements, as in replicas and number.
        replicas: How many pods exist at once: a number, a JSON pointer (0 if missing), a Factor, or a list
            of these, which are multiplied. Default: 1. With 0, the only pod of the group is also the first
            pod of the next group.
        takes_nodes: Whether each pod takes a node: true, false (default), a JSON pointer, or ``devices``:
            pods take a node if they request a whole one or select an instance type. In an opted-in job
            without such pods, those that request any devices do, or else all pods. The role of pods that
            take no node is ``helper``.
        number: Where a pod has its number. Default: pods have none.
            E.g. {label: batch.kubernetes.io/job-completion-index}
        later: JSON pointer; if it has a value, the pods are created after the pods of other groups have
            ended, and are not counted together with those.
    """

    role: Role
    template: TemplatePath
    replicas: Factors = (Factor(None, 1),)
    takes_nodes: Flag | Literal["devices"] | Pointer = False
    number: Maybe[Number] = None
    later: Maybe[Pointer] = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of the group, and the role of its pods if they take no nodes."""
        return (self.role, HELPER) if self.takes_nodes == BY_DEVICES else (self.role,)

    def key(self, obj: Json, path: Path) -> str:
        """Returns what identifies a group: its role and, in a list, also its name or else its position."""
        if not (list_path := self.template.list):
            return self.role
        element_path = path[: len(list_path.parts) + 1]
        return f"{self.role}/{get(obj, (*element_path, 'name')) or element_path[-1]}"


@dataclass(frozen=True)
class Suspending(Row):
    """An object of Kubeflow's training operators. Its status shows that its pods are not created yet.

    Attributes:
        suspend: JSON pointer to the field by which the user suspends the object.
        keeps: The role whose Job exists while the object is suspended; if the size changes, a warning asks
            the user to delete that Job.
    """

    suspend: Pointer
    keeps: Maybe[Name] = None


def _check_peer(value: str) -> str:
    if value != "$(job.name)" and any(placeholders_in(value)):
        raise ValueError(f"is {value!r}: it must be $(job.name), or have no placeholder")
    return value


@dataclass(frozen=True)
class Workload(Row):
    """A kind of job.

    Attributes:
        name: The workload's name, which no other workload has.
        kinds: Kinds of object, each as ``group/version/Kind``.
        groups: Its sets of pods.
        when: Values of its fields, if several workloads have the same kind; globs. The first workload that
            matches is used; one without ``when`` comes last.
        fields: Texts for $(field.NAME) and ``match``.
        peers: Labels that, in a namespace, only the pods of a named job that take nodes have; a value may be
            $(job.name). Default: the job label.
        group: A label whose values distinguish groups of pods that count as jobs of their own.
        place: For Pods: the placement annotation of Pods that have none.
            E.g. placer=affinity workers=1 size=1 unit=kubernetes.io/hostname
        main_container: Names of variables or mounted volumes that the operator adds to the main container;
            if no container has them, it is the first. Default: the first that requests devices.
        updates: When the webhook restores what an update removes: ``always``, or as Suspending describes.
            Default: never.
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
    place: Annotated[Place | None, read_as(str, parse)] = None
    main_container: Texts = ()
    updates: Annotated[Suspending | str | None, read_as(Literal["always"] | Suspending)] = None

    def mismatch(self, obj: Json) -> tuple[str, str] | None:
        """Returns the first field that does not match ``when``, and its value; None if all fields match.

        Raises:
            WrongTypeError: A field is neither text nor a truth value.
        """
        for name, allowed in self.when.items():
            if not matches(value := self.fields[name].text(obj), allowed):
                return name, value
        return None

    @cached_property
    def takes_nodes(self) -> bool:
        """Whether it has a group that can take nodes. Only then do its jobs have a size and a shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: those of its groups, and ``worker`` if a group can take nodes."""
        named = [role for group in self.groups for role in group.roles]
        return tuple(dict.fromkeys([*named, WORKER] if self.takes_nodes else named))

"""The rule table as the engine reads it: frozen rows, which ``webhook.rules`` checks and builds."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator
from pydantic import Field as Limits

from contract import keys
from contract.place import Placer
from webhook.objects.merge import OnConflict
from webhook.objects.templates import matches
from webhook.objects.tree import Json, map_at
from webhook.rows import conditions
from webhook.rows.conditions import Condition, Devices, OfJob, OfObject, OfTemplate
from webhook.rows.families import Family
from webhook.rows.placeholders import OF_CONTAINER, Filling, elements, filling, names
from webhook.rows.policies import Guarantee, Mode, ModeKey, Modes, Policies, Policy, Ruling
from webhook.rows.shapes import Shape, last_number
from webhook.rows.workloads import ANY, Candidates, Workload
from webhook.rows.written import Flag, Given, Key, Message, Name, Positive, Role, Row, Texts, Unique, written


def _counts(value: Any) -> tuple[int, ...]:  # noqa: ANN401 - what the type of deviceCounts takes
    if isinstance(value, str):
        return tuple(range(1, last_number(value) + 1))
    if 1 not in value:
        raise ValueError("one device is valid on every instance type: add 1")
    return tuple(sorted(value))


MOST_NAMESPACES = 1000
"""Namespaces whose policies a table caches; others are looked up each time."""


def _candidate(value: bool | str) -> bool | None:  # noqa: FBT001 - the type of the written value
    return None if isinstance(value, str) else value


OfPods = Literal["user", "amount", "limit", "idle", "resource", "spread", "affinity"]
Fault = Literal["deadline", "key", "hostfile", "queue", "timeLimit", OfPods]
"""The kinds of fault that a rule can match."""


@dataclass(frozen=True)
class MountFree(Row):
    """If the job mounts another volume there, the rule adds nothing and warns.

    Attributes:
        mount_path: Path of the mount.
        name: The only volume that may be mounted there.
        container: Name of the container. Default: the first.
        exists: true: the rule also adds nothing if the template lacks the volume.
    """

    mount_path: str
    name: str
    container: Given[str] = None
    exists: Flag = False

    @cached_property
    def mount(self) -> Mapping[str, str]:
        """The volume mount, with placeholders."""
        return {"mountPath": self.mount_path, "name": self.name}

    @cached_property
    def filling(self) -> Filling | None:
        """The function that fills in the mount; None if it has no placeholders."""
        return filling(self.mount)


@dataclass(frozen=True)
class Match(Row):
    """The rule fires if all its conditions are met. A list of values is met if one of them matches.

    Attributes:
        role: The name of a group of the workload, ``worker`` for groups that take nodes, or ``any`` for all.
        candidate: true: for jobs that are placed; false: for other objects, which have no shape or job label.
        workload: Names of workloads; globs.
        every: true: all templates of the role must match. false: the rule applies to each that does.
        single: true: the role must have exactly one template; false: more than one.
        fault: user: a worker is not root, or its root file system is read-only. deadline: the workload's
            field of this name is set. amount: a request exceeds wholeNode. limit: a limit differs from its
            request. idle: a Pod requests no devices, and others do. resource, key: a name is similar to a
            known one. hostfile: mpirun's options name the operator's host file. queue: the job has a label or
            annotation of Kueue. timeLimit: its annotation is not a length of time. affinity: a required term
            selects Pods by a unit's label. spread: a spread constraint keeps the workers of a block from
            sharing their unit.
        mount_free: See MountFree.
    """

    role: Role | Literal["any"]
    candidate: Annotated[bool | None, written(Flag | Literal["any"], _candidate)] = True
    workload: Texts = ()
    family: Given[conditions.OfFamily] = None
    shape: Given[conditions.OfShape] = None
    placer: Given[conditions.PlacedBy] = None
    devices: Given[conditions.GetsDevices] = None
    numbered: Given[conditions.Numbered] = None
    requests: Given[conditions.Requests] = None
    image: Given[conditions.Image] = None
    instance_type: Given[conditions.InstanceType] = None
    excludes: Given[conditions.Excludes] = None
    template: Given[conditions.InTemplate] = None
    every: Flag = False
    single: Given[Flag] = None
    unsupported_count: Given[conditions.UnsupportedCount] = None
    fault: Given[Fault] = None
    workers: Given[conditions.Workers] = None
    fields: Given[conditions.Fields] = None
    label_selector: Given[conditions.LabelSelector] = None
    labels: Given[conditions.Labels] = None
    annotations: Given[conditions.Annotations] = None
    namespace_selector: Given[conditions.NamespaceSelector] = None
    namespace: Given[conditions.Namespace] = None
    mount_free: MountFree | None = None

    def is_for(self, workload: Workload) -> bool:
        """Returns whether the rule can match a workload and has one of the workload's roles."""
        named = not self.workload or matches(workload.name, self.workload)
        return named and (self.role == ANY or self.role in workload.roles)

    def allows(self, family: Family, shape: Shape) -> bool:
        """Returns whether the family and the shape meet the rule's conditions on families and shapes."""
        named = self.family is None or self.family.allows(family.name)
        return named and (self.shape is None or self.shape.unlike(shape) is None)

    @cached_property
    def given(self) -> Mapping[str, Condition[Any]]:
        """Its conditions by name, in the order of evaluation."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in every if isinstance(value, Condition)}

    @cached_property
    def of_job(self) -> Sequence[OfJob[Any]]:
        """Conditions with one answer for all jobs with the same facts."""
        return [condition for condition in self.given.values() if isinstance(condition, OfJob)]

    @cached_property
    def of_template(self) -> Sequence[OfTemplate[Any]]:
        """Conditions on each template."""
        return [condition for condition in self.given.values() if isinstance(condition, OfTemplate)]

    @cached_property
    def of_object(self) -> Sequence[OfObject[Any]]:
        """Conditions on the object itself."""
        return [condition for condition in self.given.values() if isinstance(condition, OfObject)]

    @cached_property
    def known_later(self) -> bool:
        """Whether it has conditions other than those on facts of the job as a whole."""
        return bool(self.of_template or self.of_object or self.fault or self.single is not None)

    @cached_property
    def whose(self) -> str:
        """How messages name the owner of the template: the role, or "pod" for any role."""
        return "pod" if self.role == ANY else self.role


STAGES = (
    "1. How workers get their devices: the first rule that fires decides.",
    "2. Which placer places the job: the first rule that fires decides; the default is the scheduler.",
    "3. The other rules, in this order.",
)
LAST_STAGE = 2
"""The index of the last stage."""


@dataclass(frozen=True)
class Rule(Row):
    """A rule has ``add``, ``warn``, ``deny``, ``unplaced`` or ``placer``, or a rule's ``unless`` names it.

    Attributes:
        name: The rule's name, which no other rule has.
        reason: Why the rule exists; previews print it.
        match: When the rule fires.
        add: A part of a pod template (Kubernetes 1.36), with placeholders.
        on_conflict: What to do if the author has set another value.
        mode: enforce: the rule is applied; shadow: it is only reported; off: it is skipped.
        needs: Earlier rules; this rule is skipped unless one of them fired without a conflict.
        unless: Earlier rules; this rule is skipped if one of them fired.
        warn: The text of the warning that the user gets if the rule fires.
        deny: If the rule fires, the object is denied with this message. E.g. use an image of registry.example
        unplaced: The reason why no node can run such workers. The user gets it in a warning that the job
            waits forever.
        quiet: If true, conflicts of this rule cause no warnings.
        before: Names of list elements. The rule inserts its own elements before the first element that has
            one of these names.
        placer: The placer of the job, as in Match; the first rule that fires decides. Default: the scheduler.
        devices: How workers get devices after the rule has added its fragment, as in Match; the first rule
            that fires decides.
    """

    name: Name
    reason: Annotated[str, Limits(min_length=1)]
    match: Match
    add: Mapping[str, Json] = field(default_factory=dict)
    on_conflict: OnConflict = OnConflict.KEEP
    mode: ModeKey = Mode.ENFORCE
    needs: Texts = ()
    unless: Texts = ()
    warn: Message = None
    deny: Message = None
    unplaced: Message = None
    quiet: Flag = False
    before: Texts = ()
    placer: Given[Placer] = None
    devices: Given[Devices] = None

    @cached_property
    def quotes(self) -> frozenset[str]:
        """The placeholders in the rule's conditions, messages and fragment."""
        free = self.match.mount_free
        parts = (free.mount if free else {}, self.add, self.warn or "", self.deny or "", self.unplaced or "")
        template = self.match.template
        return frozenset(name for part in parts for name in names(part)) | (
            template.quotes if template else set()
        )

    @cached_property
    def needed(self) -> frozenset[str]:
        """The placeholders without which the rule is skipped: all that are not elements of a list."""
        return self.quotes.difference(elements(self.add))

    @cached_property
    def own(self) -> Mapping[str, str]:
        """The placeholders of its role's first container, which differ between templates."""
        return _of(self.quotes, self.match.role, OF_CONTAINER)

    @cached_property
    def fragment(self) -> Filling | None:
        """The function that fills in its fragment; None if the fragment is the same for every job."""
        return filling(self.add)

    @cached_property
    def waits_for(self) -> str:
        """A placeholder `value.NAME` for which the table sets no value; it has filled in the others."""
        return min((name for name in self.quotes if name.startswith("value.")), default="")

    @cached_property
    def depends(self) -> bool:
        """Whether it may match and not fire, because of other rules or of a mount in its place."""
        return bool(self.unless or self.needs or self.match.mount_free)

    @property
    def stage(self) -> int:
        """The index of its stage in `STAGES`."""
        return 0 if self.devices else 1 if self.placer else LAST_STAGE

    @cached_property
    def labels(self) -> Mapping[str, Json]:
        """The labels that it sets."""
        return map_at(self.add, ("metadata", "labels"))


def _of(placeholders: Iterable[str], whose: str, names: Container[str]) -> Mapping[str, str]:
    """Returns the placeholders of one owner that have one of the names after the dot, with these names."""
    split = {whole: whole.partition(".") for whole in placeholders}
    return {whole: name for whole, (of, _, name) in split.items() if of == whose and name in names}


def _without_values(text: str) -> str:
    for name in names(text):
        if name.startswith("value."):
            raise ValueError(f"a value cannot contain the placeholder of another value, $({name})")
    return text


@dataclass(frozen=True, kw_only=True)
class File(Row):
    """A rule table.

    Attributes:
        api_version: The version of this format.
        extends: The table that this one changes: the packaged one, or the AWS document alone. E.g. default
        mode: enforce: its rules apply; shadow: they are only reported; off: nothing is done. E.g. shadow
        values: The values of the placeholders $(value.NAME). A rule that uses an empty value is skipped.
        candidates: Which jobs are placed.
        device_counts: By instance type, how many devices a container may request: a list, or ``up to N``.
            Other types: any number.
        workloads: Kinds of job.
        families: Machines, with the sizes of jobs on them. A job belongs to the first family whose nodes it
            requests.
        rules: What is added, in this order.
        policies: Modes for some namespaces or labels; the first policy that matches applies.
        guarantees: Whole units that are kept for a team; for a namespace and a unit label, the first row
            applies.
    """

    api_version: Literal["ultraserver-webhook.io/v1alpha2"]
    kind: Literal["RuleTable"]
    extends: Given[Literal["default", "aws-document"]] = None
    mode: ModeKey = Mode.ENFORCE
    values: Mapping[Key, Annotated[str, AfterValidator(_without_values)]] = field(default_factory=dict)
    candidates: Candidates
    workloads: Annotated[tuple[Workload, ...], Limits(min_length=1)]
    families: Annotated[tuple[Family, ...], Limits(min_length=1)]
    rules: tuple[Rule, ...]
    policies: tuple[Policy, ...] = ()
    guarantees: tuple[Guarantee, ...] = ()
    device_counts: Mapping[
        Annotated[str, Limits(min_length=1)],
        Annotated[
            tuple[int, ...],
            written(
                Annotated[Unique[Positive], Limits(max_length=1024)]
                | Annotated[str, Limits(pattern="^up to [1-9][0-9]{0,3}$")],
                _counts,
            ),
        ],
    ] = field(default_factory=dict)


class Origin(NamedTuple):
    """A place where a row is written, and the keys that it has there."""

    file: str
    line: int
    keys: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Table(File):
    """A whole rule table, as the engine reads it.

    Attributes:
        revision: Twelve hexadecimal digits that change with the table's content.
        script: The text that launchers' Pods get.
        origins: The places where each rule is written: the first one, then those that change it.
        split_rules: A cache: the rules that cannot fire, and the others, by facts of a job as a whole.
    """

    revision: str
    script: str = ""
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict, compare=False)
    split_rules: dict[tuple[object, ...], tuple[Sequence[Any], Sequence[tuple[int, Rule]]]] = field(
        default_factory=dict, init=False, compare=False
    )
    _policies_of: dict[str, Policies] = field(default_factory=dict, init=False, compare=False)

    def origin(self, rule: str, key: str) -> Origin | None:
        """Returns where one of a rule's keys is written: the last place that sets it, or else the first."""
        origins = self.origins.get(rule, ())
        setting = (origin for origin in reversed(origins) if key in origin.keys)
        return next(setting, next(iter(origins), None))

    @cached_property
    def on(self) -> Sequence[Family]:
        """The families whose jobs are placed."""
        return [family for family in self.families if family.mode != "off"]

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources by which jobs request nodes of the families that are on."""
        return tuple(dict.fromkeys(name for family in self.on for name in family.whole_node))

    @cached_property
    def shapes(self) -> Sequence[Shape]:
        """The shapes of the families whose jobs are placed."""
        return [shape for family in self.on for shape in family.shapes]

    @cached_property
    def modes(self) -> Modes:
        """The modes without a policy."""
        return Modes(self.mode, {rule.name: rule.mode for rule in self.rules})

    @cached_property
    def rulings(self) -> Sequence[Ruling]:
        """The policies, each with the modes under it."""
        return [Ruling(policy, self.modes) for policy in self.policies]

    def ruling(self, obj: Json, namespace: str, now: float) -> Ruling | None:
        """Returns the first policy for an object in a namespace; None without one."""
        if not self.policies:
            return None
        known = self._policies_of
        if namespace not in known:
            if len(known) >= MOST_NAMESPACES:
                known.clear()
            known[namespace] = Policies(self.rulings, namespace)
        return known[namespace].first(obj, now)

    @cached_property
    def labelling(self) -> frozenset[str]:
        """Names of the rules that set the job label."""
        return frozenset(rule.name for rule in self.rules if keys.JOB in rule.labels)

    @cached_property
    def rules_of(self) -> Mapping[str, Sequence[Rule]]:
        """By workload, the rules that can match; rules for other workloads cost an object nothing."""
        return {
            workload.name: [rule for rule in self.rules if rule.match.is_for(workload)]
            for workload in self.workloads
        }

    @cached_property
    def placer_rules_of(self) -> Mapping[str, Collection[str]]:
        """By workload, the names of the rules that set its placer."""
        return {name: {rule.name for rule in rules if rule.placer} for name, rules in self.rules_of.items()}

    @cached_property
    def device_rules(self) -> frozenset[str]:
        """Names of the rules that set how workers get their devices."""
        return frozenset(rule.name for rule in self.rules if rule.devices)

    @cached_property
    def quoted_of(self) -> Mapping[str, frozenset[str]]:
        """By workload, the placeholders that its rules use."""
        return {
            name: frozenset[str]().union(*(rule.quotes for rule in rules))
            for name, rules in self.rules_of.items()
        }

    @cached_property
    def fields_of(self) -> Mapping[str, Mapping[str, str]]:
        """By workload, the placeholders of its fields among these, with the names of the fields."""
        return {row.name: _of(self.quoted_of[row.name], "field", row.fields) for row in self.workloads}

    @cached_property
    def roles_of(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """By workload and role, those of the role's main container, with their parts after the dot."""
        return {
            row.name: {role: _of(self.quoted_of[row.name], role, OF_CONTAINER) for role in row.roles}
            for row in self.workloads
        }

    def workloads_of(self, kind: str) -> tuple[Workload, ...]:
        """Returns the workloads for a ``group/version/Kind``; the first whose ``when`` matches is used.

        A workload without a ``when`` comes last, because it is for the remaining objects.
        """
        return self._workloads_of.get(kind, ())

    @cached_property
    def _workloads_of(self) -> Mapping[str, tuple[Workload, ...]]:
        ordered = sorted(self.workloads, key=lambda row: not row.when)
        return {
            kind: tuple(row for row in ordered if kind in row.kinds)
            for kind in {kind for row in ordered for kind in row.kinds}
        }

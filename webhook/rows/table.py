"""Defines the rule table as the engine reads it: frozen rows, which ``webhook.rules`` checks and builds."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator
from pydantic import Field as Limits

from contract import keys
from contract.placement import Placer
from webhook.objects.merge import OnConflict
from webhook.objects.templates import matches
from webhook.objects.tree import Json, get_map
from webhook.rows import conditions, messages
from webhook.rows.conditions import Condition, Devices, JobCondition, ObjectCondition, TemplateCondition
from webhook.rows.families import Family
from webhook.rows.placeholders import OF_CONTAINER, Filler, lists_in, make_filler, placeholders_in
from webhook.rows.policies import Guarantee, Mode, ModeSet, Policy, PolicyIndex, Ruling, WrittenMode
from webhook.rows.shapes import Shape, last_number
from webhook.rows.workloads import ANY, Candidates, Workload
from webhook.rows.written import Flag, Key, Maybe, Name, Positive, Role, Row, Texts, Unique, Words, read_as


def _to_counts(value: Any) -> tuple[int, ...]:  # noqa: ANN401 - a checked list or text
    if isinstance(value, str):
        return tuple(range(1, last_number(value) + 1))
    if 1 not in value:
        raise ValueError(messages.NO_SINGLE_DEVICE)
    return tuple(sorted(value))


MOST_NAMESPACES = 1000
"""Maximum number of namespaces whose policies a table caches."""


def _to_candidate(value: bool | str) -> bool | None:  # noqa: FBT001 - the type of the written value
    return None if isinstance(value, str) else value


PodFault = Literal["user", "amount", "limit", "idle", "resource", "spread", "affinity"]
FaultKind = Literal["deadline", "key", "hostfile", "queue", "timeLimit", PodFault]
"""The kinds of fault that a rule can match."""


@dataclass(frozen=True)
class MountFree(Row):
    """A mount path that must be free: if another volume is mounted there, the rule warns and does not fire.

    Attributes:
        mount_path: The path of the mount.
        name: The name of the only volume that may be mounted there.
        container: The name of the container. Default: the main container.
        exists: true: the rule matches only if each template has the volume.
    """

    mount_path: str
    name: str
    container: Maybe[str] = None
    exists: Flag = False

    @cached_property
    def mount(self) -> Mapping[str, str]:
        """The volume mount, with placeholders."""
        return {"mountPath": self.mount_path, "name": self.name}

    @cached_property
    def fill_mount(self) -> Filler | None:
        """The function that fills in the mount; None if it has no placeholders."""
        return make_filler(self.mount)


@dataclass(frozen=True)
class Match(Row):
    """Conditions. The rule fires if all are met. A condition with a list is met if one of its values matches.

    Attributes:
        role: The role of a group of the workload, ``worker`` for all groups that take nodes, or ``any`` for
            all groups.
        candidate: true: jobs that are placed. false: other objects, which have no shape and no job
            label. any: all objects.
        workload: Names of workloads; globs.
        every: true: all templates of the role must meet the conditions. false: the rule applies to each
            template that meets them.
        single: true: the role has exactly one template. false: the role has several templates.
        fault: A mistake in the job. user: a worker does not run as root, or its root file system is
            read-only. deadline: the workload's field deadline has a value in the job. amount: a worker
            requests more than a node has. limit: a resource limit is missing or differs from its request.
            idle: one worker requests no devices, and all others do. resource, key: the name of a resource,
            or the key of a label or annotation, is probably misspelt. hostfile: MPI's options or variables
            name the operator's host file. queue: the job has a label or annotation of Kueue. timeLimit: the
            time limit is not a length of time. affinity: a required term has a unit's label as its topology
            key. spread: a spread constraint prevents the workers of a block from sharing one unit.
        mount_free: A mount path that must be free: see MountFree.
    """

    role: Role | Literal["any"]
    candidate: Annotated[bool | None, read_as(Flag | Literal["any"], _to_candidate)] = True
    workload: Texts = ()
    family: Maybe[conditions.FamilyName] = None
    shape: Maybe[conditions.ShapeValues] = None
    placer: Maybe[conditions.PlacedBy] = None
    devices: Maybe[conditions.GetsDevices] = None
    numbered: Maybe[conditions.Numbered] = None
    requests: Maybe[conditions.Requests] = None
    image: Maybe[conditions.Image] = None
    instance_type: Maybe[conditions.InstanceType] = None
    excludes: Maybe[conditions.Excludes] = None
    template: Maybe[conditions.InTemplate] = None
    every: Flag = False
    single: Maybe[Flag] = None
    unsupported_count: Maybe[conditions.UnsupportedCount] = None
    fault: Maybe[FaultKind] = None
    workers: Maybe[conditions.Workers] = None
    fields: Maybe[conditions.Fields] = None
    label_selector: Maybe[conditions.LabelSelector] = None
    labels: Maybe[conditions.Labels] = None
    annotations: Maybe[conditions.Annotations] = None
    namespace_selector: Maybe[conditions.NamespaceSelector] = None
    namespace: Maybe[conditions.Namespace] = None
    mount_free: MountFree | None = None

    def is_for(self, workload: Workload) -> bool:
        """Returns whether the rule is for a workload, and the workload has the rule's role."""
        is_named = not self.workload or matches(workload.name, self.workload)
        return is_named and (self.role == ANY or self.role in workload.roles)

    def allows(self, family: Family, shape: Shape) -> bool:
        """Returns whether jobs of a family and a shape can meet the conditions on families and shapes."""
        is_named = self.family is None or self.family.allows(family.name)
        return is_named and (self.shape is None or self.shape.find_mismatch(shape) is None)

    @cached_property
    def all_conditions(self) -> Mapping[str, Condition[Any]]:
        """The conditions by key, in the order of evaluation."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if isinstance(value, Condition)}

    @cached_property
    def job_conditions(self) -> Sequence[JobCondition[Any]]:
        """The conditions on facts that many jobs have in common."""
        return [item for item in self.all_conditions.values() if isinstance(item, JobCondition)]

    @cached_property
    def template_conditions(self) -> Sequence[TemplateCondition[Any]]:
        """The conditions on each template."""
        return [item for item in self.all_conditions.values() if isinstance(item, TemplateCondition)]

    @cached_property
    def object_conditions(self) -> Sequence[ObjectCondition[Any]]:
        """The conditions on the object itself."""
        return [item for item in self.all_conditions.values() if isinstance(item, ObjectCondition)]

    @cached_property
    def has_late_conditions(self) -> bool:
        """Whether there are conditions on templates, on their number, on the object, or on a fault."""
        conditions = self.template_conditions or self.object_conditions
        return bool(conditions or self.fault or self.single is not None)

    @cached_property
    def owner_name(self) -> str:
        """The name of the template's owner in messages: the role, or "pod" if the role is any."""
        return "pod" if self.role == ANY else self.role


LAST_STAGE = 2
"""The index of the last stage, which has the rules that decide neither devices nor the placer."""


@dataclass(frozen=True)
class Rule(Row):
    """Conditions, with the effect on jobs that meet them: what is added, a message, or the placer.

    A rule without an effect (``add``, ``warn``, ``deny``, ``unplaced``, ``placer``) must be in ``needs`` or
    ``unless`` of another rule.

    Attributes:
        name: The rule's name, which no other rule has.
        reason: Why the rule exists. Previews print the reason.
        match: When the rule fires.
        add: A part of a pod template (Kubernetes 1.36), with placeholders.
        on_conflict: What happens if the job already has another value in a field.
        mode: enforce: the rule is applied. shadow: the effect of the rule is only reported. off: the rule is
            skipped.
        needs: Earlier rules. This rule applies only if one of them fired and set all its values.
        unless: Earlier rules. This rule is skipped if one of them fired.
        warn: A warning for the user if the rule fires.
        deny: If the rule fires, the object is denied with this message. E.g. use an image of registry.example
        unplaced: The reason why no node can run the workers. The user gets a warning that the job waits
            forever, with this reason.
        quiet: true: conflicts of this rule cause no warnings.
        before: Names of list elements. The rule inserts its elements before the first element with one of
            these names. Default: the end of the list.
        placer: The placer of the job, as in Match. The first rule that matches decides. Default: the
            scheduler.
        devices: How workers get devices after the rule has added its fragment, as in Match. The first rule
            that matches decides. Default: as the job requests them.
    """

    name: Name
    reason: Annotated[str, Limits(min_length=1)]
    match: Match
    add: Mapping[str, Json] = field(default_factory=dict)
    on_conflict: OnConflict = OnConflict.KEEP
    mode: WrittenMode = Mode.ENFORCE
    needs: Texts = ()
    unless: Texts = ()
    warn: Words = None
    deny: Words = None
    unplaced: Words = None
    quiet: Flag = False
    before: Texts = ()
    placer: Maybe[Placer] = None
    devices: Maybe[Devices] = None

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the rule's conditions, messages and fragment."""
        row = self.match.mount_free
        parts = (row.mount if row else {}, self.add, self.warn or "", self.deny or "", self.unplaced or "")
        template = self.match.template
        return frozenset(name for part in parts for name in placeholders_in(part)) | (
            template.placeholders if template else set()
        )

    @cached_property
    def required_placeholders(self) -> frozenset[str]:
        """The placeholders except those of `lists_in`. If any has no value, the rule is skipped."""
        return self.placeholders.difference(lists_in(self.add))

    @cached_property
    def container_placeholders(self) -> Mapping[str, str]:
        """The placeholders for the role's main container, each with its name after the dot."""
        return _pick(self.placeholders, self.match.role, OF_CONTAINER)

    @cached_property
    def fill_fragment(self) -> Filler | None:
        """The function that fills in the fragment; None if there is nothing to fill in."""
        return make_filler(self.add)

    @cached_property
    def missing_value(self) -> str:
        """A placeholder `value.NAME` for which the table has no value; empty if all values were filled in."""
        return min((name for name in self.placeholders if name.startswith("value.")), default="")

    @cached_property
    def can_be_prevented(self) -> bool:
        """Whether other rules or the user's mount can prevent the rule from firing, although it matches."""
        return bool(self.unless or self.needs or self.match.mount_free)

    @property
    def stage(self) -> int:
        """The index of the rule's stage: the rules of a stage are evaluated before the rules of the next."""
        return 0 if self.devices else 1 if self.placer else LAST_STAGE

    @cached_property
    def labels(self) -> Mapping[str, Json]:
        """The labels that the rule sets."""
        return get_map(self.add, ("metadata", "labels"))


def _pick(placeholders: Iterable[str], owner: str, names: Container[str]) -> Mapping[str, str]:
    """Returns the placeholders ``OWNER.NAME`` that have this owner and one of these names, with the NAME."""
    parts = {key: key.partition(".") for key in placeholders}
    return {key: name for key, (prefix, _, name) in parts.items() if prefix == owner and name in names}


def _check_no_values(text: str) -> str:
    if name := next((name for name in placeholders_in(text) if name.startswith("value.")), None):
        raise ValueError(messages.nested_value(name))
    return text


@dataclass(frozen=True, kw_only=True)
class TableFile(Row):
    """A rule table.

    Attributes:
        api_version: The version of the format.
        extends: The table that this table changes. default: the packaged table. aws-document: the rules of
            the AWS document alone. Default: none, so this table has all rows. E.g. default
        mode: enforce: the rules are applied. shadow: their effects are only reported. off: the webhook adds
            nothing except the init script to Pods of launchers. E.g. shadow
        values: The values of the placeholders $(value.NAME). A rule that uses an empty value is skipped.
        candidates: Which jobs are placed: see Candidates.
        device_counts: For some instance types, the valid numbers of devices in a container: a list, or ``up
            to N``. For other types, any number is valid.
        workloads: Kinds of job. E.g. [{name: mpijob, mainContainer: our-volume}]
        families: Machines, with the sizes of jobs on them. A job belongs to a family that its node selection
            permits. If the selection permits several families, the job belongs to the first of which it takes
            a node or selects a type, or else to the first whose devices it requests, or else to the first.
            E.g. [{name: our-machines, claims: {our-claim: {takes: node}}}]
        rules: What is added to which pod templates. The rules are applied in this order. E.g. [{name:
            job-label, mode: shadow}]
        policies: Modes for some namespaces or labels. The first policy that matches applies. E.g. [{reason: A
            first test, mode: shadow}]
        guarantees: Whole units that are kept free for a team. For each namespace and unit label, the first
            row applies. E.g. [{namespaces: vision, unit: neuron.amazonaws.com/ultraserver-server-id-4,
            count: 2}]
    """

    api_version: Literal["ultraserver-webhook.io/v1alpha2"]
    kind: Literal["RuleTable"]
    extends: Maybe[Literal["default", "aws-document"]] = None
    mode: WrittenMode = Mode.ENFORCE
    values: Mapping[Key, Annotated[str, AfterValidator(_check_no_values)]] = field(default_factory=dict)
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
            read_as(
                Annotated[Unique[Positive], Limits(max_length=1024)]
                | Annotated[str, Limits(pattern="^up to [1-9][0-9]{0,3}$")],
                _to_counts,
            ),
        ],
    ] = field(default_factory=dict)


class Origin(NamedTuple):
    """A place in a file where a row is written, and the keys that the row has there."""

    file: str
    line: int
    keys: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Table(TableFile):
    """A whole rule table, as the engine reads it.

    Attributes:
        revision: Twelve hexadecimal digits that change with the table's content.
        script: The init script, which is added to launchers' Pods.
        origins: The places where each rule is written: first the rule itself, then its changes.
        split_rules_cache: The results of `webhook.engine.match.split_rules`, by the facts about the job.
    """

    revision: str
    script: str = ""
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict, compare=False)
    split_rules_cache: dict[tuple[object, ...], tuple[Sequence[Any], Sequence[tuple[int, Rule]]]] = field(
        default_factory=dict, init=False, compare=False
    )
    _policy_indices: dict[str, PolicyIndex] = field(default_factory=dict, init=False, compare=False)

    def find_origin(self, rule: str, key: str) -> Origin | None:
        """Returns the last place that sets a key of a rule, or else the rule's first place, or else None."""
        origins = self.origins.get(rule, ())
        origins_with_key = (origin for origin in reversed(origins) if key in origin.keys)
        return next(origins_with_key, next(iter(origins), None))

    @cached_property
    def enabled_families(self) -> Sequence[Family]:
        """The families whose jobs are placed."""
        return [family for family in self.families if family.mode != "off"]

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources by which jobs request nodes of the families that are on."""
        return tuple(dict.fromkeys(name for family in self.enabled_families for name in family.whole_node))

    @cached_property
    def shapes(self) -> Sequence[Shape]:
        """The shapes of the families whose jobs are placed."""
        return [shape for family in self.enabled_families for shape in family.shapes]

    @cached_property
    def modes(self) -> ModeSet:
        """The modes that apply without a policy."""
        return ModeSet(self.mode, {rule.name: rule.mode for rule in self.rules})

    @cached_property
    def rulings(self) -> Sequence[Ruling]:
        """The policies, each with the modes under it."""
        return [Ruling(policy, self.modes) for policy in self.policies]

    def find_ruling(self, obj: Json, namespace: str, now: float) -> Ruling | None:
        """Returns the first policy for an object at a Unix time, as a ruling; None if there is none."""
        if not self.policies:
            return None
        indices = self._policy_indices
        if namespace not in indices:
            if len(indices) >= MOST_NAMESPACES:
                indices.clear()
            indices[namespace] = PolicyIndex(self.rulings, namespace)
        return indices[namespace].find(obj, now)

    @cached_property
    def job_label_rules(self) -> frozenset[str]:
        """Names of the rules that set the job label."""
        return frozenset(rule.name for rule in self.rules if keys.JOB in rule.labels)

    @cached_property
    def rules_by_workload(self) -> Mapping[str, Sequence[Rule]]:
        """The rules that can match objects of a workload, by workload. Only these rules are evaluated."""
        return {row.name: [rule for rule in self.rules if rule.match.is_for(row)] for row in self.workloads}

    @cached_property
    def placeholders_by_workload(self) -> Mapping[str, frozenset[str]]:
        """The placeholders in the rules for a workload, by workload."""
        items = self.rules_by_workload.items()
        return {name: frozenset[str]().union(*(rule.placeholders for rule in rules)) for name, rules in items}

    @cached_property
    def field_placeholders(self) -> Mapping[str, Mapping[str, str]]:
        """The placeholders for fields, with the names of the fields, by workload."""
        placeholders = self.placeholders_by_workload
        return {row.name: _pick(placeholders[row.name], "field", row.fields) for row in self.workloads}

    @cached_property
    def role_placeholders(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """The placeholders for main containers, with their names after the dot, by workload and role."""
        rows = ((row, self.placeholders_by_workload[row.name]) for row in self.workloads)
        return {row.name: {role: _pick(used, role, OF_CONTAINER) for role in row.roles} for row, used in rows}

    def workloads_of(self, kind: str) -> tuple[Workload, ...]:
        """Returns workloads for a ``group/version/Kind``. Use the first whose ``when`` matches the object.

        A workload without ``when`` matches every object, so it comes last.
        """
        return self._workloads_of.get(kind, ())

    @cached_property
    def _workloads_of(self) -> Mapping[str, tuple[Workload, ...]]:
        workloads = sorted(self.workloads, key=lambda row: not row.when)
        return {
            kind: tuple(row for row in workloads if kind in row.kinds)
            for kind in {kind for row in workloads for kind in row.kinds}
        }

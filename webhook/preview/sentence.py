"""Writes the sentence of a preview: whether an object is placed, and on which nodes or why not."""

from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from common.texts import count_text, cut
from contract import keys
from contract.placement import ContractError, Placement, Placer, parse
from webhook.documents import Document
from webhook.engine.candidates import explain_no_device
from webhook.engine.outcome import JobError, Outcome, OutcomeKind, Request
from webhook.engine.reading import read_job
from webhook.objects.templates import REQUIRED
from webhook.objects.tree import Json, WrongTypeError, get, get_map, get_maps, text_of, walk
from webhook.preview import messages
from webhook.preview.sent import chart_value, not_sent_note
from webhook.rows.families import Unit
from webhook.rows.table import Table

PLACEMENT_PATH: Final = ("metadata", "annotations", keys.PLACEMENT)
TOPOLOGIES: Final = ("required-topology", "slice-required-topology", "slice-size", "group-name")
"""The annotations ``kueue.x-k8s.io/podset-*`` of templates that request a topology from Kueue."""
END_CONDITIONS: Final = {"Succeeded", "Failed", "Complete", "Completed"}
"""The types of conditions that a job has when it has ended."""


class JobVerdict(StrEnum):
    """The verdicts on an object."""

    PLACED = "placed"
    NOT_PLACED = "not placed"
    REFUSED = "refused"


class Share(NamedTuple):
    """Consecutive Pods of a group with the same outcome: the first and last number, and the group's size."""

    group: str
    first: int
    last: int
    of: int

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return self.group if self.of == 1 else f"{self.group} {numbers} of {self.of}"


class DryRun(NamedTuple):
    """The dry run of an object's admission: the object and the outcome."""

    table: Table
    document: Document  # the document of the object, or of the job of a Pod
    namespace: str
    object: Json
    outcome: Outcome
    stored: Json = None  # the stored object that the object updates; None if the object is created
    hint: str = ""  # a sentence about a requested resource that is probably misspelt
    share: Share | None = None  # the Pods of a job that have this outcome; None for the object of a document

    @property
    def title(self) -> str:
        """Returns the kind, namespace and name; for Pods of a job, also their numbers."""
        obj, pods = self.document.value, f"Pod {self.share} of " if self.share else ""
        name = get(obj, ("metadata", "name")) or f"{get(obj, ('metadata', 'generateName')) or ''}*"
        return f"{pods}{obj.get('kind', 'Unknown')} {self.namespace}/{name}"


def judge(run: DryRun) -> tuple[JobVerdict, str, Placement | None]:
    """Returns the verdict, the sentence, and the placement annotation if the object is placed.

    The sentence is one line: the verdict, a colon, and the nodes or the reason.
    """
    outcome, placement = run.outcome, None
    if outcome.kind is OutcomeKind.REFUSED:
        verdict, text = JobVerdict.REFUSED, f"{_if_chart_has_value(run, outcome)}{'; '.join(outcome.denials)}"
    elif _has_ended(run):
        verdict, text = JobVerdict.NOT_PLACED, messages.ENDED
    elif outcome.unplaced:
        verdict, text = JobVerdict.NOT_PLACED, messages.no_node("; ".join(outcome.unplaced))
    elif placement := _find_placement(run, outcome):
        nodes = messages.with_pods(count_text(placement.workers, "Pod"))
        nodes = nodes if _is_pod(run) else _nodes_text(run, outcome, placement)
        verdict, text = JobVerdict.PLACED, f"{nodes}; {_start_text(run, placement)}"
    else:
        verdict, text = JobVerdict.NOT_PLACED, _explain_not_placed(run)
    return verdict, cut(f"{verdict}: {text}"), placement


def _explain_not_placed(run: DryRun) -> str:
    outcome = run.outcome
    if _names_node(run, _templates(run, outcome.enforced or outcome)):
        return messages.NAMES_NODE
    if outcome.enforced and outcome.shadow:
        if outcome.enforced.denials:
            return messages.refused_if_shadow_ended(outcome.reason, "; ".join(outcome.enforced.denials))
        placement = _find_placement(run, outcome.enforced)
        if placement and not outcome.enforced.unplaced:
            return messages.if_shadow_ended(outcome.reason, _nodes_text(run, outcome.enforced, placement))
    no_devices = messages.NO_DEVICES.get(outcome.facts.get("devices", ""), "")
    no_devices = no_devices.format(explain_no_device(run.table))
    if "shape" in outcome.facts and not no_devices:
        return messages.no_job_label(outcome.reason)
    reason = no_devices or outcome.reason
    may_be_misspelt = no_devices or outcome.kind is OutcomeKind.NO_CANDIDATE
    return f"{reason}. {run.hint}" if may_be_misspelt and run.hint else reason


def _nodes_text(run: DryRun, outcome: Outcome, placement: Placement) -> str:
    """Returns the number of a job's workers, their units, and whether other jobs may share the units."""
    templates = _templates(run, outcome)
    noun = "Pod" if len(templates) > 1 else "worker"
    path = ("spec", "affinity", "podAntiAffinity", REQUIRED)
    all_terms = (term for template in templates for term in get_maps(template, path))
    terms = [term for term in all_terms if "mismatchLabelKeys" not in term]
    is_apart = placement.unit != keys.HOSTNAME and any(
        term.get("topologyKey") == placement.unit for term in terms
    )
    is_empty = get(run.object, ("spec", "replicas")) == 0
    unit = unit_of(run.table, placement)
    text = messages.workers_on_nodes(placement, unit, noun, is_apart=is_apart, is_empty=is_empty)
    return f"{_if_chart_has_value(run, outcome)}{text}"


def _if_chart_has_value(run: DryRun, outcome: Outcome) -> str:
    """Returns the chart's value on which an outcome depends, as an if-clause, or an empty text."""
    value = chart_value(run.object) if not_sent_note(run.object, run.namespace, outcome) else None
    return messages.if_chart_has(value) if value else ""


def unit_of(table: Table, placement: Placement) -> Unit | None:
    """Returns the unit that a placement annotation names; None if no enabled family has it."""
    units = (unit for family in table.enabled_families for unit in family.units)
    return next((unit for unit in units if unit.label == placement.unit), None)


def unit_name(table: Table, placement: Placement) -> str:
    """Returns the short name of the unit of a placement annotation, such as ``UltraServer``."""
    if placement.size == 1:
        return "node"
    unit = unit_of(table, placement)
    return unit.names[0].removeprefix("whole ").partition(" of ")[0] if unit and unit.names else "unit"


def _is_part_of_unit(table: Table, label: str) -> bool:
    """Returns whether the units with a label are parts of larger units of the same family."""
    families = ({unit.label: unit.nodes for unit in family.units} for family in table.enabled_families)
    return any(sizes[label] < max(sizes.values()) for sizes in families if label in sizes)


def _start_text(run: DryRun, placement: Placement) -> str:
    """Returns a text: what starts the job, what the job waits for, or that an update keeps the placement."""
    if run.stored is not None and "shape" not in run.outcome.facts:
        size = _node_count(run)
        return messages.PLACE_KEPT if size in {0, placement.workers} else messages.recreate_for(size)
    start = messages.STARTS.get(placement.placer)
    return start or messages.waits_for_nodes(placement.workers, is_group=bool(placement.group))


def _node_count(run: DryRun) -> int:
    """Returns the number of nodes that the received object takes, or 0 if the number is not known."""
    try:
        job = read_job(run.table, Request(run.object, run.namespace))
    except (JobError, WrongTypeError):
        return 0
    return job.nodes if job else 0


def _is_pod(run: DryRun) -> bool:
    return bool(run.object.get("kind") == "Pod")


def _has_ended(run: DryRun) -> bool:
    """Returns whether the stored object is a job that has ended."""
    conditions = get_maps(run.stored, ("status", "conditions"))
    true_conditions = (condition for condition in conditions if condition.get("status") == "True")
    return any(text_of(condition.get("type")) in END_CONDITIONS for condition in true_conditions)


def _names_node(run: DryRun, templates: list[Json]) -> bool:
    return not _is_pod(run) and any(get(template, ("spec", "nodeName")) for template in templates)


def _templates(run: DryRun, outcome: Outcome) -> list[Json]:
    """Returns the templates with a placement annotation: from the stored object if the Pods exist already."""
    obj = run.stored if outcome.has_pods else outcome.after
    return [get(obj, path[:-3]) for path, _ in walk(obj) if path[-3:] == PLACEMENT_PATH]


def _find_placement(run: DryRun, outcome: Outcome) -> Placement | None:
    """Returns the first placement annotation of an object; None if the object is not placed.

    If the job may straddle, the result has blocks of one worker. The annotation of a new job without a shape
    is ignored, because the webhook did not write it.
    """
    may_have_older_place = run.stored is not None or _is_pod(run)
    is_kept = may_have_older_place and outcome.kind in {OutcomeKind.CHANGED, OutcomeKind.UNCHANGED}
    templates = _templates(run, outcome)
    if not (templates and (is_kept or "shape" in outcome.facts)) or _names_node(run, templates):
        return None
    try:
        placement = parse(text_of(get(templates[0], PLACEMENT_PATH)))
    except ContractError:
        return None
    return placement if _keeps_blocks_whole(run, placement, templates) else replace(placement, size=1)


def _keeps_blocks_whole(run: DryRun, placement: Placement, templates: list[Json]) -> bool:
    """Returns whether terms, annotations for Kueue, or the placer itself keep every block on one unit."""
    label, is_one_block = placement.unit, placement.workers == placement.size
    if placement.placer is Placer.SCHEDULER and (is_one_block or placement.index):
        # With several blocks, the required term depends on the Pod's number, so a template cannot have it.
        is_together = _has_terms(templates, label, "podAffinity", *([REQUIRED] if is_one_block else []))
        return is_together and _has_terms(templates, label, "nodeAffinity", REQUIRED)
    if placement.placer is Placer.KUEUE:
        annotations = (get_map(template, PLACEMENT_PATH[:2]) for template in templates)
        names = [f"kueue.x-k8s.io/podset-{key}" for key in TOPOLOGIES]
        topologies = [[*map(values.get, names)] for values in annotations]
        required, slices, slice_size, group = topologies[0]
        kueue_level = run.table.values.get("kueueLevel", label)
        levels = (label, label if _is_part_of_unit(run.table, label) else kueue_level)
        is_whole = slices in levels and slice_size == str(placement.size)
        is_whole = required in levels if is_one_block and required else is_whole
        are_equal = topologies[1:] == topologies[:1] * (len(topologies) - 1)
        return is_whole and are_equal and bool(group or len(topologies) == 1)
    return placement.placer is Placer.WHOLE_JOB


def _has_terms(templates: list[Json], label: str, *path: str) -> bool:
    """Returns whether every template has, below this path of its affinity, a term with the unit's label."""
    affinities = (walk(get(template, ("spec", "affinity", *path))) for template in templates)
    return all(any(value == label for _, value in affinity) for affinity in affinities)

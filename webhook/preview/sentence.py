"""The sentence that says what happens to an object, which every preview shows first."""

from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from common.texts import counted, cut
from contract import keys
from contract.place import ContractError, Place, Placer, parse
from webhook.documents import Document
from webhook.engine.candidates import no_device
from webhook.engine.outcome import JobError, Outcome, OutcomeKind, Request
from webhook.engine.reading import read_job
from webhook.objects.templates import REQUIRED
from webhook.objects.tree import Json, WrongTypeError, get, map_at, maps_at, text_of, walk
from webhook.preview.sent import not_sent, value_of
from webhook.rows.families import Unit
from webhook.rows.table import Table

PLACE: Final = ("metadata", "annotations", keys.PLACE)
TOPOLOGIES: Final = ("required-topology", "slice-required-topology", "slice-size", "group-name")
"""The annotations of templates that request a topology from Kueue."""
ENDED: Final = {"Succeeded", "Failed", "Complete", "Completed"}
"""Types of conditions of a job that has ended."""

LACKING: Final = {"none": "{}", "some": "some of {}", "unknown": "{} of their own"}
"""How workers get devices if the job is not placed because of that, and the text for it."""


class Judgement(StrEnum):
    """What happens to an object."""

    PLACED = "placed"
    NOT_PLACED = "not placed"
    REFUSED = "refused"


class Share(NamedTuple):
    """Consecutive Pods of a group with the same outcome: first and last number, and the group's size."""

    group: str
    first: int
    last: int
    of: int

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return self.group if self.of == 1 else f"{self.group} {numbers} of {self.of}"


class Seen(NamedTuple):
    """An object, and its outcome.

    Attributes:
        document: The document; for a Pod, that of its job.
        stored: The stored object that it updates; None for a creation.
        hint: A requested resource that is probably a misspelt device.
        share: The Pods of a job that this one represents; None for a document.
    """

    table: Table
    document: Document
    namespace: str
    object: Json
    outcome: Outcome
    stored: Json = None
    hint: str = ""
    share: Share | None = None

    @property
    def title(self) -> str:
        """Kind, namespace and name; for Pods of a job, also their numbers."""
        obj, pods = self.document.value, f"Pod {self.share} of " if self.share else ""
        name = get(obj, ("metadata", "name")) or f"{get(obj, ('metadata', 'generateName')) or ''}*"
        return f"{pods}{obj.get('kind', 'Unknown')} {self.namespace}/{name}"


def judged(item: Seen) -> tuple[Judgement, str, Place | None]:
    """Returns the verdict, the sentence, and the placement annotation of an object that is placed.

    The sentence is the verdict, a colon and the reason or the nodes, as one printable line of limited length.
    """
    outcome, place = item.outcome, None
    if outcome.kind is OutcomeKind.REFUSED:
        verdict, text = Judgement.REFUSED, f"{_given(item, outcome)}{'; '.join(outcome.denials)}"
    elif _ended(item):
        verdict, text = Judgement.NOT_PLACED, "the job has ended"
    elif outcome.unplaced:
        verdict, text = Judgement.NOT_PLACED, f"no node can take its workers: {'; '.join(outcome.unplaced)}"
    elif place := _place(item, outcome):
        where = f"with the {counted(place.workers, 'Pod')} of its job"
        where = where if _is_pod(item) else _where(item, outcome, place)
        verdict, text = Judgement.PLACED, f"{where}; {_when(item, place)}"
    else:
        verdict, text = Judgement.NOT_PLACED, _why_not(item)
    return verdict, cut(f"{verdict}: {text}"), place


def _why_not(item: Seen) -> str:
    outcome = item.outcome
    if _names_node(item, _templates(item, outcome.enforced or outcome)):
        return "its workers name their node themselves, so no scheduler places them"
    if outcome.enforced and outcome.shadow:
        if outcome.enforced.denials:
            return f"{outcome.reason}. If shadow mode ended, refused: {'; '.join(outcome.enforced.denials)}"
        place = _place(item, outcome.enforced)
        if place and not outcome.enforced.unplaced:
            return f"{outcome.reason}. If shadow mode ended: {_where(item, outcome.enforced, place)}"
    lacking = LACKING.get(outcome.facts.get("devices", ""), "").format(no_device(item.table))
    if "shape" in outcome.facts and not lacking:
        return f"{outcome.reason}, but no rule of the table gives them a job label"
    reason = lacking or outcome.reason
    wants_device = lacking or outcome.kind is OutcomeKind.NO_CANDIDATE
    return f"{reason}. {item.hint}" if wants_device and item.hint else reason


def _where(item: Seen, outcome: Outcome, place: Place) -> str:
    """Returns the nodes of a job: how many, of which units, and whether others may share these."""
    templates = _templates(item, outcome)
    none = ", of which there is none now" if get(item.object, ("spec", "replicas")) == 0 else ""
    per_group = f"each group{none}: " if place.group else ""
    noun = "Pod" if len(templates) > 1 else "worker"
    what = f"{_given(item, outcome)}{per_group}{counted(place.workers, noun)}"
    path = ("spec", "affinity", "podAntiAffinity", REQUIRED)
    every = (term for template in templates for term in maps_at(template, path))
    terms = [term for term in every if "mismatchLabelKeys" not in term]
    apart = place.unit != keys.HOSTNAME and any(term.get("topologyKey") == place.unit for term in terms)
    alone = ", shared with no other job" if apart else ""
    unit, blocks = unit_of(item.table, place), place.workers // place.size
    one, several = (unit and unit.names) or (f"unit of {place.unit}", f"units of {place.unit}")
    empty = unit.nodes - place.size if unit and apart else 0
    if place.size == 1 and not (empty and place.workers == 1):
        some = "any " if place.unit == keys.HOSTNAME else ""
        return f"{what} on {'one node' if place.workers == 1 else f'{some}{place.workers} nodes'}{alone}"
    if unit and empty:
        alone += f", which leaves {empty} of its {unit.nodes} nodes empty"
    if unit and place.size < unit.nodes:
        alone = alone or ", which other jobs may use too"
        if blocks > 1:
            return f"{what} in {blocks} equal blocks of {place.size}, each on one {one}{alone}"
    if blocks == 1:
        return f"{what} on one {one}{alone}"
    if place.placer is Placer.SCHEDULER:
        return f"{what} in blocks of {place.size}, on whole units where the scheduler finds them{alone}"
    return f"{what} in blocks of {place.size} on {blocks} {several}{alone}"


def _given(item: Seen, outcome: Outcome) -> str:
    """Returns the value of the chart on which an outcome depends, as a condition; empty if none."""
    value = value_of(item.object) if not_sent(item.object, item.namespace, outcome) else None
    return f"if the chart has the value {value}, " if value else ""


def unit_of(table: Table, place: Place) -> Unit | None:
    """Returns the unit that a placement annotation names; None if no family has it."""
    return next(
        (unit for family in table.families_on for unit in family.units if unit.label == place.unit), None
    )


def called(table: Table, place: Place) -> str:
    """Returns the short name of a unit of a placement annotation, such as ``UltraServer``."""
    if place.size == 1:
        return "node"
    unit = unit_of(table, place)
    return unit.names[0].removeprefix("whole ").partition(" of ")[0] if unit and unit.names else "unit"


def _is_a_part(table: Table, label: str) -> bool:
    """Returns whether the units of a label are parts of larger ones, which have the level kueueLevel."""
    families = ({unit.label: unit.nodes for unit in family.units} for family in table.families_on)
    return any(sizes[label] < max(sizes.values()) for sizes in families if label in sizes)


def _when(item: Seen, place: Place) -> str:
    if item.stored is not None and "shape" not in item.outcome.facts:
        size = _nodes(item)
        if size in {0, place.workers}:
            return "the update leaves the stored place as it is"
        return f"the stored job keeps this place: to have one for {size}, delete the job and create it again"
    if place.placer is Placer.KUEUE:
        return "Kueue chooses the nodes and starts the job"
    if place.placer is Placer.GANG:
        return "the PodGroup that the job names places the Pods"
    if place.placer is Placer.SCHEDULER:
        return "the scheduler places the Pods one by one"
    job = "the group" if place.group else "the job"
    if place.workers == 1:
        return f"{job} waits until a node is free"
    return f"{job} waits until {'both' if place.workers == 2 else f'all {place.workers}'} nodes are free"  # noqa: PLR2004


def _nodes(item: Seen) -> int:
    """Returns how many nodes an object takes as it was received; 0 if that is not known."""
    try:
        job = read_job(item.table, Request(item.object, item.namespace))
    except (JobError, WrongTypeError):
        return 0
    return job.nodes if job else 0


def _is_pod(item: Seen) -> bool:
    return bool(item.object.get("kind") == "Pod")


def _ended(item: Seen) -> bool:
    """Returns whether the stored object is a job that has ended."""
    conditions = maps_at(item.stored, ("status", "conditions"))
    true = (condition for condition in conditions if condition.get("status") == "True")
    return any(text_of(condition.get("type")) in ENDED for condition in true)


def _names_node(item: Seen, templates: list[Json]) -> bool:
    return not _is_pod(item) and any(get(template, ("spec", "nodeName")) for template in templates)


def _templates(item: Seen, outcome: Outcome) -> list[Json]:
    """Returns templates with the placement annotation: the stored ones, if Pods were created from them."""
    obj = item.stored if outcome.has_pods else outcome.after
    return [get(obj, path[:-3]) for path, _ in walk(obj) if path[-3:] == PLACE]


def _place(item: Seen, outcome: Outcome) -> Place | None:
    """Returns the first placement annotation of the object, for single nodes if its blocks may be split.

    None if the object is not placed. Without a shape an existing annotation is the user's; but an update
    keeps that of its stored object, and a Pod that of its job's template.
    """
    stands = item.stored is not None or _is_pod(item)
    kept = stands and outcome.kind in {OutcomeKind.CHANGED, OutcomeKind.UNCHANGED}
    templates = _templates(item, outcome)
    if not (templates and (kept or "shape" in outcome.facts)) or _names_node(item, templates):
        return None
    try:
        place = parse(text_of(get(templates[0], PLACE)))
    except ContractError:
        return None
    return place if _whole(item, place, templates) else replace(place, size=1)


def _whole(item: Seen, place: Place, templates: list[Json]) -> bool:
    """Returns whether terms of the templates, or the placer itself, keep every block on one unit."""
    unit, single = place.unit, place.workers == place.size
    if place.placer is Placer.SCHEDULER and (single or place.index):
        # A Pod of several blocks gets the required term at its creation, by its number.
        together = _asks(templates, unit, "podAffinity", *([REQUIRED] if single else []))
        return together and _asks(templates, unit, "nodeAffinity", REQUIRED)
    if place.placer is Placer.KUEUE:
        marks = [map_at(template, PLACE[:2]) for template in templates]
        topologies = [[mark.get(f"kueue.x-k8s.io/podset-{key}") for key in TOPOLOGIES] for mark in marks]
        required, slices, size, group = topologies[0]
        levels = (unit, unit if _is_a_part(item.table, unit) else item.table.values.get("kueueLevel", unit))
        whole = required in levels if single and required else slices in levels and size == str(place.size)
        alike = topologies[1:] == topologies[:1] * (len(topologies) - 1)
        return whole and alike and bool(group or len(topologies) == 1)
    return place.placer is Placer.WHOLE_JOB


def _asks(templates: list[Json], unit: str, *terms: str) -> bool:
    """Returns whether affinity terms of every template name the label of a unit."""
    affinities = (walk(get(template, ("spec", "affinity", *terms))) for template in templates)
    return all(any(value == unit for _, value in affinity) for affinity in affinities)

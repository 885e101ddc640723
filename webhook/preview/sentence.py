"""One sentence that says what happens to an object: what every way to preview it shows first."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from common.texts import cut, folded, printable
from contract import keys
from contract.place import ContractError, Place, Placer, parse
from webhook.engine.candidates import NO_DEVICE
from webhook.engine.outcome import Kind, Outcome
from webhook.engine.updates import MADE
from webhook.objects.tree import Json, get, map_at, maps_at, nodes, text_of
from webhook.preview.run import Preview

SERVER: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
PAIR: Final = "neuron.amazonaws.com/ultraserver-server-id-2"
"""Labels of nodes of one UltraServer, and of the pairs that work together in one (``shared/domain.md``)."""
UNITS: Final = {
    SERVER: ("one whole UltraServer", "whole UltraServers"),
    PAIR: ("one pair of nodes of an UltraServer", "pairs of nodes of UltraServers"),
}
"""By label: one unit, and several."""
PLACE: Final = ("metadata", "annotations", keys.PLACE)
TOPOLOGIES: Final = ("required-topology", "slice-required-topology", "slice-size", "group-name")
"""What templates ask of Kueue."""
ENDED: Final = {"Succeeded", "Failed", "Complete", "Completed"}
"""Types of conditions of a job that has ended."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

WITHOUT_DEVICES: Final[Mapping[str, str]] = {
    "none": NO_DEVICE,
    "some": "some workers request no Neuron device",
    "unknown": "the workers request no Neuron device of their own",
}
"""How workers get devices, where the job is not placed for it, and what is to be said then."""


class Verdict(StrEnum):
    """What happens to an object."""

    PLACED = "placed"
    NOT_PLACED = "not placed"
    REFUSED = "refused"


def sentence(item: Preview) -> str:
    """Returns the verdict, a colon and why or where, as one printable line of bounded length."""
    word, place = judged(item)
    if word is Verdict.REFUSED:
        return cut(f"{word}: {'; '.join(item.outcome.denials)}")
    if place is None:
        return cut(f"{word}: {_why_not(item)}")
    pods = f"with the {_count(place.workers, 'Pod')} of its job"
    where = pods if _is_pod(item) else _where(item, item.outcome, place)
    return cut(f"{word}: {where}; {_when(item, place)}")


def headline(item: Preview) -> str:
    """Which document it is and, indented below, the sentence on it."""
    return f"{printable(item.source)}: {printable(item.title)}\n{folded(sentence(item), '  ')}"


def judged(item: Preview) -> tuple[Verdict, Place | None]:
    """Returns what happens to an object, and the place of one that is placed."""
    if item.outcome.kind is Kind.REFUSED:
        return Verdict.REFUSED, None
    place = None if _ended(item) else _place(item, item.outcome)
    return (Verdict.PLACED if place else Verdict.NOT_PLACED), place


def totals(items: Iterable[Preview]) -> str:
    """Returns how many objects have each verdict, as one line without its end."""
    numbers = Counter(judged(item)[0] for item in items)
    return ", ".join(f"{numbers[word]} {word}" for word in Verdict)


def _why_not(item: Preview) -> str:
    outcome = item.outcome
    if _ended(item):
        return "the job has ended"
    if _names_node(item, outcome.would or outcome):
        return "its workers name their node themselves, so no scheduler places them"
    if outcome.would and outcome.shadow:
        if outcome.would.denials:
            return f"{outcome.reason}. If shadow mode ended, refused: {'; '.join(outcome.would.denials)}"
        place = _place(item, outcome.would)
        if place:
            return f"{outcome.reason}. If shadow mode ended: {_where(item, outcome.would, place)}"
    lacking = WITHOUT_DEVICES.get(outcome.facts.get("devices", ""))
    if "shape" in outcome.facts and not lacking:
        return f"{outcome.reason}, but no rule of the table gives them a job label"
    reason = lacking or outcome.reason
    wants_device = lacking or outcome.kind is Kind.NO_CANDIDATE
    return f"{reason}. {item.hint}" if wants_device and item.hint else reason


def _where(item: Preview, outcome: Outcome, place: Place) -> str:
    """The nodes of a job: how many, of which units, and whether others may be beside it."""
    templates = _templates(item, outcome)
    each = "each group: " if place.group else ""
    what = f"{each}{_count(place.workers, 'Pod' if len(templates) > 1 else 'worker')}"
    apart = place.unit != keys.HOSTNAME and _asks(templates, place.unit, "podAntiAffinity", REQUIRED)
    alone = ", shared with no other job" if apart else ""
    if place.size == 1:
        some = "any " if place.unit == keys.HOSTNAME else ""
        return f"{what} on {'one node' if place.workers == 1 else f'{some}{place.workers} nodes'}{alone}"
    blocks = place.workers // place.size
    one, several = UNITS.get(place.unit, (f"one unit of {place.unit}", f"units of {place.unit}"))
    if blocks == 1:
        return f"{what} on {one}{alone}"
    if place.placer is Placer.AFFINITY:
        return f"{what} in blocks of {place.size}, on whole units where the scheduler finds them{alone}"
    return f"{what} in blocks of {place.size} on {blocks} {several}{alone}"


def _when(item: Preview, place: Place) -> str:
    if item.stored is not None and "shape" not in item.outcome.facts:
        return "the update leaves the stored place as it is"
    if place.placer is Placer.KUEUE:
        return "Kueue chooses the nodes and starts the job"
    if place.placer is Placer.GANG:
        return "the PodGroup that the job names places the Pods"
    if place.placer is Placer.AFFINITY:
        return "the scheduler places the Pods one by one"
    job = "the group" if place.group else "the job"
    if place.workers == 1:
        return f"{job} waits until a node is free"
    return f"{job} waits until {'both' if place.workers == 2 else f'all {place.workers}'} nodes are free"  # noqa: PLR2004


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is_pod(item: Preview) -> bool:
    return bool(item.object.get("kind") == "Pod")


def _ended(item: Preview) -> bool:
    """Whether what is updated is a job that has ended."""
    conditions = maps_at(item.stored, ("status", "conditions"))
    return any(each.get("type") in ENDED and each.get("status") == "True" for each in conditions)


def _names_node(item: Preview, outcome: Outcome) -> bool:
    templates = [] if _is_pod(item) else _templates(item, outcome)
    return any(get(each, ("spec", "nodeName")) for each in templates)


def _templates(item: Preview, outcome: Outcome) -> list[Json]:
    """The templates that say a place: of the stored job, if its Pods were made of that."""
    obj = item.stored if outcome.reason == MADE else outcome.after
    return [get(obj, path[:-3]) for path, _ in nodes(obj) if path[-3:] == PLACE]


def _place(item: Preview, outcome: Outcome) -> Place | None:
    """The first place that the object says afterwards, of single nodes where nothing keeps blocks whole.

    None where nothing is placed. Without a shape nothing was computed, and what stands there is what the
    author wrote; but an update keeps what its stored object has, and a Pod what the template of its job has.
    """
    stands = item.stored is not None or _is_pod(item)
    kept = stands and outcome.kind in {Kind.CHANGED, Kind.UNCHANGED}
    templates = _templates(item, outcome)
    if not (templates and (kept or "shape" in outcome.facts)) or _names_node(item, outcome):
        return None
    try:
        place = parse(text_of(get(templates[0], PLACE)))
    except ContractError:
        return None
    return place if _whole(item, place, templates) else replace(place, size=1)


def _whole(item: Preview, place: Place, templates: list[Json]) -> bool:
    """Whether terms of the templates, or the placer itself, keep every block on one unit."""
    unit, single = place.unit, place.workers == place.size
    if place.placer is Placer.AFFINITY and (single or place.index):
        # A Pod of several blocks gets the required term when it comes, by its number.
        together = _asks(templates, unit, "podAffinity", *([REQUIRED] if single else []))
        return together and _asks(templates, unit, "nodeAffinity", REQUIRED)
    if place.placer is Placer.KUEUE:
        marks = [map_at(each, PLACE[:2]) for each in templates]
        asked = [[mark.get(f"kueue.x-k8s.io/podset-{key}") for key in TOPOLOGIES] for mark in marks]
        one, slices, size, group = asked[0]
        levels = (unit, unit if unit == PAIR else item.table.values.get("kueueLevel", unit))
        whole = one in levels if single and one else slices in levels and size == str(place.size)
        return whole and asked[1:] == asked[:1] * (len(asked) - 1) and bool(group or len(asked) == 1)
    return place.placer is Placer.GATE


def _asks(templates: list[Json], unit: str, *terms: str) -> bool:
    """Whether affinity terms of every template name the label of a unit."""
    found = (nodes(get(each, ("spec", "affinity", *terms))) for each in templates)
    return all(any(value == unit for _, value in each) for each in found)

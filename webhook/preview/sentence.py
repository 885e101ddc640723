"""One sentence that says what happens to an object: what every way to preview it shows first."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from common.texts import folded, printable
from contract import keys
from contract.place import ContractError, Place, Placer, parse
from webhook.engine.candidates import NO_DEVICE
from webhook.engine.outcome import Kind, Outcome, cut
from webhook.objects.tree import nodes
from webhook.preview.run import Preview

SERVER: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
PAIR: Final = "neuron.amazonaws.com/ultraserver-server-id-2"
"""Labels of nodes of one UltraServer, and of the pairs that work together in one (``shared/domain.md``)."""
UNITS: Final = {
    SERVER: ("one whole UltraServer", "whole UltraServers"),
    PAIR: ("one pair of nodes of an UltraServer", "pairs of nodes of UltraServers"),
}
"""By label: one unit, and several."""

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
    if _is_pod(item):
        return cut(f"{word}: with the {_count(place.workers, 'Pod')} of its job; {_when(place)}")
    return cut(f"{word}: {_where(item, item.outcome, place)}; {_when(place)}")


def headline(item: Preview) -> str:
    """Which document it is and, indented below, the sentence on it."""
    return f"{printable(item.source)}: {printable(item.title)}\n{folded(sentence(item), '  ')}"


def judged(item: Preview) -> tuple[Verdict, Place | None]:
    """Returns what happens to an object, and the place of one that is placed."""
    if item.outcome.kind is Kind.REFUSED:
        return Verdict.REFUSED, None
    place = _place(item.outcome, stands=item.stored is not None or _is_pod(item))
    return (Verdict.PLACED if place else Verdict.NOT_PLACED), place


def totals(items: Iterable[Preview]) -> str:
    """Returns how many objects have each verdict, as one line without its end."""
    numbers = Counter(judged(item)[0] for item in items)
    return ", ".join(f"{numbers[word]} {word}" for word in Verdict)


def _why_not(item: Preview) -> str:
    outcome = item.outcome
    if outcome.would and outcome.shadow:
        if outcome.would.denials:
            return f"{outcome.reason}. If shadow mode ended, refused: {'; '.join(outcome.would.denials)}"
        place = _place(outcome.would)
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
    workers = int(outcome.facts.get("workers", place.workers))
    each = "each group: " if place.group else ""
    what = f"{each}{_count(workers, 'worker')}"
    if workers != place.workers:
        what += f" and {_count(place.workers - workers, 'other Pod')}"
    if place.size == 1:
        return f"{what} on {'one node' if place.workers == 1 else f'any {place.workers} nodes'}"
    blocks = place.workers // place.size
    if any("nothing keeps" in text for text in outcome.warnings):
        return f"{what} on nodes of any units, whole or not"
    one, several = UNITS.get(place.unit, (f"one unit of {place.unit}", f"units of {place.unit}"))
    name, like = outcome.facts.get("shape"), (place.unit, place.size)
    shapes = item.table.shapes
    alike = [
        row for row in shapes if (row.name == name if name else (row.topology_key, row.node_config) == like)
    ]
    alone = ", shared with no other job" if alike and alike[0].apart == "required" else ""
    if blocks == 1:
        return f"{what} on {one}{alone}"
    if place.placer is Placer.AFFINITY:
        return f"{what} in blocks of {place.size}, on whole units where the scheduler finds them{alone}"
    return f"{what} in blocks of {place.size} on {blocks} {several}{alone}"


def _when(place: Place) -> str:
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


def _place(outcome: Outcome, *, stands: bool = False) -> Place | None:
    """The first place that the object says afterwards; None where nothing of it is placed.

    Without a shape nothing was computed, and what stands there is what the author wrote; but an update keeps
    what its stored object has, and a Pod what the template of its job has.
    """
    kept = stands and outcome.kind in {Kind.CHANGED, Kind.UNCHANGED}
    if not kept and "shape" not in outcome.facts:
        return None
    annotation = ("metadata", "annotations", keys.PLACE)
    found = (value for path, value in nodes(outcome.after) if path[-3:] == annotation)
    try:
        return next((parse(text) for text in found if isinstance(text, str)), None)
    except ContractError:
        return None

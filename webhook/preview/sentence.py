"""One sentence that says what happens to an object: what every way to preview it shows first."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from contract import keys
from contract.place import ContractError, Place, Placer, parse
from webhook.engine.outcome import Kind, Outcome, cut
from webhook.objects.tree import Json, get
from webhook.preview.run import Preview

SERVER: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
PAIR: Final = "neuron.amazonaws.com/ultraserver-server-id-2"
"""Labels of nodes of one UltraServer, and of the pairs that work together in one (``shared/domain.md``)."""


class Verdict(StrEnum):
    """What happens to an object."""

    PLACED = "placed"
    NOT_PLACED = "not placed"
    REFUSED = "refused"


def verdict(item: Preview) -> Verdict:
    """Returns whether nodes are chosen for an object's Pods, or the object is refused."""
    return _judged(item)[0]


def sentence(item: Preview) -> str:
    """Returns the verdict, a colon and why or where, as one printable line of bounded length."""
    word, place = _judged(item)
    if word is Verdict.REFUSED:
        return cut(f"{word}: {'; '.join(item.outcome.denials)}")
    if place is None:
        return cut(f"{word}: {_why_not(item)}")
    return cut(f"{word}: {_where(item, item.outcome, place)}; {_when(place)}")


def place_of(item: Preview) -> Place | None:
    """Returns how the Pods of an object are placed; None where they are not, or it is refused."""
    return _judged(item)[1]


def _judged(item: Preview) -> tuple[Verdict, Place | None]:
    """The verdict, and the place of what is placed."""
    if item.outcome.kind is Kind.REFUSED:
        return Verdict.REFUSED, None
    place = _place(item.outcome, update=item.stored is not None)
    return (Verdict.PLACED if place else Verdict.NOT_PLACED), place


def totals(items: Iterable[Preview]) -> str:
    """Returns how many objects have each verdict, as one line without its end."""
    numbers = Counter(verdict(item) for item in items)
    return ", ".join(f"{numbers[word]} {word}" for word in Verdict)


def _why_not(item: Preview) -> str:
    outcome = item.outcome
    if outcome.would and outcome.shadow:
        if outcome.would.denials:
            return f"{outcome.reason}. If shadow mode ended, refused: {'; '.join(outcome.would.denials)}"
        place = _place(outcome.would)
        if place:
            return f"{outcome.reason}. If shadow mode ended: {_where(item, outcome.would, place)}"
    if "shape" in outcome.facts:
        # The row that leaves such a job to itself warns why.
        unlabelled = f"{outcome.reason}, but no rule of the table gives them a job label"
        return next((text for text in outcome.warnings if "not placed" in text), unlabelled)
    meant = next((text for text in outcome.warnings if "did you mean" in text), "")
    return f"{outcome.reason}; {meant}" if meant and outcome.kind is Kind.NO_CANDIDATE else outcome.reason


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
    units = _units(place, blocks)
    name = outcome.facts.get("shape")
    alike = (
        one for one in item.table.shapes if (one.topology_key, one.node_config) == (place.unit, place.size)
    )
    shape = next((one for one in item.table.shapes if one.name == name), None) or next(alike, None)
    alone = ", shared with no other job" if shape and shape.apart == "required" else ""
    if blocks == 1:
        return f"{what} on {units}{alone}"
    if place.placer is Placer.AFFINITY:
        return f"{what} in blocks of {place.size}, on whole units where the scheduler finds them{alone}"
    return f"{what} in blocks of {place.size} on {units}{alone}"


def _units(place: Place, blocks: int) -> str:
    number = "one" if blocks == 1 else str(blocks)
    plural = "" if blocks == 1 else "s"
    if place.unit == SERVER:
        return f"{number} whole UltraServer{plural}"
    if place.unit == PAIR:
        return f"{number} pair{plural} of nodes of {'an UltraServer' if blocks == 1 else 'UltraServers'}"
    return f"{number} unit{plural} of {place.unit}"


def _when(place: Place) -> str:
    if place.placer is Placer.KUEUE:
        return "Kueue chooses the nodes and starts the job"
    if place.placer is Placer.AFFINITY:
        return "the scheduler places the Pods one by one"
    job = "the group" if place.group else "the job"
    if place.workers == 1:
        return f"{job} waits until a node is free"
    return f"{job} waits until {'both' if place.workers == 2 else f'all {place.workers}'} nodes are free"  # noqa: PLR2004


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _place(outcome: Outcome, *, update: bool = False) -> Place | None:
    """The first place that the object says afterwards; None where nothing of it is placed.

    Without a shape nothing was computed, and what stands there is what the author wrote; but an update keeps
    what its stored object has.
    """
    kept = update and outcome.kind in {Kind.CHANGED, Kind.UNCHANGED}
    texts = _places(outcome.after) if kept or "shape" in outcome.facts else iter(())
    try:
        return next(map(parse, texts), None)
    except ContractError:
        return None


def _places(value: Json) -> Iterator[str]:
    """The place of each pod template, or Pod, of an object."""
    if not isinstance(value, dict):
        return
    if isinstance(text := get(value, ("metadata", "annotations", keys.PLACE)), str):
        yield text
    for inner in value.values():
        for each in inner if isinstance(inner, list) else (inner,):
            yield from _places(each)

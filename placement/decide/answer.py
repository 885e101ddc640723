"""Whether a job would start if it were created now: a decision with its Pods added to the cluster. Pure.

The answer names no object of others, because the preview service gives it to users who may not list Pods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from common.pointers import get
from contract.place import Placer, read
from placement import messages
from placement.decide.decide import Scene
from placement.decide.forecast import forecast
from placement.decide.plan import Waiting
from placement.messages import STUCK, WITHOUT_NAMES, Reason
from placement.observe.coming import coming
from placement.observe.model import Pod

MOST_PODS: Final = 1024
"""Maximum number of Pods of a job in a question."""
LONGEST: Final = 253
"""Maximum length of a name, as for the API server; those of jobs stay in caches."""
MOST_DECISIONS: Final = 30
"""Maximum number of decisions for the start of a job: the program makes its own ones at the same time."""
ABSENT: Final = "job that is asked about"
"""In place of the job's name, so that Pods of a stored job are not among its own: no label has spaces."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a job would start now.

    Attributes:
        fits: Whether it would.
        units: The units that it would get.
        position: Its position in the queue, from 1; None if it starts, or cannot be admitted at present.
        waiting: The number of other jobs that wait.
        start: When it may start; None if that is not known.
        exact: Whether that depends on time limits only.
        why: What it would wait for.
        now: When the program saw this.
    """

    fits: bool
    units: tuple[str, ...]
    position: int | None
    waiting: int
    start: datetime | None
    exact: bool
    why: str
    now: datetime


def pods_of(question: Mapping[str, Any], now: datetime) -> list[Pod]:
    """Returns the Pods of a job that the preview service describes.

    Raises:
        ValueError: It describes none that whole-job admission could place.
    """
    workers: list[dict[str, Any]] = []
    sets = int(question["sets"])
    for part in question["pods"]:
        count = int(part["count"]) if read(part["pod"]["metadata"]) else 0
        if (len(workers) + count) * max(sets, 1) > MOST_PODS:  # also of a question that no preview has sent
            raise ValueError(messages.many_workers(MOST_PODS))
        workers += [part["pod"]] * count
    place = read(workers[0]["metadata"]) if workers else None
    if place is None or place.placer is not Placer.WHOLE_JOB:
        raise ValueError(messages.NOT_WHOLE_JOB)
    if any(get(pod, ("spec", "resourceClaims")) for pod in workers):
        raise ValueError(messages.CLAIMS_DEVICES)
    names = str(question["namespace"]), str(question["name"])
    if max(map(len, names)) > LONGEST:
        raise ValueError(messages.long_name(LONGEST))
    pods = coming(*names, workers, place, sets if place.group else 1, {}, now)
    if not pods:
        raise ValueError(messages.EMPTY)
    # With a node or a pin, the reason would name the jobs that are there.
    return [replace(pod, job=f"{ABSENT} {pod.job}", node="", opened=None, plan="") for pod in pods]


def answer_for(scene: Scene, pods: Sequence[Pod], goes_on: Callable[[], bool] = lambda: True) -> Answer:
    """Returns whether a job with these Pods would start if it were created now.

    If ``goes_on`` returns false, the start is unknown.
    """
    keys = {pod.key for pod in pods}
    tuning = replace(scene.tuning, preempts=False)
    scene = replace(scene, pods=(*scene.pods, *pods), tuning=tuning)
    decision = scene.decision()
    # A Pod whose annotation is not believed is in a job of its own.
    own = [waiting for waiting in decision.waiting if waiting.job.pods[0].pod.key in keys]
    openings = {opening.job.key: opening.units for opening in decision.openings}
    units = tuple(unit for key, own_units in openings.items() if key in keys for unit in own_units)
    queue = [*openings, *(waiting.job.key for waiting in decision.waiting if waiting.reason not in STUCK)]
    waits = {*openings, *(waiting.job.key for waiting in decision.waiting)}
    others = len(waits - keys - {waiting.job.key for waiting in own})
    if not own:
        return Answer(True, units, None, others, scene.now, True, "", scene.now)  # noqa: FBT003 - its fields
    key, stuck = own[0].job.key, own[0].reason in STUCK
    position = None if stuck else queue.index(key) + 1
    starts = forecast(scene, decision, () if stuck else keys, MOST_DECISIONS, goes_on)
    known = starts.keys() >= {waiting.job.key for waiting in own}
    start = max((start.at for start in starts.values()), default=None) if known else None
    exact = known and all(start.at == start.latest for start in starts.values())
    return Answer(False, (), position, others, start, exact, _why(own[0]), scene.now)  # noqa: FBT003 - as above


def _why(waiting: Waiting) -> str:
    """Returns what a job would wait for, without the parts that name objects of others."""
    if not waiting.shortage:
        return WITHOUT_NAMES.get(waiting.reason, waiting.why)
    if waiting.reason in (Reason.GUARANTEE, Reason.RESERVED):
        return f"{waiting.shortage.needs}; {WITHOUT_NAMES[waiting.reason]}"
    return replace(waiting, free=waiting.free - waiting.withheld, withheld=0).text()

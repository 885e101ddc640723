"""Answers whether a job would start if it were created now: makes a decision that includes its Pods. Pure.

The answer names no objects of other users, because the user who asks may have no right to list Pods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from common.pointers import get
from contract.placement import Placer, read
from placement import messages
from placement.decide.decide import Scene
from placement.decide.forecast import forecast
from placement.decide.plan import Waiting
from placement.messages import STUCK, WITHOUT_NAMES, Reason
from placement.observe.coming import future_pods
from placement.observe.model import Pod

MOST_PODS: Final = 1024
"""Maximum number of Pods that the job in a question may have."""
LONGEST_NAME: Final = 253
"""Maximum length of a name, as in the API server. It limits memory, because caches store names."""
MOST_DECISIONS: Final = 30
"""Maximum number of decisions of a forecast, because the program needs time for its own decisions."""
ASKED_JOB: Final = "job that is asked about"
"""Prefix of the job label of the Pods in a question. A label of an existing job cannot have spaces."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a job would start now."""

    fits: bool  # whether the job would start
    units: tuple[str, ...]  # the units that the job would get; empty if it would wait
    # The job's position in the queue, from 1; None if the job would start, or waits for a reason in `STUCK`.
    position: int | None
    waiting: int  # the number of other jobs that waited before this decision
    start: datetime | None  # when the job may start; None if that is unknown
    exact: bool  # whether the start depends only on time limits, not on assumptions
    why: str  # why the job would wait; empty if it would start
    now: datetime  # the time of the decision


def pods_of(question: Mapping[str, Any], now: datetime) -> list[Pod]:
    """Returns the Pods of the job that a question of the preview service describes.

    Raises:
        ValueError: Whole-job admission does not place the job, or the question cannot be answered.
    """
    workers: list[dict[str, Any]] = []
    group_count = int(question["sets"])
    for entry in question["pods"]:
        count = int(entry["count"]) if read(entry["pod"]["metadata"]) else 0
        if (len(workers) + count) * max(group_count, 1) > MOST_PODS:  # any client can send a question
            raise ValueError(messages.many_workers(MOST_PODS))
        workers += [entry["pod"]] * count
    placement = read(workers[0]["metadata"]) if workers else None
    if placement is None or placement.placer is not Placer.WHOLE_JOB:
        raise ValueError(messages.NOT_WHOLE_JOB)
    if any(get(pod, ("spec", "resourceClaims")) for pod in workers):
        raise ValueError(messages.CLAIMS_DEVICES)
    names = str(question["namespace"]), str(question["name"])
    if max(map(len, names)) > LONGEST_NAME:
        raise ValueError(messages.long_name(LONGEST_NAME))
    pods = future_pods(*names, workers, placement, group_count if placement.group else 1, {}, now)
    if not pods:
        raise ValueError(messages.EMPTY)
    # The node and the pin are removed: with them, `Answer.why` could name jobs on this node or unit.
    return [replace(pod, job=f"{ASKED_JOB} {pod.job}", node="", admitted_at=None, plan="") for pod in pods]


def answer_for(scene: Scene, pods: Sequence[Pod], goes_on: Callable[[], bool] = lambda: True) -> Answer:
    """Returns whether a job with these Pods would start if it were created now.

    The decision is made without preemption. The forecast of the start ends when ``goes_on`` returns false.
    """
    keys = {pod.key for pod in pods}
    tuning = replace(scene.tuning, preempts=False)
    scene = replace(scene, pods=(*scene.pods, *pods), tuning=tuning)
    decision = scene.decision()
    # A Pod whose placement annotation is not trusted has a `Job` of its own.
    own_jobs = [waiting for waiting in decision.waiting if waiting.job.pods[0].pod.key in keys]
    admissions = {admission.job.key: admission.units for admission in decision.admissions}
    units = tuple(unit for key, job_units in admissions.items() if key in keys for unit in job_units)
    queue = [*admissions, *(waiting.job.key for waiting in decision.waiting if waiting.reason not in STUCK)]
    waiting_jobs = {*admissions, *(waiting.job.key for waiting in decision.waiting)}
    other_count = len(waiting_jobs - keys - {waiting.job.key for waiting in own_jobs})
    if not own_jobs:
        return Answer(True, units, None, other_count, scene.now, True, "", scene.now)  # noqa: FBT003 - the fields of `Answer`
    key, is_stuck = own_jobs[0].job.key, own_jobs[0].reason in STUCK
    position = None if is_stuck else queue.index(key) + 1
    starts = forecast(scene, decision, () if is_stuck else keys, MOST_DECISIONS, goes_on)
    is_known = starts.keys() >= {waiting.job.key for waiting in own_jobs}
    start = max((start.at for start in starts.values()), default=None) if is_known else None
    is_exact = is_known and all(start.at == start.latest for start in starts.values())
    return Answer(False, (), position, other_count, start, is_exact, _why(own_jobs[0]), scene.now)  # noqa: FBT003 - as above


def _why(waiting: Waiting) -> str:
    """Returns why a job would wait, without the parts that name objects of other users."""
    if not waiting.shortage:
        return WITHOUT_NAMES.get(waiting.reason, waiting.why)
    if waiting.reason in (Reason.GUARANTEE, Reason.RESERVED):
        return f"{waiting.shortage.needs}; {WITHOUT_NAMES[waiting.reason]}"
    return replace(waiting, free_count=waiting.free_count - waiting.withheld_count, withheld_count=0).text()

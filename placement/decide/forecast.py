"""When waiting jobs may start: a decision at each time at which a running job should end. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from contract.keys import GATE
from placement.decide.decide import Scene
from placement.decide.plan import Decision, Opening
from placement.decide.preempt import without
from placement.observe.model import JobKey, Pod, shared

MOST: Final = 100
"""Maximum number of decisions of a forecast. Jobs that would start later get no time."""


class Start(NamedTuple):
    """When a job may start."""

    at: datetime
    latest: datetime | None = None  # if running jobs keep their time limits; None if unknown
    after: tuple[JobKey, ...] = ()  # the jobs that end then


def forecast(
    scene: Scene,
    decision: Decision,
    wanted: Iterable[JobKey],
    most: int = MOST,
    goes_on: Callable[[], bool] = lambda: True,
) -> dict[JobKey, Start]:
    """Returns when waiting jobs may start, for the jobs whose start can be predicted.

    A job without a time limit is assumed to run for as long again as it has run, and a job that starts later
    for the default limit. No further jobs are expected.

    Args:
        scene: What the decision saw.
        decision: The decision.
        wanted: The jobs.
        most: Maximum number of decisions.
        goes_on: Returns whether there is time for one more.
    """
    starts: dict[JobKey, Start] = {}
    missing = set(wanted)
    reserved = {key: start for key, start in _reserved(scene, decision) if key in missing}
    ends = {key: end.at for key in decision.ends.admitted if (end := decision.ends.end(key))}
    pauses = {failure.again(scene.tuning) for failure in decision.memory.failures.values()}
    pauses |= {scene.now + scene.tuning.bound for deletion in decision.deletions if deletion.by}
    over = frozenset[JobKey]()
    for _ in range(most):
        for opening in decision.openings:
            if opening.job.key in missing:
                starts[opening.job.key] = Start(scene.now, after=tuple(sorted(over)))
                missing.remove(opening.job.key)
            ends[opening.job.key] = decision.ends.over(opening.job) - scene.tuning.bound
        later = [time for time in (*ends.values(), *pauses) if time > scene.now]
        if not missing or not later or not goes_on():
            break
        now = min(later)
        over = frozenset(key for key, end in ends.items() if end <= now)
        ends = {key: end for key, end in ends.items() if key not in over}
        scene = _after(scene, now, decision, over)
        decision = scene.decision()
    for key, start in reserved.items():
        # A reservation ends if another job comes before this one, for example because its namespace has less.
        if starts.get(key, Start(scene.now)).at <= start.at:
            starts[key] = starts.get(key, start)._replace(latest=start.latest)
    return starts


def _after(scene: Scene, now: datetime, decision: Decision, over: frozenset[JobKey]) -> Scene:
    """Returns the input of a later decision if this one is carried out and the given jobs have ended."""
    bound = {pod.uid: pod for opening in decision.openings for pod in _bound(opening, scene.now)}
    over |= {deletion.job.key for deletion in decision.deletions if deletion.by}
    others, inventory = without(scene.pods, scene.inventory, over)
    pods = tuple(bound.get(pod.uid, pod) if isinstance(pod, Pod) else pod for pod in others)
    # An end that is only expected costs no namespace its age.
    memory = replace(decision.memory, unsettled={}, begun={}, vain={}, debts=scene.memory.debts)
    tuning = replace(scene.tuning, preempts=False)  # it is unknown which jobs end later
    return replace(scene, pods=pods, now=now, tuning=tuning, memory=memory, inventory=inventory)


def _reserved(scene: Scene, decision: Decision) -> Iterator[tuple[JobKey, Start]]:
    """Yields the start of the job with the reservation.

    If no job on its units has a known end, something else, such as a Pod, keeps the job from starting.
    """
    if (reservation := decision.cluster.reservation) and reservation.begin > scene.now:
        jobs = decision.ends.order(reservation.nodes, decision.cluster.holders)
        last = tuple(key for key in jobs if key != reservation.job)[:1]
        latest = None if reservation.assumed or reservation.own else reservation.begin
        yield reservation.job, Start(reservation.begin, latest, last)


def _bound(opening: Opening, now: datetime) -> Iterator[Pod]:
    """Yields the Pods of a job that was admitted: they hold their units, and never lack a node for long."""
    key = opening.job.place.unit
    for member in opening.job.gated:
        pod, unit = member.pod, opening.blocks.get(member.block)
        gates = tuple(gate for gate in pod.gates if gate != GATE)
        if unit and member.place:
            demand = shared(replace(pod.demand, selector={**pod.demand.selector, key: unit}))
            yield replace(pod, gates=gates, demand=demand, opened=pod.opened or now, started=True)
        else:
            yield replace(pod, gates=gates, started=True)

"""Forecasts when waiting jobs may start, by decisions at the times at which jobs end or retry. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from contract.keys import GATE
from placement.decide.decide import Scene
from placement.decide.order import KEEP_TIME, LARGE_JOB_TIME, RESTART_TIME
from placement.decide.plan import Admission, Decision
from placement.decide.preempt import without_jobs
from placement.observe.model import JobKey, Pod, intern

MOST_DECISIONS: Final = 100
"""Maximum number of decisions of a forecast. Jobs that would start after the last decision are left out."""


class Start(NamedTuple):
    """When a job may start."""

    at: datetime
    latest: datetime | None = None  # the latest start if all jobs keep their time limits; None if unknown
    after: tuple[JobKey, ...] = ()  # the jobs that end just before this job can start


def forecast(
    scene: Scene,
    decision: Decision,
    jobs: Iterable[JobKey],
    max_decisions: int = MOST_DECISIONS,
    goes_on: Callable[[], bool] = lambda: True,
) -> dict[JobKey, Start]:
    """Returns when waiting jobs may start, for the jobs whose start can be predicted.

    A running job without a time limit is assumed to run for as long again as it has run. A job that starts
    in the forecast is assumed to run for its time limit or, without one, for the default time limit. The
    forecast ignores jobs that do not exist yet, and preemptions after the given decision.

    Args:
        scene: The inputs of the decision.
        decision: The decision for these inputs.
        jobs: The jobs whose starts are forecast.
        max_decisions: Maximum number of decisions.
        goes_on: Returns whether there is time for another decision.
    """
    starts: dict[JobKey, Start] = {}
    unknown_jobs = set(jobs)
    reserved_starts = {key: start for key, start in _reserved_starts(scene, decision) if key in unknown_jobs}
    job_ends = decision.cluster.ends
    ends = {key: end.at for key in job_ends.admitted_jobs if (end := job_ends.end(key))}
    other_times = {failure.retry_time(scene.tuning) for failure in decision.memory.failures.values()}
    other_times |= {since + KEEP_TIME for since in decision.memory.position_kept_since.values()}
    other_times |= {departure.deleted_at + RESTART_TIME for departure in decision.memory.departures.values()}
    other_times |= {since + LARGE_JOB_TIME for since in decision.memory.favoured_since.values()}
    other_times |= {scene.now + scene.tuning.bound for deletion in decision.deletions if deletion.preemptor}
    ended_jobs = frozenset[JobKey]()
    for _ in range(max_decisions):
        for admission in decision.admissions:
            if admission.job.key in unknown_jobs:
                starts[admission.job.key] = Start(scene.now, after=tuple(sorted(ended_jobs)))
                unknown_jobs.remove(admission.job.key)
            ends[admission.job.key] = decision.cluster.ends.latest_end(admission.job) - scene.tuning.bound
        later_times = [time for time in (*ends.values(), *other_times) if time > scene.now]
        if not unknown_jobs or not later_times or not goes_on():
            break
        now = min(later_times)
        ended_jobs = frozenset(key for key, end in ends.items() if end <= now)
        ends = {key: end for key, end in ends.items() if key not in ended_jobs}
        scene = _later_scene(scene, now, decision, ended_jobs)
        decision = scene.decision()
    for key, start in reserved_starts.items():
        # If the forecast start is later than `Reservation.begin`, the job has lost the reservation. Then the
        # latest start is unknown.
        if starts.get(key, Start(scene.now)).at <= start.at:
            starts[key] = starts.get(key, start)._replace(latest=start.latest)
    return starts


def _later_scene(scene: Scene, now: datetime, decision: Decision, ended_jobs: frozenset[JobKey]) -> Scene:
    """Returns the inputs of a later decision: ``decision`` was carried out, and the given jobs have ended."""
    started_pods = {
        pod.uid: pod for admission in decision.admissions for pod in _started_pods(admission, scene.now)
    }
    ended_jobs |= {deletion.job.key for deletion in decision.deletions if deletion.preemptor}
    other_pods, inventory = without_jobs(scene.pods, scene.inventory, ended_jobs)
    pods = tuple(started_pods.get(pod.uid, pod) if isinstance(pod, Pod) else pod for pod in other_pods)
    # The ended jobs must not look like jobs that users deleted: such deletions reduce the age of other jobs.
    memory, debts = decision.memory, scene.memory.age_debts
    memory = replace(memory, unsettled={}, recent_admissions={}, failed_namespaces={}, age_debts=debts)
    tuning = replace(scene.tuning, preempts=False)  # it is unknown which jobs would be preempted
    return replace(scene, pods=pods, now=now, tuning=tuning, memory=memory, inventory=inventory)


def _reserved_starts(scene: Scene, decision: Decision) -> Iterator[tuple[JobKey, Start]]:
    """Yields each job whose earliest reservation begins later than now, with its start.

    `Start.after` has the job that ends last on the reserved nodes. It is empty if no job there has a known
    end: then something else, such as a Pod without a job, keeps the waiting job from starting.
    """
    for reservation in decision.cluster.reservations:
        is_earliest = reservation is decision.cluster.reservations.earliest_of(reservation.job)
        if not is_earliest or reservation.begin <= scene.now:
            continue
        holders, ends = decision.cluster.holders, decision.cluster.ends
        jobs = {key for node in reservation.nodes for key in holders.get(node, ())} - {reservation.job}
        known_ends = {key: end.at for key in sorted(jobs) if (end := ends.end(key))}
        last_job = max(known_ends, key=known_ends.__getitem__, default=None)
        kept_since = decision.memory.position_kept_since.get(reservation.job)
        is_kept = kept_since is not None and reservation.begin < kept_since + KEEP_TIME
        is_exact = is_kept and not (reservation.is_assumed or reservation.is_internal)
        latest = reservation.begin if is_exact else None
        yield reservation.job, Start(reservation.begin, latest, (last_job,) if last_job else ())


def _started_pods(admission: Admission, now: datetime) -> Iterator[Pod]:
    """Yields a job's gated Pods as if they had started, so that no later decision evicts the job."""
    key = admission.job.placement.unit
    for member in admission.job.gated_pods:
        pod, unit = member.pod, admission.blocks.get(member.pod.block)
        gates = tuple(gate for gate in pod.gates if gate != GATE)
        if unit and member.placement:
            demand = intern(replace(pod.demand, selector={**pod.demand.selector, key: unit}))
            yield replace(pod, gates=gates, demand=demand, admitted_at=pod.admitted_at or now, started=True)
        else:
            yield replace(pod, gates=gates, started=True)

"""Tests of properties of decisions with random clusters and jobs, partly by a search of all assignments."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from placement.decide.plan import Decision
from placement.decide.topology import Topology
from placement.observe.model import JobKey, Node, Pod
from tests.helpers import examples
from tests.placement.world import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bind_pods,
    carry_out,
    count_writes,
    decide,
    foreign_pod,
    job,
    jobs,
    node,
    patches_of,
    pin_pod,
    servers,
    ungate_pod,
)

SERVERS = 3
NAMES = list(servers(SERVERS))
STATES = st.sampled_from([{}, {}, {}, {}, {"ready": False}, {"cordoned": True}])


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    return [node(int(name[1]), int(name[3]), **draw(STATES)) for name in NAMES]


@st.composite
def pods_with_nodes(draw: st.DrawFn) -> list[Pod]:
    """Returns pods on nodes: jobs on whole units, and pods without a job."""
    pods: list[Pod] = []
    used_nodes: set[str] = set()
    for number in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([1, 2, 4]))
        start = draw(st.integers(0, SERVERS * 4 // size - 1)) * size
        names = NAMES[start : start + size]
        if used_nodes.isdisjoint(names):
            used_nodes.update(names)
            nodes = [node(int(name[1]), int(name[3])) for name in names]
            pods += bind_pods(job(f"r{number}", size), nodes, started=draw(st.booleans()))
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)) - used_nodes:
        pods.append(foreign_pod(f"x{name}", name))
    return pods


@st.composite
def waiting_queues(draw: st.DrawFn) -> list[Pod]:
    """Returns waiting jobs that are so young that no units are reserved for them."""
    pods_of_queue: list[Pod] = []
    for number in range(draw(st.integers(1, 5))):
        workers = draw(st.sampled_from([1, 1, 2, 3, 4, 4, 6, 8, 12]))
        age = draw(st.integers(0, 300)) * SECOND
        pods = job(
            f"w{number}", workers, age=age, priority=draw(st.integers(0, 1)), launcher=draw(st.booleans())
        )
        pods_of_queue += pods if draw(st.integers(0, 5)) else pods[1:]
    return pods_of_queue


def free_nodes(nodes: Iterable[Node], pods: Iterable[Pod]) -> frozenset[str]:
    used_nodes = {pod.node for pod in pods}
    return frozenset(
        node.name for node in nodes if node.ready and not node.cordoned and node.name not in used_nodes
    )


def units(size: int, free: frozenset[str]) -> list[frozenset[str]]:
    all_units = [frozenset(NAMES[start : start + size]) for start in range(0, len(NAMES), size)]
    return [unit for unit in all_units if unit <= free]


@cache
def can_all_fit(jobs: tuple[tuple[int, int], ...], free: frozenset[str]) -> bool:
    """Returns whether jobs, given by number and size of units, fit together. Tries all assignments."""
    if not jobs:
        return True
    (count, size), *rest = jobs
    return any(
        can_all_fit(tuple(rest), free.difference(*chosen))
        for chosen in combinations(units(size, free), count)
    )


def admissions(decision: Decision) -> Iterator[tuple[int, list[frozenset[str]]]]:
    """Yields, for each admitted job, the size of its units and the nodes of each unit."""
    topology = Topology(servers(SERVERS).values())
    for admission in decision.admissions:
        placement = admission.job.placement
        yield (
            placement.size,
            [topology.units_of_label(placement.unit)[unit].names for unit in admission.blocks.values()],
        )


@examples(50)
@given(clusters(), pods_with_nodes(), waiting_queues())
def test_all_workers_of_an_admitted_job_get_units_and_no_node_is_assigned_twice(
    nodes: list[Node], pods_on_nodes: list[Pod], waiting_pods: list[Pod]
) -> None:
    decision = decide(Topology(nodes), pods_on_nodes + waiting_pods, NOW)
    free = free_nodes(nodes, pods_on_nodes)
    assigned_nodes: list[str] = []
    for admission in decision.admissions:
        assert admission.job.unpinned_workers == admission.job.workers
        assert admission.blocks.keys() == admission.job.blocks.keys()
        assert len(admission.job.workers) == admission.job.placement.workers
    for size, blocks in admissions(decision):
        assert all(len(block) == size and block <= free for block in blocks)
        assigned_nodes += [name for block in blocks for name in block]
    assert len(assigned_nodes) == len(set(assigned_nodes))
    known_keys = {admission.job.key for admission in decision.admissions} | {
        value.job.key for value in decision.waiting
    }
    assert known_keys == {pod.key for pod in waiting_pods}


@examples(50)
@given(clusters(), pods_with_nodes(), waiting_queues())
def test_no_job_waits_that_would_fit_with_the_jobs_before_it(
    nodes: list[Node], pods_on_nodes: list[Pod], waiting_pods: list[Pod]
) -> None:
    decision = decide(Topology(nodes), pods_on_nodes + waiting_pods, NOW)
    free = free_nodes(nodes, pods_on_nodes)
    admitted_keys = {admission.job.key for admission in decision.admissions}
    needs: list[tuple[int, int]] = []
    for next_job in sorted(jobs(waiting_pods), key=lambda job: (-job.priority, job.created, job.key)):
        if next_job.obstacle:
            continue
        placement = next_job.placement
        need = (placement.workers // placement.size, placement.size)
        if next_job.key in admitted_keys:
            needs.append(need)
        else:
            assert not can_all_fit((*needs, need), free)


def admitted_jobs(pods: list[Pod]) -> set[JobKey]:
    """Returns the jobs without gated pods."""
    return {one_job.key for one_job in jobs(pods) if not one_job.gated_pods}


@examples(50)
@given(clusters(), pods_with_nodes(), waiting_queues(), st.integers(0, 60))
def test_after_a_crash_at_any_write_the_same_jobs_are_admitted_completely(
    nodes: list[Node], pods_on_nodes: list[Pod], waiting_pods: list[Pod], writes: int
) -> None:
    """The units may differ: after the crash, units next to the pinned units are a better fit."""
    topology, pods = Topology(nodes), pods_on_nodes + waiting_pods
    decision = decide(topology, pods, NOW)
    pods_at_crash = carry_out(pods, decision, writes=writes % (count_writes(decision) + 1))
    pods_after = carry_out(pods_at_crash, decide(topology, pods_at_crash, NOW))
    assert admitted_jobs(pods_after) == admitted_jobs(carry_out(pods, decision))
    assigned_nodes = [pod.node for pod in pods_on_nodes]
    for one_job in jobs(pods_after):
        if one_job.key not in {pod.key for pod in waiting_pods}:
            continue
        for block in one_job.blocks.values():
            pins = {pod.pin for pod in block}
            assert len(pins) == 1, "all workers of a block have the same pin, or none has a pin"
            assert (pins == {None}) is (one_job.key not in admitted_jobs(pods_after))
            units_by_id = topology.units_of_label(one_job.placement.unit)
            assigned_nodes += [node.name for pin in pins - {None} for node in units_by_id[pin].nodes]
    assert len(assigned_nodes) == len(set(assigned_nodes))
    assert not decide(topology, pods_after, NOW).admissions


@examples(200)
@given(
    clusters(), waiting_queues(), st.integers(1, 60), st.sets(st.sampled_from(NAMES)), st.lists(st.booleans())
)
def test_writes_of_an_old_leader_do_not_split_a_block(
    nodes: list[Node], waiting_pods: list[Pod], writes: int, sick: set[str], turns: list[bool]
) -> None:
    """The old leader stopped for longer than its Lease, and meanwhile nodes became sick."""
    decision = decide(Topology(nodes), waiting_pods, NOW)
    done_count = min(writes, count_writes(decision))
    pods_by_uid = {pod.uid: pod for pod in carry_out(waiting_pods, decision, writes=done_count)}
    later_topology = Topology(replace(value, ready=value.ready and value.name not in sick) for value in nodes)
    writes_by_leader = [
        patches_of(decision)[done_count:],
        patches_of(decide(later_topology, pods_by_uid.values(), NOW)),
    ]
    failed_admissions: set[tuple[bool, JobKey]] = set()
    for turn in [*turns, *(len(writes_by_leader[0]) * [False]), *(len(writes_by_leader[1]) * [True])]:
        if not writes_by_leader[turn]:
            continue
        pod, unit, plan, removes_gate = writes_by_leader[turn].pop(0)
        present_pod = pods_by_uid[pod.uid]
        if not removes_gate and present_pod.admitted_at:
            failed_admissions.add((turn, pod.key))
        # Only a refused write of the plan ends an admission: the other writes of a leader run in parallel.
        if (
            (turn, pod.key) in failed_admissions
            or not present_pod.gated
            or (unit and present_pod.admitted_at and present_pod.pin != unit)
        ):
            continue
        present_pod = (
            pin_pod(present_pod, pod.placement.unit, unit, NOW, plan)
            if unit and pod.placement
            else present_pod
        )
        pods_by_uid[pod.uid] = ungate_pod(present_pod) if removes_gate else present_pod
    for one_job in jobs(pods_by_uid.values()):
        for block in one_job.blocks.values():
            assert len({pod.pin for pod in block} - {None}) <= 1


@examples(50)
@given(
    clusters(),
    pods_with_nodes(),
    waiting_queues(),
    st.lists(st.sampled_from(NAMES), max_size=4),
    st.integers(0, 60),
)
def test_sick_nodes_end_no_running_pod_and_no_job_stays_admitted_in_part(
    nodes: list[Node], pods_on_nodes: list[Pod], waiting_pods: list[Pod], sick: list[str], writes: int
) -> None:
    decision = decide(Topology(nodes), pods_on_nodes + waiting_pods, NOW)
    pods = carry_out(pods_on_nodes + waiting_pods, decision, writes=writes % (count_writes(decision) + 1))
    topology = Topology(replace(value, ready=value.ready and value.name not in sick) for value in nodes)
    memory = None
    for elapsed in (0 * SECOND, MINUTE, HOUR):
        later_decision = decide(topology, pods, NOW + elapsed, memory=memory)
        assert not any(pod.started for deletion in later_decision.deletions for pod in deletion.pods)
        assert not any(
            member.pod.started
            for admission in later_decision.admissions
            for member in admission.job.unpinned_workers
        )
        pods, memory = carry_out(pods, later_decision, NOW + elapsed), later_decision.memory
    assert not any(admission.job.was_admitted for admission in later_decision.admissions)
    # These jobs were admitted to units that became free.
    newly_admitted = {admission.job.key for admission in later_decision.admissions}
    for one_job in jobs(pods):
        if one_job.key in newly_admitted:
            continue
        running = any(member.pod.started for member in one_job.workers)
        assert running or one_job.is_settled or not any(member.pod.admitted_at for member in one_job.workers)

"""What holds for any cluster and any jobs, compared with a search through all possible assignments."""

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
    admitted,
    bound,
    carry_out,
    decide,
    foreign,
    job,
    jobs,
    node,
    pinned,
    servers,
    writes_of,
    writes_to,
)

SERVERS = 3
NAMES = list(servers(SERVERS))
STATES = st.sampled_from([{}, {}, {}, {}, {"ready": False}, {"cordoned": True}])


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    return [node(int(name[1]), int(name[3]), **draw(STATES)) for name in NAMES]


@st.composite
def tenants(draw: st.DrawFn) -> list[Pod]:
    """Returns pods on nodes: running jobs on whole units of theirs, and pods of no one we know."""
    pods: list[Pod] = []
    taken: set[str] = set()
    for number in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([1, 2, 4]))
        start = draw(st.integers(0, SERVERS * 4 // size - 1)) * size
        names = NAMES[start : start + size]
        if taken.isdisjoint(names):
            taken.update(names)
            nodes = [node(int(name[1]), int(name[3])) for name in names]
            pods += bound(job(f"r{number}", size), nodes, started=draw(st.booleans()))
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)) - taken:
        pods.append(foreign(f"x{name}", name))
    return pods


@st.composite
def queues(draw: st.DrawFn) -> list[Pod]:
    """Returns jobs that wait, young enough that nothing is reserved for any."""
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
    taken = {pod.node for pod in pods}
    return frozenset(
        each.name for each in nodes if each.ready and not each.cordoned and each.name not in taken
    )


def units(size: int, free: frozenset[str]) -> list[frozenset[str]]:
    matching = [frozenset(NAMES[start : start + size]) for start in range(0, len(NAMES), size)]
    return [unit for unit in matching if unit <= free]


@cache
def possible(jobs: tuple[tuple[int, int], ...], free: frozenset[str]) -> bool:
    """Returns whether jobs (units needed, size of one) can all be placed at once: every way is tried."""
    if not jobs:
        return True
    (count, size), *rest = jobs
    return any(
        possible(tuple(rest), free.difference(*chosen)) for chosen in combinations(units(size, free), count)
    )


def admissions(decision: Decision) -> Iterator[tuple[int, list[frozenset[str]]]]:
    """Yields for each job its unit size, and the nodes that its pins name."""
    everything = Topology(servers(SERVERS).values())
    for admission in decision.admissions:
        place = admission.job.place
        yield (
            place.size,
            [everything.units_of_label(place.unit)[one].names for one in admission.blocks.values()],
        )


@examples(50)
@given(clusters(), tenants(), queues())
def test_every_opening_is_whole_and_nothing_is_given_twice(
    nodes: list[Node], there: list[Pod], waiting: list[Pod]
) -> None:
    decision = decide(Topology(nodes), there + waiting, NOW)
    free = free_nodes(nodes, there)
    given_away: list[str] = []
    for admission in decision.admissions:
        assert admission.job.unpinned_workers == admission.job.workers
        assert admission.blocks.keys() == admission.job.blocks.keys()
        assert len(admission.job.workers) == admission.job.place.workers
    for size, blocks in admissions(decision):
        assert all(len(block) == size and block <= free for block in blocks)
        given_away += [name for block in blocks for name in block]
    assert len(given_away) == len(set(given_away))
    known = {admitted.job.key for admitted in decision.admissions} | {
        value.job.key for value in decision.waiting
    }
    assert known == {pod.key for pod in waiting}


@examples(50)
@given(clusters(), tenants(), queues())
def test_no_job_waits_that_fits_next_to_those_before_it(
    nodes: list[Node], there: list[Pod], waiting: list[Pod]
) -> None:
    decision = decide(Topology(nodes), there + waiting, NOW)
    free = free_nodes(nodes, there)
    opened = {admission.job.key for admission in decision.admissions}
    before: list[tuple[int, int]] = []
    for each in sorted(jobs(waiting), key=lambda job: (-job.priority, job.created, job.key)):
        if each.obstacle:
            continue
        place = each.place
        need = (place.workers // place.size, place.size)
        if each.key in opened:
            before.append(need)
        else:
            assert not possible((*before, need), free)


def let_through(pods: list[Pod]) -> set[JobKey]:
    return {one_job.key for one_job in jobs(pods) if not one_job.gated_pods}


@examples(50)
@given(clusters(), tenants(), queues(), st.integers(0, 60))
def test_after_a_crash_at_any_write_the_same_jobs_are_placed_each_whole_on_units_of_its_own(
    nodes: list[Node], there: list[Pod], waiting: list[Pod], writes: int
) -> None:
    """On which units may differ: what a job has got already makes others of the UltraServer a better fit."""
    topology, pods = Topology(nodes), there + waiting
    decision = decide(topology, pods, NOW)
    left = carry_out(pods, decision, writes=writes % (writes_of(decision) + 1))
    after = carry_out(left, decide(topology, left, NOW))
    assert let_through(after) == let_through(carry_out(pods, decision))
    given_away = [pod.node for pod in there]
    for one_job in jobs(after):
        if one_job.key not in {pod.key for pod in waiting}:
            continue
        for block in one_job.blocks.values():
            pins = {pod.pin for pod in block}
            assert len(pins) == 1, "all of a block, or none"
            assert (pins == {None}) is (one_job.key not in let_through(after))
            by_id = topology.units_of_label(one_job.place.unit)
            given_away += [one.name for pin in pins - {None} for one in by_id[pin].nodes]
    assert len(given_away) == len(set(given_away))
    assert not decide(topology, after, NOW).admissions


@examples(200)
@given(clusters(), queues(), st.integers(1, 60), st.sets(st.sampled_from(NAMES)), st.lists(st.booleans()))
def test_an_old_leader_that_still_writes_splits_no_block(
    nodes: list[Node], waiting: list[Pod], writes: int, sick: set[str], turns: list[bool]
) -> None:
    """One that was stopped for longer than its Lease, and nodes turned sick meanwhile."""
    decision = decide(Topology(nodes), waiting, NOW)
    done = min(writes, writes_of(decision))
    world = {pod.uid: pod for pod in carry_out(waiting, decision, writes=done)}
    after = Topology(replace(value, ready=value.ready and value.name not in sick) for value in nodes)
    leaders = [writes_to(decision)[done:], writes_to(decide(after, world.values(), NOW))]
    late: set[tuple[bool, JobKey]] = set()
    for turn in [*turns, *(len(leaders[0]) * [False]), *(len(leaders[1]) * [True])]:
        if not leaders[turn]:
            continue
        pod, unit, plan, is_open = leaders[turn].pop(0)
        now = world[pod.uid]
        if not is_open and now.admitted_at:
            late.add((turn, pod.key))
        # What else the API server refuses does not end an admission: of several writes some are under way.
        if (turn, pod.key) in late or not now.gated or (unit and now.admitted_at and now.pin != unit):
            continue
        now = pinned(now, pod.place.unit, unit, NOW, plan) if unit and pod.place else now
        world[pod.uid] = admitted(now) if is_open else now
    for one_job in jobs(world.values()):
        for block in one_job.blocks.values():
            assert len({pod.pin for pod in block} - {None}) <= 1


@examples(50)
@given(clusters(), tenants(), queues(), st.lists(st.sampled_from(NAMES), max_size=4), st.integers(0, 60))
def test_sick_nodes_stop_no_running_pod_and_no_job_holds_a_part_for_long(
    nodes: list[Node], there: list[Pod], waiting: list[Pod], sick: list[str], writes: int
) -> None:
    decision = decide(Topology(nodes), there + waiting, NOW)
    pods = carry_out(there + waiting, decision, writes=writes % (writes_of(decision) + 1))
    topology = Topology(replace(value, ready=value.ready and value.name not in sick) for value in nodes)
    memory = None
    for passed in (0 * SECOND, MINUTE, HOUR):
        later = decide(topology, pods, NOW + passed, memory=memory)
        assert not any(pod.started for deletion in later.deletions for pod in deletion.pods)
        assert not any(
            member.pod.started for admission in later.admissions for member in admission.job.unpinned_workers
        )
        pods, memory = carry_out(pods, later, NOW + passed), later.memory
    assert not any(admission.job.was_admitted for admission in later.admissions)
    new = {admission.job.key for admission in later.admissions}  # on what was given back
    for one_job in jobs(pods):
        if one_job.key in new:
            continue
        running = any(member.pod.started for member in one_job.workers)
        assert running or one_job.is_settled or not any(member.pod.admitted_at for member in one_job.workers)

"""A leader that ends after any of its writes leaves a state that the next one finishes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from contract.keys import SERVER_4
from placement.decide import decide
from placement.jobs import jobs_of
from placement.model import Ended
from placement.topology import Topology
from tests.placement.world import (
    NOW,
    bound,
    carry_out,
    foreign,
    job,
    on,
    opened,
    pinned,
    placed,
    servers,
    waiting,
    writes_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from placement.model import Pod

NODES = servers(5)
TOPOLOGY = Topology(NODES.values())
TENANT = foreign("x", "n5-0")

WORLDS = {
    "one job": job("a", 4, launcher=True),
    "jobs of all sizes": [
        *job("a", 8, launcher=True),
        *job("b", 2, launcher=True),
        *job("c", 1, launcher=True),
        *job("d", 3),
        *job("e", 4),
    ],
    "more than fit": [*job("a", 8), *job("b", 16), *job("c", 4), *job("d", 8)],
    "a worker that comes back": [
        *bound(job("a", 8), on(NODES, *(f"n{s}-{i}" for s in (1, 2) for i in range(4))), started=True)[:6],
        *job("a", 8)[6:],
        *job("b", 4),
    ],
}


def check(pods: Iterable[Pod]) -> None:
    """What holds after every write: no worker is let through before all have their unit, and none has two."""
    tenants = defaultdict(set)
    for found in jobs_of(pods):
        if any(not pod.gated and not pod.node for pod in found.workers):
            assert all(pod.pin or pod.node for pod in found.workers)
        for block, workers in found.blocks.items():
            units = {pod.pin for pod in workers if pod.pin}
            assert len(units) <= 1
            for unit in units:
                tenants[unit].add((found.key, block))
    assert all(len(found) == 1 for found in tenants.values())


@pytest.mark.parametrize("world", WORLDS)
def test_the_next_leader_finishes_what_was_begun_after_any_write(world: str) -> None:
    pods = [*WORLDS[world], TENANT]
    whole = decide(TOPOLOGY, pods, NOW)
    uninterrupted = carry_out(pods, whole)
    check(uninterrupted)
    assert writes_of(whole) > 0
    for writes in range(writes_of(whole)):
        left = carry_out(pods, whole, writes=writes)
        check(left)
        after = carry_out(left, decide(TOPOLOGY, left, NOW))
        assert {pod.uid: (pod.pin, pod.gates) for pod in after} == {
            pod.uid: (pod.pin, pod.gates) for pod in uninterrupted
        }


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_carried_out_leaves_nothing_to_do(world: str) -> None:
    pods = [*WORLDS[world], TENANT]
    after = carry_out(pods, decide(TOPOLOGY, pods, NOW))
    again = decide(TOPOLOGY, after, NOW)
    assert not again.openings
    assert not again.deletions


def test_a_second_leader_with_the_same_view_decides_the_same() -> None:
    pods = [*WORLDS["jobs of all sizes"], TENANT]
    assert placed(decide(TOPOLOGY, pods, NOW)) == placed(decide(TOPOLOGY, reversed(pods), NOW))


def test_a_job_that_was_begun_is_finished_before_an_older_and_more_important_one() -> None:
    nodes = servers(2)
    begun = job("a", 8)
    begun[0] = pinned(begun[0], SERVER_4, "us-01")
    pods = [*begun, *job("b", 8, priority=9)]
    assert placed(decide(Topology(nodes.values()), pods, NOW)) == {"a": "us-01 us-02"}


def test_a_worker_deleted_in_the_middle_of_an_opening_comes_back_into_its_block() -> None:
    nodes = servers(2)
    pods = [opened(pinned(pod, SERVER_4, "us-02")) for pod in job("a", 4)]
    without = decide(Topology(nodes.values()), pods[1:], NOW)
    assert not without.openings
    anew = replace(job("a", 4)[0], uid="another")
    assert placed(decide(Topology(nodes.values()), [anew, *pods[1:]], NOW)) == {"a": "us-02"}


@pytest.mark.parametrize(("running", "onto"), [((2, 3), "us-02"), ((), "us-01")])
def test_a_worker_that_failed_comes_back_although_others_have_ended(
    running: tuple[int, ...], onto: str
) -> None:
    """A Job replaces what failed and not what succeeded, so its pods are never all there again."""
    pods = job("a", 8, age=timedelta(minutes=2))
    there = bound(
        [pods[number] for number in running], on(NODES, *(f"n2-{number}" for number in running)), started=True
    )
    ended = [Ended(pods[0].key, number) for number in range(1, 8) if number not in running]
    assert placed(decide(TOPOLOGY, [pods[0], *there, *ended], NOW)) == {"a": onto}
    assert waiting(decide(TOPOLOGY, [pods[0], *there, *ended[1:]], NOW)) == {"a": "7 of 8 workers exist"}
    of_another = ended[0]._replace(number=8)
    assert waiting(decide(TOPOLOGY, [pods[0], *there, of_another, *ended[1:]], NOW))


def test_of_a_job_that_is_made_anew_the_first_pod_waits_for_those_whose_last_is_still_there() -> None:
    """All failed, or the job was deleted and created: its pods come one by one, after those from before."""
    pods = job("a", 8, age=timedelta(seconds=119))
    ended = [Ended(pods[0].key, number) for number in range(8)]
    assert waiting(decide(TOPOLOGY, [*pods[:4], *ended], NOW)) == {"a": "4 of 8 workers exist"}
    assert placed(decide(TOPOLOGY, [*pods, *ended], NOW)) == {"a": "us-01 us-02"}
    # For good they do not wait: one of a Job may have failed for the last time.
    assert placed(decide(TOPOLOGY, [*pods[:4], *ended], NOW + timedelta(seconds=1))) == {"a": "us-01"}

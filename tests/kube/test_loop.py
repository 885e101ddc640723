"""Tests of the loop: which replica runs passes, when the passes run, and how the loop ends."""

import heapq
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest

from kube.api import leases_path
from kube.backoff import JITTER
from kube.election import Elector
from kube.loop import MIN_SECONDS, Loop
from tests.kube.fake import FakeApi

NAMESPACE = "hooks"
LEASE = f"{leases_path(NAMESPACE)}/lease"
RENEW_SECONDS = 10
"""The seconds between two renewals of a Lease of 30 seconds, without jitter."""


@dataclass
class SimulatedLoop:
    """A loop with a simulated clock, which jumps to the end of each wait or to the next scheduled action.

    Attributes:
        next_pass: The seconds until the next pass, which each pass returns.
        passes: The time of each pass.
        elections: The time of each election, and whether this replica leads.
        able: Whether the program can work.
    """

    api: FakeApi = field(default_factory=FakeApi)
    next_pass: float = 60.0
    duration: int = 3 * RENEW_SECONDS
    now: float = 0.0
    passes: list[float] = field(default_factory=list)
    elections: list[tuple[float, bool]] = field(default_factory=list)
    able: bool = True

    def __post_init__(self) -> None:
        """Creates the loop."""
        elector = Elector(self.api, NAMESPACE, "lease", "one", self.duration, {}, lambda: self.now)
        self.loop = Loop(
            elector,
            self.work,
            lambda leads: self.elections.append((self.now, leads)),
            self.wait,
            lambda: self.able,
        )
        self._actions: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def work(self) -> float:
        """Records a pass, and returns the seconds until the next pass."""
        self.passes.append(self.now)
        return self.next_pass

    def schedule(self, seconds: float, action: Callable[[], object]) -> None:
        """Schedules an action at a time."""
        heapq.heappush(self._actions, (seconds, next(self._numbers), action))

    def run(self, seconds: float) -> None:
        """Runs the loop for a number of seconds."""
        self.schedule(seconds, self.loop.stop)
        self.loop.run()

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        """Moves the clock, runs the actions that are due, and returns whether the event is set."""
        end = self.now + seconds
        while not signal.is_set() and self._actions and self._actions[0][0] <= end:
            at, _, action = heapq.heappop(self._actions)
            self.now = max(self.now, at)
            action()
        self.now = self.now if signal.is_set() else end
        return signal.is_set()

    def give_lease(self, holder: str) -> None:
        """Gives the Lease to another holder, as an administrator can."""
        lease = self.api.objects.get(LEASE, {"metadata": {"name": "lease"}})
        self.api.put(LEASE, {**lease, "spec": {"holderIdentity": holder}})


@pytest.mark.parametrize(("next_pass", "pause"), [(0.0, MIN_SECONDS), (7.0, 7.0)])
def test_a_leader_runs_a_pass_at_once_and_then_after_each_interval(next_pass: float, pause: float) -> None:
    simulation = SimulatedLoop(next_pass=next_pass)
    simulation.run(99.5 * pause)
    assert simulation.passes == pytest.approx([pause * number for number in range(100)])


def test_a_wake_begins_a_pass_but_does_not_renew_the_lease() -> None:
    simulation = SimulatedLoop(duration=600)
    for at in (5, 6, 50):
        simulation.schedule(at, simulation.loop.wake)
    simulation.run(100)
    assert simulation.passes == [0, 5, 6, 50]
    assert simulation.api.writes == ["POST lease", "PUT lease"]  # acquired and released


def test_many_wakes_keep_the_minimum_time_between_passes() -> None:
    simulation = SimulatedLoop()
    for number in range(100):
        simulation.schedule(number / 100, simulation.loop.wake)
    simulation.run(0.95)
    assert simulation.passes == pytest.approx([MIN_SECONDS * number for number in range(10)])


def test_the_lease_is_renewed_between_passes_that_are_far_apart_and_released_at_the_end() -> None:
    simulation = SimulatedLoop(next_pass=1000)
    simulation.run(100)
    assert simulation.passes == [0]
    *before_end, end = simulation.elections
    assert all(leads for _, leads in before_end)
    gaps = [after - before for (before, _), (after, _) in pairwise(before_end)]
    assert len(gaps) >= 8
    assert all(RENEW_SECONDS * (1 - JITTER) <= gap <= RENEW_SECONDS * (1 + JITTER) for gap in gaps)
    assert simulation.api.writes == ["POST lease", *["PUT lease"] * (len(gaps) + 1)]
    assert end == (100, False)
    assert simulation.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_a_follower_runs_no_pass_and_leads_when_the_lease_is_free(caplog: pytest.LogCaptureFixture) -> None:
    simulation = SimulatedLoop(duration=30)
    simulation.give_lease("other")
    simulation.schedule(3, simulation.loop.wake)
    simulation.schedule(20, lambda: simulation.give_lease(""))
    with caplog.at_level(logging.INFO, "kube"):
        simulation.run(60)
    assert 20 < simulation.passes[0] <= 20 + RENEW_SECONDS * (1 + JITTER)
    assert caplog.messages == ["became leader"]


def test_a_replica_that_loses_the_lease_runs_no_pass_until_it_has_the_lease_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = SimulatedLoop()
    simulation.schedule(15, lambda: simulation.give_lease("other"))
    simulation.schedule(40, lambda: simulation.give_lease(""))
    with caplog.at_level(logging.INFO, "kube"):
        simulation.run(55)
    first, second = simulation.passes
    assert first == 0
    assert 40 < second <= 40 + RENEW_SECONDS * (1 + JITTER)
    assert caplog.messages == ["became leader", "no longer leader", "became leader"]


def test_a_program_that_cannot_work_releases_the_lease_and_works_as_soon_as_it_can() -> None:
    simulation = SimulatedLoop(able=False, next_pass=1000)
    simulation.schedule(3.5, lambda: setattr(simulation, "able", True))
    simulation.schedule(60, lambda: setattr(simulation, "able", False))
    simulation.run(60 + RENEW_SECONDS * (1 + JITTER))
    assert simulation.passes == [4]
    assert simulation.api.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert not simulation.elections[-1][1]


def test_a_pass_that_raises_an_error_ends_the_loop_and_releases_the_lease() -> None:
    def raise_error() -> float:
        raise LookupError

    simulation = SimulatedLoop()
    simulation.loop.work = raise_error
    with pytest.raises(LookupError):
        simulation.run(60)
    assert simulation.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_without_rights_on_leases_no_pass_runs_and_the_log_has_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = SimulatedLoop(FakeApi(refuse="leases"))
    simulation.run(30)
    assert simulation.passes == []
    assert len(simulation.elections) >= 3
    assert not any(leads for _, leads in simulation.elections)
    assert "cannot acquire or renew the Lease" in caplog.text


def test_a_lease_that_cannot_be_released_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    simulation = SimulatedLoop()
    simulation.schedule(1, lambda: setattr(simulation.api, "refuse", "leases"))
    simulation.run(2)
    assert "was not released" in caplog.text
    assert simulation.elections[-1] == (2, False)

"""The loop: who does the work, when, and how it ends."""

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
RENEWED = 10
"""Seconds between two tries to hold a Lease of 30, about."""


@dataclass
class Running:
    """A loop whose clock jumps to the end of each wait, or to what happens before.

    Attributes:
        next_pass: What each pass says: seconds until the next one.
        passes: When there was one.
        led: When there was an election, and whether it was won.
        able: Whether it could do the work.
    """

    api: FakeApi = field(default_factory=FakeApi)
    next_pass: float = 60.0
    duration: int = 3 * RENEWED
    now: float = 0.0
    passes: list[float] = field(default_factory=list)
    led: list[tuple[float, bool]] = field(default_factory=list)
    able: bool = True

    def __post_init__(self) -> None:
        """Makes the loop."""
        elector = Elector(self.api, NAMESPACE, "lease", "one", self.duration, {}, lambda: self.now)
        self.loop = Loop(
            elector, self.work, lambda leads: self.led.append((self.now, leads)), self.wait, lambda: self.able
        )
        self._happens: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def work(self) -> float:
        """Returns a pass."""
        self.passes.append(self.now)
        return self.next_pass

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        """Has something happen then."""
        heapq.heappush(self._happens, (seconds, next(self._numbers), what))

    def run(self, seconds: float) -> None:
        """Runs for so long."""
        self.at(seconds, self.loop.stop)
        self.loop.run()

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        """Returns waits."""
        end = self.now + seconds
        while not signal.is_set() and self._happens and self._happens[0][0] <= end:
            at, _, what = heapq.heappop(self._happens)
            self.now = max(self.now, at)
            what()
        self.now = self.now if signal.is_set() else end
        return signal.is_set()

    def hold(self, who: str) -> None:
        """Gives the Lease to another holder, as an administrator may."""
        lease = self.api.objects.get(LEASE, {"metadata": {"name": "lease"}})
        self.api.put(LEASE, {**lease, "spec": {"holderIdentity": who}})


@pytest.mark.parametrize(("next_pass", "pause"), [(0.0, MIN_SECONDS), (7.0, 7.0)])
def test_a_leader_works_at_once_and_then_when_it_is_time(next_pass: float, pause: float) -> None:
    running = Running(next_pass=next_pass)
    running.run(99.5 * pause)
    assert running.passes == pytest.approx([pause * number for number in range(100)])


def test_it_can_be_woken_and_renews_no_more_often_for_it() -> None:
    running = Running(duration=600)
    for at in (5, 6, 50):
        running.at(at, running.loop.wake)
    running.run(100)
    assert running.passes == [0, 5, 6, 50]
    assert running.api.writes == ["POST lease", "PUT lease"]  # taken and given back


def test_passes_keep_their_distance_after_many_wakes() -> None:
    running = Running()
    for number in range(100):
        running.at(number / 100, running.loop.wake)
    running.run(0.95)
    assert running.passes == pytest.approx([MIN_SECONDS * number for number in range(10)])


def test_it_keeps_the_lease_between_passes_that_are_far_apart_and_gives_it_back_at_the_end() -> None:
    running = Running(next_pass=1000)
    running.run(100)
    assert running.passes == [0]
    *elections, end = running.led
    assert all(leads for _, leads in elections)
    gaps = [after - before for (before, _), (after, _) in pairwise(elections)]
    assert len(gaps) >= 8
    assert all(RENEWED * (1 - JITTER) <= gap <= RENEWED * (1 + JITTER) for gap in gaps)
    assert running.api.writes == ["POST lease", *["PUT lease"] * (len(gaps) + 1)]
    assert end == (100, False)
    assert running.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_a_follower_does_nothing_and_follows_when_the_lease_is_free(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(duration=30)
    running.hold("other")
    running.at(3, running.loop.wake)
    running.at(20, lambda: running.hold(""))
    with caplog.at_level(logging.INFO, "kube"):
        running.run(60)
    assert 20 < running.passes[0] <= 20 + RENEWED * (1 + JITTER)
    assert caplog.messages == ["became leader"]


def test_who_loses_the_lease_stops_and_works_at_once_when_it_has_it_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = Running()
    running.at(15, lambda: running.hold("other"))
    running.at(40, lambda: running.hold(""))
    with caplog.at_level(logging.INFO, "kube"):
        running.run(55)
    first, second = running.passes
    assert first == 0
    assert 40 < second <= 40 + RENEWED * (1 + JITTER)
    assert caplog.messages == ["became leader", "no longer leader", "became leader"]


def test_who_cannot_do_the_work_leaves_the_lease_to_another_and_works_as_soon_as_it_can() -> None:
    running = Running(able=False, next_pass=1000)
    running.at(3.5, lambda: setattr(running, "able", True))
    running.at(60, lambda: setattr(running, "able", False))
    running.run(60 + RENEWED * (1 + JITTER))
    assert running.passes == [4]
    assert running.api.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert not running.led[-1][1]


def test_a_pass_that_raises_ends_the_program_and_leaves_the_lease_to_another() -> None:
    def mistake() -> float:
        raise LookupError

    running = Running()
    running.loop.work = mistake
    with pytest.raises(LookupError):
        running.run(60)
    assert running.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_without_the_lease_nothing_is_done_and_the_log_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(FakeApi(refuse="leases"))
    running.run(30)
    assert running.passes == []
    assert len(running.led) >= 3
    assert not any(leads for _, leads in running.led)
    assert "cannot acquire or renew the Lease" in caplog.text


def test_a_lease_that_cannot_be_released_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    running = Running()
    running.at(1, lambda: setattr(running.api, "refuse", "leases"))
    running.run(2)
    assert "was not released" in caplog.text
    assert running.led[-1] == (2, False)

"""The loop: who does the work, when, and how it ends."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kube.api import leases
from kube.election import Elector
from kube.loop import LEAST_SECONDS, Loop
from tests.kube.fake import Clock, FakeApi, InThread
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "hooks"
LEASE = f"{leases(NAMESPACE)}/lease"


@dataclass
class Running(InThread):
    """A loop in a thread, and when it did passes."""

    api: FakeApi = field(default_factory=FakeApi)
    wait: float = 60.0
    duration: int = 1
    passes: list[float] = field(default_factory=list)
    led: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Starts it."""
        elector = Elector(self.api, NAMESPACE, "lease", "one", self.duration, Clock(), time.monotonic)
        self.run_in_thread(Loop(elector, self.work, self.led.append))

    def work(self) -> float:
        """A pass."""
        self.passes.append(time.monotonic())
        return self.wait


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.end()


def test_a_leader_works_at_once_and_then_when_it_is_time() -> None:
    running = Running(wait=0.0)
    until(lambda: len(running.passes) >= 3)
    running.end()
    assert running.led[0]
    pauses = [after - before for before, after in zip(running.passes, running.passes[1:], strict=False)]
    assert min(pauses) >= LEAST_SECONDS


def test_it_can_be_woken_and_renews_no_more_often_for_it() -> None:
    running = Running(duration=600)
    until(lambda: running.passes)
    for number in range(2, 5):
        running.loop.wake()
        until(lambda number=number: len(running.passes) == number)
    assert running.api.writes == ["POST lease"]
    running.end()


def test_however_often_it_is_woken_passes_keep_their_distance(running: Running) -> None:
    until(lambda: running.passes)
    while len(running.passes) < 4:
        running.loop.wake()
    pauses = [after - before for before, after in zip(running.passes, running.passes[1:], strict=False)]
    assert min(pauses) >= LEAST_SECONDS


def test_it_keeps_the_lease_between_passes_that_are_far_apart(running: Running) -> None:
    until(lambda: len([write for write in running.api.writes if "lease" in write]) >= 3)
    assert len(running.passes) == 1
    assert all(running.led)


def test_the_lease_is_given_back_at_the_end(running: Running) -> None:
    until(lambda: running.passes)
    running.end()
    assert running.api.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert running.led[-1] is False


def test_a_follower_does_nothing_and_follows_when_the_lease_is_free(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi()
    api.put(LEASE, {"metadata": {"name": "lease"}, "spec": {"holderIdentity": "other"}})
    with caplog.at_level(logging.INFO, "kube"):
        running = Running(api)
        time.sleep(0.2)
        assert running.passes == []
        api.objects[LEASE]["spec"]["holderIdentity"] = ""
        until(lambda: running.passes)
        running.end()
    assert "became leader" in caplog.text


def test_without_a_lease_to_be_had_nothing_is_done_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(FakeApi(refuse="leases"))
    until(lambda: running.led)
    running.end()
    assert running.passes == []
    assert not any(running.led)
    assert "cannot acquire lease" in caplog.text


def test_a_lease_that_cannot_be_given_back_is_said(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: running.passes)
    running.api.refuse = "leases"
    running.loop.stop()
    running.end()
    assert "was not released" in caplog.text or "cannot acquire lease" in caplog.text

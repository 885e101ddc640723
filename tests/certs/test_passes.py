"""What the loop of passes tells: metrics and log lines."""

from __future__ import annotations

import logging
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from certs.metrics import Metrics
from certs.passes import Passes
from kube.election import Elector
from kube.loop import Loop
from kube.metrics import serve
from tests.certs.fake import NAMESPACE, PROVIDED_SECRET, Clock, FakeApi, installed, rotator
from tests.kube.fake import InThread
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Running(InThread):
    """A loop in a thread."""

    api: FakeApi
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        """Starts it."""
        elector = Elector(self.api, NAMESPACE, "lease", "one", 1, Clock(), time.monotonic)
        passes = Passes(rotator(self.api, Clock()), self.metrics, 0.02)
        self.run_in_thread(Loop(elector, passes, self.metrics.leads))

    def value(self, name: str, **labels: str) -> float | None:
        """A metric."""
        return self.metrics.registry.get_sample_value(f"ultraserver_certs_{name}", labels)

    def until(self, name: str, least: float, **labels: str) -> None:
        """Waits until a metric has come to a value."""
        until(lambda: (self.value(name, **labels) or 0) >= least)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running(installed())
    yield made
    made.end()


def test_a_leader_makes_and_keeps_and_tells(running: Running) -> None:
    running.until("passes_total", 1, result="kept")
    assert running.value("passes_total", result="changed") == 1
    assert running.value("steps_total", step="issue-leaf") == 1
    assert running.value("leader") == 1
    assert running.value("trusted_authorities") == 1
    leaf = running.value("expiry_timestamp_seconds", certificate="leaf")
    authority = running.value("expiry_timestamp_seconds", certificate="authority")
    assert leaf
    assert authority
    assert 0 < leaf < authority
    assert running.value("last_success_timestamp_seconds") == pytest.approx(time.time(), abs=60)


def test_a_failure_is_counted_said_and_got_over(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.until("passes_total", 1, result="kept")
    running.api.refuse = "secrets"
    running.until("passes_total", 1, result="failed")
    kept = running.value("passes_total", result="kept") or 0
    running.api.refuse = ""
    running.until("passes_total", kept + 1, result="kept")
    assert "a pass failed: GET" in caplog.text


def test_a_follower_tells_no_expiry(running: Running) -> None:
    running.until("leader", 1)
    running.until("passes_total", 1, result="kept")
    running.end()
    assert running.value("leader") == 0
    assert running.value("expiry_timestamp_seconds", certificate="leaf") is None


def test_a_provided_certificate_is_told_and_so_is_one_that_cannot_be_served(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.until("passes_total", 1, result="kept")
    assert running.value("provided_certificate") == 0
    running.api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}})
    running.until("provided_certificate_refused", 1)
    assert running.value("provided_certificate") == 0
    # The metric comes before the line.
    running.until("passes_total", (running.value("passes_total", result="kept") or 0) + 1, result="kept")
    assert "the provided certificate is not served: its certificate or key cannot be read" in caplog.text


def test_a_state_is_said_once_and_not_with_every_pass(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "certs"):
        running.until("passes_total", 5, result="kept")
    assert caplog.text.count("all is well") <= 2


def test_metrics_are_served_on_a_port_until_the_end(running: Running) -> None:
    running.until("passes_total", 1, result="kept")
    from tests.cluster.process import free_ports  # noqa: PLC0415

    (port,) = free_ports(1)
    stop = serve(running.metrics.registry, "127.0.0.1", port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    stop()
    assert 'ultraserver_certs_passes_total{result="failed"} 0.0' in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE)

"""Tests of the loop's passes: their metrics, their log lines, and the time of the next pass."""

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from certs import messages
from certs.inputs import Wanted
from certs.metrics import Metrics
from certs.passes import PassRunner
from kube.backoff import JITTER
from tests.certs.fake import PROVIDED_SECRET, WANTED, Clock, FakeApi, create_api, rotator

INTERVAL = 60.0


@dataclass
class Program:
    """A certificate program, its metrics and its API server in memory."""

    wanted: Wanted = WANTED
    api: FakeApi = field(default_factory=create_api)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        """Sets the clock to the present, because the metrics use the real time."""
        self.clock = Clock(datetime.now(UTC))
        self.run = PassRunner(rotator(self.api, self.clock, self.wanted), self.metrics, INTERVAL)

    def value(self, name: str, **labels: str) -> float | None:
        """Returns the value of a metric."""
        return self.metrics.registry.get_sample_value(f"ultraserver_certs_{name}", labels)


@pytest.fixture
def program() -> Program:
    return Program()


def test_the_first_pass_issues_a_leaf_and_later_passes_keep_it(program: Program) -> None:
    for _ in range(3):
        assert INTERVAL * (1 - JITTER) <= program.run() <= INTERVAL * (1 + JITTER)
    assert program.value("passes_total", result="changed") == 1
    assert program.value("passes_total", result="kept") == 2
    assert program.value("steps_total", step="issue-leaf") == 1
    assert program.value("trusted_authorities") == 1
    leaf = program.value("expiry_timestamp_seconds", certificate="leaf")
    authority = program.value("expiry_timestamp_seconds", certificate="authority")
    assert leaf
    assert authority
    assert 0 < leaf < authority
    assert program.value("last_success_timestamp_seconds") == pytest.approx(time.time(), abs=60)


def test_the_next_pass_runs_when_a_step_is_due_before_the_interval_ends() -> None:
    program = Program(Wanted(WANTED.names, settle=timedelta(seconds=20)))
    program.run()
    program.run.rotator.run(replace_authority=True)
    assert 0 < program.run() <= 20


def test_a_failure_is_counted_and_logged_and_the_program_continues(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    program.run()
    program.api.refuse = "secrets"
    assert INTERVAL * (1 - JITTER) <= program.run() <= INTERVAL * (1 + JITTER)
    assert program.value("passes_total", result="failed") == 1
    program.api.refuse = ""
    program.run()
    assert program.value("passes_total", result="kept") == 1
    assert "a pass failed: GET" in caplog.text


def test_a_provided_certificate_that_cannot_be_served_is_in_the_metrics_and_the_log(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    program.run()
    assert program.value("provided_certificate") == 0
    program.api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}})
    program.run()
    assert program.value("provided_certificate_refused") == 1
    assert program.value("provided_certificate") == 0
    assert "the provided certificate is not served: its certificate or key cannot be read" in caplog.text


def test_an_unchanged_result_is_logged_once(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "certs"):
        for _ in range(5):
            program.run()
    assert caplog.text.count(messages.NOTHING_TO_DO) == 1


def test_the_counters_of_passes_start_at_zero(program: Program) -> None:
    assert [program.value("passes_total", result=result) for result in ("kept", "changed", "failed")] == [
        0,
        0,
        0,
    ]

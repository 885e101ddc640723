"""Tests of the metrics about files, policies and rules."""

import re
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from certs import development
from tests.rules.tables import EXTENDS
from webhook.compose import load_changed
from webhook.engine.outcome import Summary
from webhook.metrics import Metrics
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState


class MeasuredState:
    """The metrics of a server state whose files a test changes."""

    def __init__(self, folder: Path) -> None:
        development.make(folder, ["localhost"], datetime.now(UTC))
        self.rules, self.key = folder / "rules.yaml", folder / "tls.key"
        self.rules.write_text(EXTENDS)
        self.state = CurrentState(TableSource(self.rules), TlsFiles(folder / "tls.crt", self.key))
        self.metrics = Metrics(self.state)

    def value(self, name: str) -> float:
        """Reads the files again, and returns the value of a sample."""
        self.state.refresh(partial(load_changed, self.state.tables.work))
        text = generate_latest(self.metrics.registry).decode()
        result = re.search(rf"^ultraserver_webhook_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert result, f"{name} is not in\n{text}"
        return float(result[1])


@pytest.fixture
def measured_state(tmp_path: Path) -> MeasuredState:
    return MeasuredState(tmp_path)


def reloads_sample(file: str, result: str) -> str:
    return f'reloads_total{{file="{file}",result="{result}"}}'


def test_reloads_are_counted_by_file_and_result(measured_state: MeasuredState) -> None:
    assert measured_state.value(reloads_sample("table", "reloaded")) == 0
    measured_state.rules.write_text(EXTENDS + "mode: shadow\n")
    assert measured_state.value(reloads_sample("table", "reloaded")) == 1
    measured_state.rules.write_text("nonsense")
    assert [measured_state.value(reloads_sample("table", "refused")) for _ in range(2)] == [1, 1]
    assert measured_state.value(reloads_sample("certificate", "refused")) == 0


def test_a_certificate_in_use_is_stale_if_its_changed_files_are_unusable(
    measured_state: MeasuredState,
) -> None:
    assert (measured_state.value("table_stale"), measured_state.value("certificate_stale")) == (0, 0)
    measured_state.key.write_text("no key")
    assert (measured_state.value("table_stale"), measured_state.value("certificate_stale")) == (0, 1)


def test_the_expiry_of_the_certificate_is_a_time_stamp(measured_state: MeasuredState) -> None:
    ends = measured_state.state.tls.expires
    assert (
        measured_state.value("certificate_expiry_timestamp_seconds")
        == ends.timestamp()
        > datetime.now(UTC).timestamp()
    )


def test_policies_that_ended_are_counted_and_the_next_end_is_a_time_stamp(
    measured_state: MeasuredState,
) -> None:
    ends = ("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2998-01-01T00:00:00Z")
    rows = "".join(
        f"  - {{namespaces: n{index}, mode: shadow, reason: r, until: {end}}}\n"
        for index, end in enumerate(ends)
    )
    assert measured_state.value("policies_ended") == 0
    assert measured_state.value("policy_until_timestamp_seconds") == inf
    measured_state.rules.write_text(EXTENDS + "policies:\n" + rows)
    assert measured_state.value("policies_ended") == 2
    assert (
        measured_state.value("policy_until_timestamp_seconds") == datetime(2998, 1, 1, tzinfo=UTC).timestamp()
    )


@pytest.mark.parametrize(("endpoint", "counted"), [("mutate", 1), ("launcher", 1), ("verify", 0)])
def test_rules_are_counted_at_endpoints_that_change_objects(
    measured_state: MeasuredState, endpoint: str, counted: int
) -> None:
    shadow = Summary("allowed", ("shadowed",))
    measured_state.metrics.count_answer(endpoint, 200, Summary("allowed", ("hostfile",)), shadow)
    text = generate_latest(measured_state.metrics.registry).decode()
    assert text.count('rules_fired_total{rule="hostfile"} 1.0') == counted
    assert text.count('rule="shadowed",state="fired"} 1.0') == counted

"""The metrics about the files in use."""

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


class Measured:
    """The metrics of a state whose files the tests change."""

    def __init__(self, folder: Path) -> None:
        development.make(folder, ["localhost"], datetime.now(UTC))
        self.rules, self.key = folder / "rules.yaml", folder / "tls.key"
        self.rules.write_text(EXTENDS)
        self.state = CurrentState(TableSource(self.rules), TlsFiles(folder / "tls.crt", self.key))
        self.metrics = Metrics(self.state)

    def value(self, name: str) -> float:
        """Returns those of a sample, after a look at the files."""
        self.state.refresh(partial(load_changed, self.state.tables.work))
        text = generate_latest(self.metrics.registry).decode()
        result = re.search(rf"^ultraserver_webhook_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert result, f"{name} is not in\n{text}"
        return float(result[1])


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return Measured(tmp_path)


def reloads(file: str, result: str) -> str:
    return f'reloads_total{{file="{file}",result="{result}"}}'


def test_reloads_are_counted_by_file_and_result(measured: Measured) -> None:
    assert measured.value(reloads("table", "reloaded")) == 0
    measured.rules.write_text(EXTENDS + "mode: shadow\n")
    assert measured.value(reloads("table", "reloaded")) == 1
    measured.rules.write_text("nonsense")
    assert [measured.value(reloads("table", "refused")) for _ in range(2)] == [1, 1]
    assert measured.value(reloads("certificate", "refused")) == 0


def test_files_that_cannot_be_used_make_what_is_in_use_stale(measured: Measured) -> None:
    assert (measured.value("table_stale"), measured.value("certificate_stale")) == (0, 0)
    measured.key.write_text("no key")
    assert (measured.value("table_stale"), measured.value("certificate_stale")) == (0, 1)


def test_the_end_of_the_certificate_is_a_time_stamp(measured: Measured) -> None:
    ends = measured.state.tls.expires
    assert (
        measured.value("certificate_expiry_timestamp_seconds")
        == ends.timestamp()
        > datetime.now(UTC).timestamp()
    )


def test_policies_that_ended_are_counted_and_the_next_end_is_a_time_stamp(measured: Measured) -> None:
    ends = ("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2998-01-01T00:00:00Z")
    rows = "".join(
        f"  - {{namespaces: n{index}, mode: shadow, reason: r, until: {end}}}\n"
        for index, end in enumerate(ends)
    )
    assert measured.value("policies_ended") == 0
    assert measured.value("policy_until_timestamp_seconds") == inf
    measured.rules.write_text(EXTENDS + "policies:\n" + rows)
    assert measured.value("policies_ended") == 2
    assert measured.value("policy_until_timestamp_seconds") == datetime(2998, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("endpoint", "counted"), [("mutate", 1), ("launcher", 1), ("verify", 0)])
def test_rules_are_counted_where_they_change_something(
    measured: Measured, endpoint: str, counted: int
) -> None:
    would = Summary("allowed", ("shadowed",))
    measured.metrics.count_answer(endpoint, 200, Summary("allowed", ("hostfile",)), would)
    text = generate_latest(measured.metrics.registry).decode()
    assert text.count('rules_fired_total{rule="hostfile"} 1.0') == counted
    assert text.count('rule="shadowed",state="fired"} 1.0') == counted

"""Tests of the messages of ``make demo`` about Pods and failures. CI runs the whole demo."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.keys import GATE
from testbed.nodes import demo


def time_out(_: Path) -> bool:
    raise AssertionError("not within 90 s")


@pytest.mark.parametrize(
    ("run_demo", "message"),
    [
        (time_out, "the demo failed: not within 90 s\n"),
        (lambda _: False, "the demo failed: the job did not succeed"),
    ],
    ids=["timeout", "failed job"],
)
def test_a_failed_demo_reports_the_failure(
    run_demo: Callable[[Path], bool],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "_run_demo", run_demo)
    monkeypatch.setattr(demo, "end_on_signals", lambda: None)
    assert demo.main() == 1
    assert capsys.readouterr().err.startswith(message)


GATED = {"schedulingGates": [{"name": GATE}]}
ENDED, RUNS = {"state": {"terminated": {}}}, {"state": {"running": {}}}


@pytest.mark.parametrize(
    ("spec", "phase", "init_statuses", "text"),
    [
        (GATED, "Pending", [], "waits until there is a node for every worker"),
        ({}, "Pending", [], "Pending"),
        ({}, "Pending", [ENDED, RUNS], "Pending, 1 of 2 init containers have ended"),
        ({}, "Running", [ENDED], "Running"),
    ],
)
def test_the_state_of_a_pod_follows_from_gate_phase_and_init_containers(
    spec: dict[str, Any], phase: str, init_statuses: list[dict[str, Any]], text: str
) -> None:
    assert (
        demo.state_text({"spec": spec, "status": {"phase": phase, "initContainerStatuses": init_statuses}})
        == text
    )

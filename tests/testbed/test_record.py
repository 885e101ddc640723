"""Tests that a release needs the record of a complete soak of its commit, in which all tests passed."""

from pathlib import Path
from typing import Any

import pytest

from testbed.release import record
from testbed.release.record import Record
from testbed.release.source import ReleaseError

COMMIT = "0123456789abcdef" * 2


def round_of(phase: str, **changes: Any) -> dict[str, Any]:
    """Returns a round of a phase, in which all tests passed."""
    return {"phase": phase, "command": f"run {phase}", "passed": True, "figures": {}} | changes


@pytest.fixture
def complete_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A record that is enough for a release."""
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    rounds = {"plane": 1, "seeds": 2}
    return Record(
        COMMIT,
        "2026-11-22",
        "two",
        clean=True,
        part=False,
        rounds=rounds,
        ran=[round_of(phase) for phase in ("plane", "seeds", "seeds")],
    )


def test_a_complete_record_is_enough_for_a_release(complete_record: Record) -> None:
    complete_record.write()
    assert record.record_of(COMMIT) == complete_record


def test_a_release_needs_a_record_of_its_commit(complete_record: Record) -> None:
    complete_record.part = True
    complete_record.write()
    with pytest.raises(ReleaseError, match="there is no soak record of commit 0123456789ab"):
        record.record_of(COMMIT)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clean": False}, "the checkout had changes"),
        ({"ran": [round_of("plane"), round_of("seeds")]}, "not run, or not to the end: seeds"),
        (
            {"ran": [round_of("plane", passed=False), round_of("seeds"), round_of("seeds")]},
            "failed: run plane",
        ),
        (
            {
                "ran": [
                    round_of("plane", figures={"skipped": ["test_a"]}),
                    round_of("seeds"),
                    round_of("seeds"),
                ]
            },
            "skipped: test_a",
        ),
    ],
    ids=["dirty", "missing-round", "failed", "skipped"],
)
def test_an_insufficient_record_is_refused(
    complete_record: Record, changes: dict[str, Any], reason: str
) -> None:
    for name, value in changes.items():
        setattr(complete_record, name, value)
    complete_record.write()
    with pytest.raises(ReleaseError, match=reason):
        record.record_of(COMMIT)

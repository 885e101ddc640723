"""A release leans on the record of a soak that was whole and clean, and in which all passed."""

from pathlib import Path
from typing import Any

import pytest

from testbed.release import record
from testbed.release.record import Record
from testbed.release.source import ReleaseError

COMMIT = "0123456789abcdef" * 2


def ran(phase: str, **changes: Any) -> dict[str, Any]:
    """Returns a round of a phase that passed."""
    return {"phase": phase, "command": f"run {phase}", "passed": True, "figures": {}} | changes


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A record on which a release may lean."""
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    rounds = {"plane": 1, "seeds": 2}
    return Record(
        COMMIT,
        "2026-11-22",
        "two",
        clean=True,
        part=False,
        rounds=rounds,
        ran=[ran(x) for x in ("plane", "seeds", "seeds")],
    )


def test_a_release_leans_on_a_whole_record(kept: Record) -> None:
    kept.write()
    assert record.record_of(COMMIT) == kept


def test_no_release_without_a_record_of_its_commit(kept: Record) -> None:
    kept.part = True
    kept.write()
    with pytest.raises(ReleaseError, match="there is no soak record of commit 0123456789ab"):
        record.record_of(COMMIT)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"clean": False}, "the checkout had changes"),
        ({"ran": [ran("plane"), ran("seeds")]}, "not run, or not to the end: seeds"),
        ({"ran": [ran("plane", passed=False), ran("seeds"), ran("seeds")]}, "failed: run plane"),
        (
            {"ran": [ran("plane", figures={"skipped": ["test_a"]}), ran("seeds"), ran("seeds")]},
            "skipped: test_a",
        ),
    ],
    ids=["dirty", "a-round-less", "failed", "skipped"],
)
def test_no_release_leans_on_less(kept: Record, changes: dict[str, Any], why: str) -> None:
    for name, value in changes.items():
        setattr(kept, name, value)
    kept.write()
    with pytest.raises(ReleaseError, match=why):
        record.record_of(COMMIT)

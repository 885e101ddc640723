"""Reads and writes the record of a soak: the commit, the time and the results."""

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.release import source

FOLDER = source.REPOSITORY / "dist" / "soak"


@dataclass
class Record:
    """The results of a soak.

    Attributes:
        commit: The commit that was tested.
        began: The start time, in UTC, ISO 8601.
        machine: The processors, Python and kernel.
        clean: Whether the checkout had no changes to the commit during the whole soak.
        part: Whether phases were left out on purpose. The record then has another file name.
        rounds: The number of rounds that each phase needs, by the phase's name.
        ran: The finished rounds. Each has the phase, the command, the seconds, the result and figures.
    """

    commit: str
    began: str
    machine: str
    clean: bool
    part: bool
    rounds: dict[str, int]
    ran: list[dict[str, Any]] = field(default_factory=list)

    def path(self) -> Path:
        """Returns the path of the record."""
        return FOLDER / f"{self.commit}{'-part' if self.part else ''}.json"

    def write(self) -> None:
        """Writes the record with the rounds that have finished so far."""
        self.path().write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    def why_insufficient(self) -> str:
        """Returns why the record is not sufficient for a release; empty if it is."""
        if not self.clean:
            return "the checkout had changes that are not committed"
        counts = Counter(run["phase"] for run in self.ran)
        if missing_phases := [name for name, rounds in self.rounds.items() if counts[name] < rounds]:
            return f"not run, or not to the end: {', '.join(missing_phases)}"
        failed = [run["command"] for run in self.ran if not run["passed"]]
        if failed:
            return f"failed: {'; '.join(failed)}"
        skipped = sorted({test for run in self.ran for test in run["figures"].get("skipped", ())})
        return f"skipped: {', '.join(skipped)}" if skipped else ""


def record_of(commit: str) -> Record:
    """Returns the record of a commit.

    Raises:
        ReleaseError: There is no record, or it is not sufficient for a release.
    """
    path = FOLDER / f"{commit}.json"
    if not path.is_file():
        raise source.ReleaseError(
            f"there is no soak record of commit {commit[:12]}: make test-soak writes {path} in some hours. "
            "For a trial: make release DIRTY=1"
        )
    record = Record(**json.loads(path.read_text(encoding="utf-8")))
    if problem := record.why_insufficient():
        raise source.ReleaseError(f"{path}: {problem}; run make test-soak again, or make release DIRTY=1")
    return record

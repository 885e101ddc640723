"""The record of a soak: which commit ran through it, when, and with what figures."""

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
        commit: that was tried.
        began: when, in UTC, ISO 8601.
        machine: processors, Python and kernel.
        clean: whether the checkout was that commit and nothing else, from begin to end.
        part: whether phases were left out on purpose; such a record replaces no whole one.
        rounds: how many each phase has, by its name.
        ran: each round: phase, command, seconds, whether it passed, figures.
    """

    commit: str
    began: str
    machine: str
    clean: bool
    part: bool
    rounds: dict[str, int]
    ran: list[dict[str, Any]] = field(default_factory=list)

    def path(self) -> Path:
        """Returns where it is kept."""
        return FOLDER / f"{self.commit}{'-part' if self.part else ''}.json"

    def write(self) -> None:
        """Writes it as it is so far."""
        self.path().write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    def lacks(self) -> str:
        """Returns why no release may lean on it; empty if one may."""
        if not self.clean:
            return "the checkout had changes that are not committed"
        done = Counter(ran["phase"] for ran in self.ran)
        if absent := [name for name, rounds in self.rounds.items() if done[name] < rounds]:
            return f"not run, or not to the end: {', '.join(absent)}"
        failed = [ran["command"] for ran in self.ran if not ran["passed"]]
        if failed:
            return f"failed: {'; '.join(failed)}"
        skipped = sorted({test for ran in self.ran for test in ran["figures"].get("skipped", ())})
        return f"skipped: {', '.join(skipped)}" if skipped else ""


def of(commit: str) -> Record:
    """Returns the record of a commit.

    Raises:
        ReleaseError: there is none, or no release may lean on it.
    """
    path = FOLDER / f"{commit}.json"
    if not path.is_file():
        raise source.ReleaseError(
            f"there is no soak record of commit {commit[:12]}: make test-soak writes {path} in some hours. "
            "To try things out: make release DIRTY=1"
        )
    record = Record(**json.loads(path.read_text(encoding="utf-8")))
    if why := record.lacks():
        raise source.ReleaseError(f"{path}: {why}; run make test-soak again, or make release DIRTY=1")
    return record

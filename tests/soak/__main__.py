"""Runs the soak and writes its record: ``python -m tests.soak [--only PHASE] [--seed N]``.

A record, ``dist/soak/COMMIT.json``, has the commit, the time, the machine, and the command, duration and
figures of each round. A release needs the record of its commit, in which all rounds passed
(``testbed.release.record``).
"""

import contextlib
import dataclasses
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import click

from testbed.release import record, source

PYTEST = (sys.executable, "-m", "pytest", "--quiet")
BUSY_LOOP = (sys.executable, "-c", "while True: pass")
HYPOTHESIS = ("--hypothesis-profile=soak", "--hypothesis-seed={seed}")
OTHER_VERSIONS = ("1.34", "1.35", "1.37")
"""Further versions of Kubernetes: from the oldest with device claims that EKS supports, to the newest."""
REPEATS = 10
"""Number of rounds of each tier on a busy machine. A test that fails once in ten rounds is a finding."""


@dataclass(frozen=True)
class Phase:
    """A part of the soak.

    Attributes:
        command: The command, in which ``{seed}`` is replaced.
        rounds: The number of rounds. Each round has its own seed.
        neighbours: The number of processes that only compute at the same time.
        kubernetes: The version of Kubernetes; empty for the default, see `testbed.kits.build.OTHER`.
    """

    command: tuple[str, ...]
    rounds: int = 1
    neighbours: int = 0
    kubernetes: str = ""


def tier(name: str) -> tuple[str, ...]:
    """Returns the command that the make target of a tier runs."""
    return (*PYTEST, "--numprocesses=2", "--dist=load", "-m", name, "--seed={seed}")


PHASES = {
    # One process, so that each measurement has the machine for itself.
    "soak": Phase((*PYTEST, "-m", "soak", "--seed={seed}", *HYPOTHESIS)),
    "properties": Phase((*PYTEST, "-m", "quick", "--numprocesses=2", "--seed={seed}", *HYPOTHESIS)),
    "mutation": Phase((sys.executable, "-m", "tests.soak.mutation")),
    "quick, busy": Phase(tier("quick"), REPEATS, neighbours=2),
    "plane, busy": Phase(tier("plane"), REPEATS, neighbours=2),
    **{f"plane, {version}": Phase(tier("plane"), kubernetes=version) for version in OTHER_VERSIONS},
    "nodes, busy": Phase(tier("nodes"), REPEATS, neighbours=2),
}


@dataclass
class RoundResult:
    """The result of a round of a phase. ``figures`` has the counts of tests, or the last line of output."""

    phase: str
    command: str
    seconds: float
    passed: bool
    figures: dict[str, object] = field(default_factory=dict)


@contextlib.contextmanager
def busy(neighbours: int) -> Iterator[None]:
    """Runs this many processes that only compute, until the end of the ``with``."""
    running = [subprocess.Popen(BUSY_LOOP) for _ in range(neighbours)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def run(name: str, phase: Phase, seed: int, folder: Path) -> RoundResult:
    """Runs one round. Shows the output as it comes, and stores it in ``folder``."""
    file = f"{name.replace(', ', '-')}-{seed}"
    log, report = folder / f"{file}.log", folder / f"{file}.xml"
    command = [word.format(seed=seed) for word in phase.command]
    tests = command[: len(PYTEST)] == list(PYTEST)
    if tests:
        command += [f"--junit-xml={report}"]
    begin = time.monotonic()
    env = {**os.environ, "REQUIRE_CLUSTER": "1", "REQUIRE_NODES": "1", "REQUIRE_SSHD": "1"}
    env |= {"KUBERNETES": phase.kubernetes} if phase.kubernetes else {}
    with busy(phase.neighbours), log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            command,
            cwd=source.REPOSITORY,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            out.write(line)
            sys.stdout.write(line)
            last = line.strip() or last
        code = process.wait()
    figures = count_tests(report) if tests and report.exists() else {"last line": last}
    return RoundResult(name, " ".join(command), round(time.monotonic() - begin, 1), code == 0, figures)


def count_tests(report: Path) -> dict[str, object]:
    """Returns the number of passed tests, and the names of the failed and of the skipped tests."""
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - pytest's own file
    by_name: dict[str, list[str]] = {"failed": [], "skipped": [], "passed": []}
    for case in cases:
        outcomes = {child.tag for child in case}
        outcome = (
            "failed" if outcomes & {"failure", "error"} else "skipped" if "skipped" in outcomes else "passed"
        )
        by_name[outcome].append(f"{case.get('classname')}::{case.get('name')}")
    return {"passed": len(by_name["passed"]), "failed": by_name["failed"], "skipped": by_name["skipped"]}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(PHASES)),
    help="Only these phases; not enough for a release.",
)
@click.option("--seed", type=int, help="Seed of the first round; random by default.")
def main(only: tuple[str, ...], seed: int | None) -> None:
    """Runs the soak, and writes a dated record with the commit and the figures. It takes hours."""
    folder = record.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    results = record.Record(
        commit=source.source_of().commit,
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, {os.uname().release}",
        clean=not source.changes(),
        part=bool(only),
        rounds={name: phase.rounds for name, phase in PHASES.items()},
    )
    for name in only or PHASES:
        phase = PHASES[name]
        for number in range(phase.rounds):
            first = seed if seed is not None else secrets.randbits(31)
            click.echo(f"== {name}, round {number + 1} of {phase.rounds}, seed {first + number}")
            result = run(name, phase, first + number, folder)
            results.ran.append(dataclasses.asdict(result))
            # The record is written after each round, so that an interrupted soak keeps its results.
            results.write()
    results.clean = results.clean and not source.changes() and source.source_of().commit == results.commit
    results.write()
    failed = [row for row in results.ran if not row["passed"]]
    for row in failed:
        click.echo(f"FAILED {row['command']}: {json.dumps(row['figures'])}")
    summary = f"{len(results.ran)} rounds, {len(failed)} failed"
    click.echo(f"{results.path()}: {summary}; {results.why_insufficient() or 'whole'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Runs the soak and writes its record: ``python -m tests.soak [--only PHASE] [--seed N]``.

A record is ``dist/soak/COMMIT.json``: which commit, when, on what machine, and for each phase the command,
how long it took and its figures. A release needs the record of its commit, with all phases passed
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
BUSY = (sys.executable, "-c", "while True: pass")
CHANCE = ("--hypothesis-profile=soak", "--hypothesis-seed={seed}")
OTHERS = ("1.34", "1.35", "1.37")
"""Further versions of Kubernetes: the oldest that EKS supports with claims, up to the newest."""
REPEATS = 10
"""Rounds of the three tiers with busy neighbours: what fails once in ten is a finding."""


@dataclass(frozen=True)
class Phase:
    """A part of the soak.

    Attributes:
        command: ``{seed}`` in it is replaced.
        rounds: how often, each with a seed of its own.
        neighbours: Processes that only compute meanwhile.
        kubernetes: another one, see `testbed.kits.build.OTHER`.
    """

    command: tuple[str, ...]
    rounds: int = 1
    neighbours: int = 0
    kubernetes: str = ""


def tier(name: str) -> tuple[str, ...]:
    """Returns a tier as its make target runs it."""
    return (*PYTEST, "--numprocesses=2", "--dist=load", "-m", name, "--seed={seed}")


PHASES = {
    # One process: what measures has the machine for itself.
    "soak": Phase((*PYTEST, "-m", "soak", "--seed={seed}", *CHANCE)),
    "properties": Phase((*PYTEST, "-m", "quick", "--numprocesses=2", "--seed={seed}", *CHANCE)),
    "mutation": Phase((sys.executable, "-m", "tests.soak.mutation")),
    "quick, busy": Phase(tier("quick"), REPEATS, neighbours=2),
    "plane, busy": Phase(tier("plane"), REPEATS, neighbours=2),
    **{f"plane, {version}": Phase(tier("plane"), kubernetes=version) for version in OTHERS},
    "nodes, busy": Phase(tier("nodes"), REPEATS, neighbours=2),
}


@dataclass
class Ran:
    """One round of a phase; ``figures`` are the counts of tests, or what the program printed last."""

    phase: str
    command: str
    seconds: float
    passed: bool
    figures: dict[str, object] = field(default_factory=dict)


@contextlib.contextmanager
def busy(neighbours: int) -> Iterator[None]:
    """Yields this many processes that only compute, until the end of the ``with``."""
    running = [subprocess.Popen(BUSY) for _ in range(neighbours)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def run(name: str, phase: Phase, seed: int, folder: Path) -> Ran:
    """Runs one round, its output shown as it comes and kept in ``folder``."""
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
    figures = counted(report) if tests and report.exists() else {"last line": last}
    return Ran(name, " ".join(command), round(time.monotonic() - begin, 1), code == 0, figures)


def counted(report: Path) -> dict[str, object]:
    """Returns how many tests passed, and which failed or were skipped."""
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
    "--only", multiple=True, type=click.Choice(list(PHASES)), help="Some phases; not enough for a release."
)
@click.option("--seed", type=int, help="Of the first round; random without.")
def main(only: tuple[str, ...], seed: int | None) -> None:
    """Runs the soak, and write a dated record with commit and figures. It takes hours."""
    folder = record.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = record.Record(
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
            ran = run(name, phase, first + number, folder)
            made.ran.append(dataclasses.asdict(ran))
            # After each round: what an interrupted soak has found is not lost.
            made.write()
    made.clean = made.clean and not source.changes() and source.source_of().commit == made.commit
    made.write()
    failed = [ran for ran in made.ran if not ran["passed"]]
    for ran in failed:
        click.echo(f"FAILED {ran['command']}: {json.dumps(ran['figures'])}")
    click.echo(
        f"{made.path()}: {len(made.ran)} rounds, {len(failed)} failed; {made.why_insufficient() or 'whole'}"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

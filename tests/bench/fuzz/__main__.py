"""Check as many reviews as are asked for: ``python -m tests.bench.fuzz --cases 1000000 --seed 1``."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from functools import partial

import click

from tests.bench.fuzz.cases import case
from tests.bench.fuzz.check import BrokenError, check
from tests.bench.fuzz.shrink import failure, shrunk

BLOCK = 500
COUNTED = 50
"""The work of every so many-th case is counted; counting takes ten times the time."""


def block(seed: int, start: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Check a row of cases; what became of them, and the numbers of those that fail and why."""
    became, failed = Counter[str](), []
    for number in range(start, start + count):
        made = case(seed, number)
        try:
            verdict = check(made, counted=number % COUNTED == 0)
        except BrokenError as error:
            verdict = "FAILED"
            failed.append((number, str(error)))
        became[f"{made.kind}: {verdict}"] += 1
    return became, failed


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--cases", default=20_000, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True)
@click.option("--start", default=0, show_default=True, help="Number of the first.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--case", "only", type=int, help="Check one case, shrink it and print it.")
def main(cases: int, seed: int, start: int, jobs: int, only: int | None) -> None:
    """Check many reviews and say what became of them; exits with 1 where something does not hold."""
    if only is not None:
        sys.exit(show(seed, only))
    became, failed, begun, done = Counter[str](), list[tuple[int, str]](), time.monotonic(), 0
    starts = range(start, start + cases, BLOCK)
    with multiprocessing.Pool(jobs) as pool:
        work = partial(_block, seed, start + cases)
        for counted, wrong in pool.imap_unordered(work, starts):
            became += counted
            failed += wrong
            done = became.total()
            rate = done / (time.monotonic() - begun)
            sys.stderr.write(f"\r{done} of {cases}, {rate:.0f} a second, {len(failed)} failed ")
    sys.stderr.write("\n")
    report(became, sorted(failed))
    for number, _ in first_of_each(sorted(failed))[:5]:
        show(seed, number)
    sys.exit(1 if failed else 0)


def _block(seed: int, end: int, start: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    return block(seed, start, min(BLOCK, end - start))


def report(became: Counter[str], failed: list[tuple[int, str]]) -> None:
    """Print what became of the cases, as a Markdown table."""
    sys.stdout.write("| cases | of these |\n| ---: | --- |\n")
    for name, count in sorted(became.items()):
        sys.stdout.write(f"| {count} | {name} |\n")
    sys.stdout.write(f"| {became.total()} | all, {len(failed)} of them failed |\n")
    for number, why in first_of_each(failed):
        alike = sum(_words(other) == _words(why) for _, other in failed)
        sys.stdout.write(f"\n{alike} as case {number}: {why}\n")


def first_of_each(failed: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The first failure of each kind."""
    kinds: dict[str, tuple[int, str]] = {}
    for number, why in failed:
        kinds.setdefault(_words(why), (number, why))
    return list(kinds.values())


def _words(why: str) -> str:
    return " ".join(why.split()[:4])


def show(seed: int, number: int) -> int:
    """Print a case, as small as it still fails; the status for the shell."""
    made = case(seed, number)
    if not failure(made):
        sys.stdout.write(f"seed {seed} case {number} ({made.kind}): all holds\n")
        return 0
    small = shrunk(made)
    sys.stdout.write(f"\nseed {seed} case {number} ({made.kind}), as small as it fails: {failure(small)}\n")
    sys.stdout.write(json.dumps({"object": small.obj, "request": small.request}) + "\n")
    return 1


if __name__ == "__main__":
    main()

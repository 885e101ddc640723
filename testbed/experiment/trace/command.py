"""Runs the command ``python -m testbed.experiment --trace FILE``."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from testbed.experiment.trace import report
from testbed.experiment.trace.easy import Easy
from testbed.experiment.trace.fleet import NODES, Fleet, sick_nodes
from testbed.experiment.trace.jobs import DAY, Job, limited, read, shares, stretched, thinned
from testbed.experiment.trace.product import Product
from testbed.experiment.trace.simulate import Policy, Run, simulate
from testbed.experiment.trace.svg import picture

POLICIES: dict[str, Callable[[Fleet, int, Collection[int], Mapping[str, int]], Policy]] = {
    "placement": lambda _, servers, sick, guaranteed: Product(servers, sick, guaranteed),
    "easy": lambda fleet, _servers, _sick, _guaranteed: Easy(fleet),
}
SECONDS = 5.0
"""Seconds between two lines about the progress."""


def main(arguments: Sequence[str]) -> int:
    """Runs a trace for each policy and seed, prints tables, and draws the first run."""
    options = _options(arguments)
    all_jobs = read(options.trace)
    first_run: Run | None = None
    waits: dict[str, dict[str, float]] = {}
    for policy in options.policy:
        say(f"policy {policy}, load {options.load}, limits {options.limits}, {options.sick} sick")
        say(*report.HEAD)
        runs, tenants = [], []
        for seed in options.seed:
            jobs = thinned(all_jobs, seed, options.share)
            jobs = limited(stretched(jobs, options.ultraservers * NODES, options.load), options.limits)
            jobs = [job for job in jobs if options.days is None or job.arrival < options.days * DAY]
            if options.guarantees:
                counts = shares(jobs, options.ultraservers)
                jobs = [job for job in jobs if job.nodes <= counts[job.tenant] * NODES]
            run = _run(jobs, options, policy, seed, options.ultraservers, f"{policy}, seed {seed}")
            first_run = first_run or run
            runs.append(report.figures(jobs, run))
            say(report.line(str(seed), runs[-1]))
            if options.tenants:
                alone = _run_tenants_alone(jobs, options, policy, seed)
                tenants += [f"seed {seed}", *report.tenant_lines(jobs, run, alone)]
        if len(runs) > 1:
            say(report.line("mean", report.mean(runs)))
        say(*tenants)
        waits[policy] = {report.NAMES[size]: hours for size, hours in report.mean(runs).waits.items()}
    if options.svg and first_run:
        title = f"{options.policy[0]}, load {options.load}, seed {options.seed[0]}"
        options.svg.write_text(picture(title, first_run.samples, first_run.usable, waits), encoding="utf-8")
    return 0


def say(*lines: str) -> None:
    """Prints lines without buffering, because a run takes minutes."""
    for line in lines:
        print(line, flush=True)  # noqa: T201


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testbed.experiment", description=__doc__)
    parser.add_argument("--trace", type=Path, required=True, help="a CSV file of jobs; may be compressed")
    parser.add_argument("--policy", choices=POLICIES, nargs="+", default=["placement"])
    parser.add_argument(
        "--load", type=float, default=0.9, help="share of the nodes that the jobs of each week need"
    )
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[1], help="seeds that choose the jobs; one run each"
    )
    parser.add_argument("--share", type=float, default=0.5, help="share of the jobs that a seed chooses")
    parser.add_argument("--days", type=float, help="leave out the jobs that arrive after this many days")
    parser.add_argument("--ultraservers", type=int, default=64)
    parser.add_argument("--sick", type=int, default=0, help="UltraServers with a cordoned node")
    parser.add_argument(
        "--limits", choices=("known", "times3", "none"), default="known", help="time limits of jobs"
    )
    parser.add_argument(
        "--tenants", action="store_true", help="compare with runs of each tenant alone on its share"
    )
    parser.add_argument(
        "--guarantees",
        action="store_true",
        help="guarantee each tenant its share, and omit jobs larger than the share (placement only)",
    )
    parser.add_argument("--pause", type=float, default=60.0, help="minimum seconds between decisions")
    parser.add_argument("--svg", type=Path, help="write a picture of the first run and of all waits")
    return parser.parse_args(arguments)


def _run(  # noqa: PLR0913, PLR0917 - the inputs of a run
    jobs: Sequence[Job], options: argparse.Namespace, policy: str, seed: int, servers: int, name: str
) -> Run:
    sick = sick_nodes(servers, options.sick, seed) if servers == options.ultraservers else frozenset()
    fleet = Fleet(servers, sick)
    has_guarantees = options.guarantees and servers == options.ultraservers
    guaranteed = shares(jobs, servers) if has_guarantees else {}
    decider = POLICIES[policy](fleet, servers, sick, guaranteed)
    return simulate(jobs, decider, fleet, options.pause, tell=_progress_printer(name, len(jobs)))


def _run_tenants_alone(
    jobs: Sequence[Job], options: argparse.Namespace, policy: str, seed: int
) -> dict[str, tuple[int, Sequence[Job], Run]]:
    """Runs each tenant's jobs alone on its share of the UltraServers, without jobs larger than the share."""
    runs = {}
    for tenant, servers in shares(jobs, options.ultraservers).items():
        own_jobs = [job for job in jobs if job.tenant == tenant and job.nodes <= servers * NODES]
        run = _run(own_jobs, options, policy, seed, servers, f"{policy}, seed {seed}, tenant {tenant} alone")
        runs[tenant] = servers, own_jobs, run
    return runs


def _progress_printer(name: str, total: int) -> Callable[[int, float, int], None]:
    """Returns a function that prints the progress of a run on stderr from time to time."""
    began = time.monotonic()
    shown_at = began

    def tell(arrived: int, now: float, waiting: int) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= SECONDS:
            shown_at = time.monotonic()
            text = f"{name}: {arrived} of {total} jobs, day {now / 86400:.1f}, {waiting} wait"
            sys.stderr.write(f"{text}, {shown_at - began:.0f} s\n")

    return tell

"""The experiment: ``python -m testbed.experiment --policy placement --mode one --seed 1``."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from testbed.experiment import hostile
from testbed.experiment.arrivals import arrivals, planned
from testbed.experiment.experiment import Result, burst, one_by_one, summary
from testbed.experiment.native import GROUPS, VERSION, NativePlane
from testbed.experiment.plot import drawn
from testbed.experiment.stage import POLICIES, Stage, make_sick, staged
from testbed.kits.progress import say
from testbed.plane.controlplane import ControlPlane
from testbed.plane.process import ClusterError


def main() -> int:
    """Run it, and end with one line: ``whole W straddle S stuck K held H of N``."""
    parser = argparse.ArgumentParser(prog="python -m testbed.experiment", description=__doc__)
    parser.add_argument("--policy", choices=POLICIES, default="placement")
    parser.add_argument("--mode", choices=("one", "burst", "arrivals"), default="one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sick", type=float, default=0.25, help="share of UltraServers with a cordoned node")
    parser.add_argument(
        "--jobs", type=int, default=20, help="how many, one by one; a burst has its own number"
    )
    parser.add_argument("--ultraservers", type=int, default=24)
    parser.add_argument("--hostile", type=int, default=0, help="Pods of somebody who would stop the fleet")
    parser.add_argument(
        "--load", type=float, default=0.9, help="arrivals: nodes asked for, of the healthy ones"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="arrivals: how long a job runs, on average"
    )
    parser.add_argument("--plot", type=Path, help="arrivals: an SVG of the same")
    parser.add_argument(
        "--timeline", type=Path, help="arrivals: a CSV file of what happened, second by second"
    )
    options = parser.parse_args()
    chance = random.Random(options.seed)  # noqa: S311 - an experiment that can be had again
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ultraserver-placement-") as folder,
            staged(
                Path(folder),
                options.policy,
                options.ultraservers,
                say,
                NativePlane if options.policy in GROUPS else ControlPlane,
            ) as stage,
        ):
            if options.policy in GROUPS and stage.api.get(f"/apis/{VERSION}") is None:
                print(f"skipped: the API server does not serve {VERSION}")  # noqa: T201
                return 0
            make_sick(stage, options.sick, chance)
            taken = hostile.fill(stage, options.hostile) if options.hostile else 0
            program = stage.start_program() if options.policy in ("base", "placement") else None
            run = _run(options, stage, chance)
            beside = hostile.outcome(stage, taken, program).lines() if options.hostile else []
    except (ClusterError, TimeoutError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for line in [*beside, *summary(run), run.line()]:
        print(line)  # noqa: T201
    return 0


def _run(options: argparse.Namespace, stage: Stage, chance: random.Random) -> Result:
    if options.mode == "burst":
        return burst(stage, chance, say)
    if options.mode == "one":
        return one_by_one(stage, options.jobs, chance, say)
    plan = planned(options.jobs, len(stage.healthy) * options.load, options.seconds, chance)
    result, timeline = arrivals(stage, plan, say)
    if options.timeline:
        rows = ["second,waiting,at_work,held", *(",".join(map(str, row)) for row in timeline)]
        options.timeline.write_text("\n".join(rows) + "\n", encoding="utf-8")
    if options.plot:
        options.plot.write_text(drawn(timeline, len(stage.healthy)), encoding="utf-8")
    return result


if __name__ == "__main__":
    sys.exit(main())

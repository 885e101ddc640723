"""Runs the placement experiment: ``python -m testbed.experiment --policy placement --mode one --seed 1``.

With ``--trace FILE``, it runs the jobs of a trace in simulated time instead (`testbed.experiment.trace`).
"""

import argparse
import contextlib
import random
import sys
import tempfile
from pathlib import Path

from testbed.experiment import hostile
from testbed.experiment.attackers import USERS, attack
from testbed.experiment.experiment import burst, one_by_one, summary
from testbed.experiment.stage import POLICIES, PROGRAM_POLICIES, make_sick, staged
from testbed.experiment.trace import command
from testbed.kits.progress import say
from testbed.plane.process import ClusterError


def main() -> int:
    """Runs the experiment. The last line of the output is ``whole W straddle S stuck K held H of N``."""
    if any(argument.split("=")[0] == "--trace" for argument in sys.argv[1:]):
        return command.main(sys.argv[1:])
    parser = argparse.ArgumentParser(prog="python -m testbed.experiment", description=__doc__)
    parser.add_argument("--policy", choices=POLICIES, default="placement")
    parser.add_argument("--mode", choices=("one", "burst"), default="one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sick", type=float, default=0.25, help="share of UltraServers with a cordoned node")
    parser.add_argument("--jobs", type=int, default=20, help="number of jobs in mode one")
    parser.add_argument("--ultraservers", type=int, default=24)
    parser.add_argument(
        "--hostile", type=int, default=0, help="number of Pods of a user who tries to stop all jobs"
    )
    parser.add_argument("--attackers", nargs="*", choices=USERS, default=[], help="users who attack")
    parser.add_argument(
        "--bound",
        type=float,
        default=120.0,
        help="seconds after which an admission has failed if the job does not have all its nodes",
    )
    options = parser.parse_args()
    randomness = random.Random(options.seed)  # noqa: S311 - an experiment must be reproducible
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ultraserver-placement-") as folder,
            staged(Path(folder), options.policy, options.ultraservers, say) as stage,
        ):
            make_sick(stage, options.sick, randomness)
            created_pods = hostile.create_pods(stage, options.hostile) if options.hostile else 0
            program = None
            if options.policy in PROGRAM_POLICIES:
                program = stage.start_program(bound_seconds=options.bound)
            with contextlib.ExitStack() as stack:
                writes = stack.enter_context(attack(stage, options.attackers)) if options.attackers else []
                if options.mode == "burst":
                    run = burst(stage, randomness, say)
                else:
                    run = one_by_one(stage, options.jobs, randomness, say)
            lines = [f"writes of attackers, refused and accepted: {writes}"] if writes else []
            lines += hostile.read_outcome(stage, created_pods, program).lines() if options.hostile else []
    except (ClusterError, TimeoutError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for line in [*lines, *summary(run), run.line()]:
        print(line)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A rotator in a process of its own: a line on standard input is a pass, the answer is a line of JSON.

Run as ``python -m tests.certs.competitor`` with the options of ``python -m certs issue``. A line may say
``leaf`` or ``ca``, to replace that; the answer has the steps taken and how many races were lost.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from certs.options import cluster_options, settings


@click.command()
@cluster_options
def main(**options: Any) -> None:
    """Does a pass for every line."""
    rotator = settings(**options).rotator(lambda _: None)
    for line in sys.stdin:
        forced = line.split()
        outcome = rotator.run(authority="ca" in forced, leaf="leaf" in forced)
        steps = [step.action.value for step in outcome.steps]
        sys.stdout.write(json.dumps({"steps": steps, "conflicts": outcome.conflicts}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

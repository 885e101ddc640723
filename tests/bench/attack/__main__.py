"""Attack the program and print what became of live reviews: ``python -m tests.bench.attack``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from tests.attack.attacks import ATTACKS, Attack
from tests.attack.measure import Measured, measure
from tests.attack.subject import SERVE

COLUMNS = (
    "attack",
    "live reviews",
    "failed",
    "slow (> 2 s)",
    "p99 ms",
    "probes failed",
    "worker replaced",
    "peak MiB",
    "limit MiB",
)


def row(name: str, found: Measured) -> tuple[str, ...]:
    """A line of the table."""
    live = found.live
    numbers = (
        live.reviews,
        live.failed,
        live.slow,
        f"{live.p99_ms:.0f}",
        f"{live.probes_failed} of {live.probes}",
    )
    return (
        name,
        *map(str, numbers),
        "yes" if found.replaced else "no",
        str(found.peak >> 20),
        str(found.limit >> 20),
    )


def line(cells: tuple[str, ...]) -> None:
    """Print a line of a Markdown table, at once."""
    sys.stdout.write("| " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--attack", "wanted", multiple=True, help="Only attacks with this in their name; may be repeated."
)
@click.option("--seconds", default=20.0, show_default=True, help="How long each attack lasts.")
@click.option("--short", is_flag=True, help="In the numbers of the test suite.")
@click.option(
    "--serve",
    "programs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=[SERVE],
    help="An ultraserver-webhook to attack, of this or of another checkout's environment; may be repeated.",
)
def main(wanted: tuple[str, ...], seconds: float, programs: tuple[Path, ...], *, short: bool) -> None:
    """Attack one program or several in turns, and print a Markdown table."""
    # Ended from outside it still ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    line((*(("program",) if len(programs) > 1 else ()), *COLUMNS))
    line(("---",) * (len(COLUMNS) + (len(programs) > 1)))
    for attack in ATTACKS:
        if not wanted or any(part in attack.name for part in wanted):
            for program in programs:
                whose = (str(program),) if len(programs) > 1 else ()
                line((*whose, *row(attack.name, attacked(attack, seconds, program, short=short))))


def attacked(attack: Attack, seconds: float, program: Path, *, short: bool) -> Measured:
    """One attack; its first failures are printed beside the table."""
    found = measure(attack, attack.short if short else attack.long, seconds, program)
    for why in found.live.why[:3]:
        sys.stderr.write(f"    {attack.name}: {why}\n")
    return found


if __name__ == "__main__":
    main()

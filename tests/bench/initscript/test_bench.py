"""Measures how the time of the two init containers grows with the number of workers.

All sshd servers of a fleet share the processors of this machine, but real workers have their own processors.
So every login waits for a second without using a processor, as for name lookups and PAM. The table also has
the processor time of the launcher, and the time of the document's waiting loop. The last line is a model:
each of three rounds of logins takes two logins in a row, to the leaders and from there to their groups. The
launcher's processor time grows with the numbers of leaders and workers, as in the two largest fleets.
"""

import math
import resource
import sys
import time

import pytest

from tests.initscript.stages import Stage
from tests.plane.initscript.harness import Fleet
from tests.plane.initscript.run import container, settings

pytestmark = pytest.mark.fleet
HOLD = "sleep 1\n"
# The waiting loop of the document, without its pauses.
LOOP = "while read -r host _; do ssh -n $host echo $host; done </etc/mpi/hostfile"


def cpu() -> float:
    """Returns the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STAGES: tuple[Stage, ...] = ("wait", "init")


def measure(workers: int) -> dict[str, float]:
    """Returns the seconds of the containers, of the processor, and of the document's loop in small fleets."""
    with Fleet(workers) as fleet:
        for pod in fleet.workers:
            (fleet.folder / pod / "root/.bashrc").write_text(HOLD)
        result: dict[str, float] = {}
        before = cpu()
        for stage in STAGES:
            start = time.monotonic()
            assert not container(fleet, stage).returncode
            result[stage] = time.monotonic() - start
        result["cpu"] = cpu() - before
        if workers <= 16:
            start = time.monotonic()
            assert not fleet.run(["bash", "-c", LOOP], settings(fleet)).returncode
            result["loop"] = time.monotonic() - start
    return result


def table(times: dict[int, dict[str, float]]) -> str:
    """Returns the measured times as a table."""
    lines = [
        "",
        "workers   wait s   init s   both, times   launcher's CPU s   for a worker   document's loop s",
    ]
    for size, row in times.items():
        both = (row["wait"] + row["init"]) / (times[4]["wait"] + times[4]["init"])
        loop = f"{row['loop']:.1f}" if "loop" in row else "-"
        lines.append(
            f"{size:7} {row['wait']:8.1f} {row['init']:8.1f} {both:13.1f} {row['cpu']:18.1f} "
            f"{row['cpu'] / size:14.3f} {loop:>19}"
        )
    used = model(1024, {size: times[size]["cpu"] for size in (64, 256)})
    seconds = LOGIN_ROUNDS * 2 + 1 + used
    lines.append(f"   1024, model: {seconds:.0f} s, CPU {used:.1f} s, for a worker {used / 1024:.3f}")
    return "\n".join([*lines, ""])


LOGIN_ROUNDS = 3
"""The rounds of logins: check that the workers answer, read their state, and write their variables."""


def model(workers: int, used: dict[int, float]) -> float:
    """Returns the launcher's processor seconds: a constant per leader plus a constant per worker."""
    (small, first), (large, second) = sorted(used.items())
    leaders = {size: math.ceil(size / math.ceil(math.sqrt(size))) for size in (small, large, workers)}
    per_worker = (second * leaders[small] - first * leaders[large]) / (
        large * leaders[small] - small * leaders[large]
    )
    return per_worker * workers + (first - per_worker * small) / leaders[small] * leaders[workers]


@pytest.mark.soak
def test_time_grows_far_less_than_the_number_of_workers(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = (4, 16, 64, 256)
    result = {size: measure(size) for size in sizes}
    with capsys.disabled():
        sys.stdout.write(table(result))
    total = {size: result[size]["wait"] + result[size]["init"] for size in sizes}
    assert total[16] < 4 / 1.5 * total[4]
    assert total[64] < 16 / 4 * total[4]
    assert result[16]["wait"] < result[16]["loop"] / 2
    assert result[256]["cpu"] / 256 < result[16]["cpu"] / 16 / 2

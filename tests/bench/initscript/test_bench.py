"""How the two containers' time grows with the number of workers, and what the document's loop would take.

All sshd of a fleet share this machine's processors, where real workers have their own. So every login is held
for a second without using any, as name lookups and PAM do, and the table says how much the launcher computed.
The last line is a model: each of three questions takes two logins, one to the leaders and one to their
groups, and the launcher's processor time grows with the leaders and with the workers as in the two largest
fleets.
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
    """Returns processor seconds of the children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STAGES: tuple[Stage, ...] = ("wait", "init")


def measure(workers: int) -> dict[str, float]:
    """Times the containers in a fleet of this size."""
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
    """Returns what was measured, for people."""
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
    seconds = QUESTIONS * 2 + 1 + used
    lines.append(f"   1024, model: {seconds:.0f} s, CPU {used:.1f} s, for a worker {used / 1024:.3f}")
    return "\n".join([*lines, ""])


QUESTIONS = 3
"""Do you answer, where are you, and take these variables; one worker gets a fourth question."""


def model(workers: int, used: dict[int, float]) -> float:
    """Returns the launcher's processor seconds: so much for each leader, and so much for each worker."""
    (small, first), (large, second) = sorted(used.items())
    leaders = {size: math.ceil(size / math.ceil(math.sqrt(size))) for size in (small, large, workers)}
    each = (second * leaders[small] - first * leaders[large]) / (
        large * leaders[small] - small * leaders[large]
    )
    return each * workers + (first - each * small) / leaders[small] * leaders[workers]


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

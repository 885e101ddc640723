"""What is left of a build of images that is interrupted: nothing that still writes."""

import fcntl
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from testbed.images import product
from testbed.waiting import until
from tests.nodes.processes import about, processes

# The build itself is a program that waits, started as those of a build are.
BUILD = """
import sys
from pathlib import Path
from testbed.images import product
from testbed.kits.progress import Progress
product.CACHE = Path(sys.argv[1])
waits = ["sh", "-c", "touch began; sleep 300; :", sys.argv[2]]
product.build_into = lambda out: product.Builder(out, Progress(1)).run("waits", *waits)
product.main()
"""


def alive(word: str) -> list[str]:
    """Returns the processes that have a word in their command line."""
    lines = (about(process, "cmdline") for process in processes())
    return [line for line in lines if word in line]


@pytest.mark.real_nodes
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda sign: sign.name)
def test_an_interrupted_build_leaves_no_process(sign: signal.Signals, tmp_path: Path) -> None:
    word = f"build-{uuid.uuid4()}"
    command = [sys.executable, "-c", BUILD, str(tmp_path), word]
    with subprocess.Popen(command, cwd=product.REPOSITORY, stderr=subprocess.DEVNULL) as build:
        until((tmp_path / ".building" / "began").exists, "the build to begin")
        build.send_signal(sign)
    until(lambda: not alive(word), "the end of all that the build has started")
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # What is killed cannot clean up; the next build does.
    assert (tmp_path / ".building").exists() == (sign is signal.SIGKILL)

"""Tests that an interrupted build of images leaves no process that still writes."""

import fcntl
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from testbed.images import product
from testbed.waiting import until
from tests.nodes.processes import processes, read_proc

# In place of the build, this runs a program that waits. It is started like the programs of a build.
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


def command_lines_with(word: str) -> list[str]:
    """Returns the command lines of the running processes whose command line contains a word."""
    lines = (read_proc(process, "cmdline") for process in processes())
    return [line for line in lines if word in line]


@pytest.mark.real_nodes
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda sign: sign.name)
def test_an_interrupted_build_leaves_no_process(sign: signal.Signals, tmp_path: Path) -> None:
    word = f"build-{uuid.uuid4()}"
    command = [sys.executable, "-c", BUILD, str(tmp_path), word]
    with subprocess.Popen(command, cwd=product.REPOSITORY, stderr=subprocess.DEVNULL) as build:
        until((tmp_path / ".building" / "began").exists, "the build to begin")
        build.send_signal(sign)
    until(lambda: not command_lines_with(word), "the end of all processes of the build")
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # A killed build cannot clean up. The next build does.
    assert (tmp_path / ".building").exists() == (sign is signal.SIGKILL)

"""What is left of a build of images that is interrupted: nothing that still writes."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.cluster.realnodes import debian, product
from tests.cluster.realnodes.test_traces import about, processes
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

# The build itself is a program that waits, started as those of a build are.
BUILD = """
import sys
from pathlib import Path
from tests.cluster.realnodes import product
from tests.cluster.tools.progress import Progress
product.CACHE = Path(sys.argv[1])
waits = ["sh", "-c", "touch began; sleep 300; :", sys.argv[2]]
product.build_into = lambda out: product.Builder(out, Progress(1)).run("waits", *waits)
product.main()
"""


def alive(word: str) -> list[str]:
    """The processes that have a word in their command line."""
    lines = (about(process, "cmdline") for process in processes())
    return [line for line in lines if word in line]


@pytest.mark.real_nodes
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda sign: sign.name)
def test_nothing_of_a_build_that_is_interrupted_goes_on(sign: signal.Signals, tmp_path: Path) -> None:
    word = f"build-{uuid.uuid4()}"
    command = [sys.executable, "-c", BUILD, str(tmp_path), word]
    with subprocess.Popen(command, cwd=product.REPOSITORY, stderr=subprocess.DEVNULL) as build:
        until((tmp_path / ".building" / "began").exists)
        build.send_signal(sign)
    until(lambda: not alive(word))
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Nobody can clean up who is killed; the next build does.
    assert (tmp_path / ".building").exists() == (sign is signal.SIGKILL)


def test_a_build_that_fails_leaves_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(product, "CACHE", tmp_path)
    monkeypatch.setattr(product, "unbuildable", lambda: "")
    with pytest.raises(FileExistsError), product.building() as out:
        out.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


APT = """#!/bin/sh
case $1 in
update) touch "$0.lists" ;;
indextargets) [ ! -e "$0.lists" ] || echo http://deb.example.invalid/debian ;;
esac
"""


def test_a_machine_without_package_lists_gets_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(APT, encoding="utf-8")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert debian.mirror() == "http://deb.example.invalid/debian"

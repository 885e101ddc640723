"""Tests of the test bed's child processes: waits until they are ready, and their end with the starter."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.plane.process import REAPER, ClusterError, Programs
from testbed.waiting import PATIENCE, until

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it
from pathlib import Path
from testbed.plane.process import Programs
with Programs(Path(sys.argv[1]), grace=0.2) as programs:
    first = programs.start("stubborn", [sys.executable, "-c", sys.argv[2]])
    second = programs.start("sleeper", ["sleep", "600"])
    first.wait_ready(lambda: "ready" in first.tail(), 10)
    print(first.pid, second.pid, flush=True)
    signal.pause()
"""
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause()"


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return status.rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sign: sign.name)
def test_no_process_is_left_after_a_signal_ends_the_starter(sign: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), STUBBORN]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert len(pids) == 2
        starter.send_signal(sign)
        starter.wait(30)
    until(lambda: not any(map(running, pids)), "the end of both programs", every=0.02)


def test_a_zombie_process_is_not_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(REAPER), "600"]
    with (
        subprocess.Popen(["true"], start_new_session=True) as ended,
        subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as reaper,
    ):
        until(lambda: not running(ended.pid), "the end of true")
        try:
            reaper.communicate(f"+{ended.pid}\n".encode(), PATIENCE)
        finally:
            reaper.kill()
    assert reaper.returncode == 0


def test_a_program_that_ends_too_early_is_quoted_in_the_error(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        broken = programs.start("broken", [sys.executable, "-c", "import sys; sys.exit('no such flag')"])
        with pytest.raises(ClusterError, match=r"broken ended with status 1(.|\n)*no such flag"):
            broken.wait_ready(lambda: False, 10)


def test_a_program_that_is_never_ready_is_reported_and_stopped(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        silent = programs.start("silent", ["sleep", "600"])
        with pytest.raises(ClusterError, match="silent is not ready after"):
            silent.wait_ready(lambda: False, 0.2)
    with pytest.raises(ProcessLookupError):
        os.killpg(silent.pid, 0)


def test_the_log_of_a_restarted_program_still_has_the_first_lines(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        for message in ("first", "second"):
            program = programs.start(
                "again",
                [sys.executable, "-c", f"import signal; print({message!r}, flush=True); signal.pause()"],
            )
            program.wait_ready(lambda log=program.tail, message=message: message in log(), PATIENCE)  # type: ignore[misc]
            programs.stop(program)
        assert program.tail().splitlines() == ["first", "second"]

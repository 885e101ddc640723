"""Tests of the keeper's locks, which need no real nodes."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.nodes import keeper
from testbed.waiting import PATIENCE, until


def lock_is_awaited(folder: Path) -> bool:
    """Returns whether a process waits for the lock of a folder: ``/proc/locks`` marks it with an arrow."""
    number = folder.stat().st_ino
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any("->" in line.split() and line.split()[6].endswith(f":{number}") for line in lines)


def test_a_folder_that_is_removed_before_its_keeper_locks_it_is_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    collector_lock = keeper.lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert collector_lock is not None
    with ThreadPoolExecutor() as pool:
        creation = pool.submit(keeper.create_locked, folder, 0o700)
        until(lambda: lock_is_awaited(folder), "a process that waits for the lock")
        keeper.remove_folder(folder)
        os.close(collector_lock)
        keeper_lock = creation.result(PATIENCE)
    assert os.path.samestat(os.fstat(keeper_lock), folder.stat())
    assert keeper.lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) is None
    os.close(keeper_lock)

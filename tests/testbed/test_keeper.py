"""The keeper of the namespaces of real nodes, tried without any."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.nodes import keeper
from testbed.waiting import PATIENCE, until


def waits_for_a_lock(folder: Path) -> bool:
    """Returns whether a process does: ``/proc/locks`` marks it with an arrow."""
    number = folder.stat().st_ino
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any("->" in line.split() and line.split()[6].endswith(f":{number}") for line in lines)


def test_a_folder_that_is_taken_away_before_its_keeper_has_locked_it_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    collects = keeper.lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert collects is not None
    with ThreadPoolExecutor() as pool:
        makes = pool.submit(keeper.make, folder, 0o700)
        until(lambda: waits_for_a_lock(folder), "a process that waits for the lock")
        keeper.remove_folder(folder)
        os.close(collects)
        held = makes.result(PATIENCE)
    assert os.path.samestat(os.fstat(held), folder.stat())
    assert keeper.lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) is None
    os.close(held)

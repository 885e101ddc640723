"""What Linux says of a program's processes and their memory."""

import contextlib
import threading
from pathlib import Path
from typing import Self

from testbed import chart
from testbed.plane.process import max_memory, memory

ROOT = Path(__file__).parents[2]
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
SAMPLE_SECONDS = 0.2


def memory_limit() -> int:
    """Bytes that the manifests allow the webhook's container."""
    (deployment,) = (
        obj for obj in chart.objects() if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", chart.NAME)
    )
    text: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]]


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started and that live, in order of their ids."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):  # the process has ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                pids |= set(map(int, task.read_text().split()))
    return sorted(pids)


def tree(pid: int) -> list[int]:
    """Returns a process and all that descends from it."""
    return [pid, *(one for child in children(pid) for one in tree(child))]


def proportional(pid: int) -> int:
    """Bytes that a process holds, what it shares counted in parts; 0 for one that has ended."""
    return memory(pid, "smaps_rollup", "Pss")


class MemoryWatch:
    """The most memory that a program holds while this is entered.

    A container's limit counts all of its processes together and what they share once, so their sum is
    sampled; and one process's own peak, which the kernel keeps, is missed by no sample.

    Attributes:
        peak: In bytes, complete once this is left.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.peak = pid, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        every = tree(self.pid)
        self.peak = max(self.peak, sum(map(proportional, every)), *map(max_memory, every))

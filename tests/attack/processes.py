"""Reads the processes of a program and their memory."""

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
    """Returns the memory limit of the webhook's container in the manifests, in bytes."""
    (deployment,) = (
        obj for obj in chart.objects() if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", chart.NAME)
    )
    text: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]]


def children(pid: int) -> list[int]:
    """Returns the running child processes of a process, in the order of their ids."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):  # the process has ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                pids |= set(map(int, task.read_text().split()))
    return sorted(pids)


def tree(pid: int) -> list[int]:
    """Returns a process and all its descendants."""
    return [pid, *(descendant for child in children(pid) for descendant in tree(child))]


def proportional_memory(pid: int) -> int:
    """Returns the proportional set size of a process in bytes; 0 for an ended process."""
    return memory(pid, "smaps_rollup", "Pss")


class MemoryWatch:
    """Measures the maximum memory of a program. Use it as a context manager.

    The limit of a container includes all its processes, and counts shared memory once. So this class samples
    the sum of the proportional set sizes. It also reads the peak of each process, which samples could miss.

    Attributes:
        peak: The maximum, in bytes. It is complete after the ``with``.
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
        self._sample()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        pids = tree(self.pid)
        self.peak = max(self.peak, sum(map(proportional_memory, pids)), *map(max_memory, pids))

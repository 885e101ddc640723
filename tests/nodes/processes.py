"""Reads the processes of this machine from ``/proc``."""

from collections.abc import Iterator
from pathlib import Path

NAMESPACE_KINDS = ("pid", "mnt", "net")


def read_proc(process: int, file: str) -> str:
    """Returns the content of a file of a process in ``/proc``; empty if the process has ended."""
    try:
        return Path(f"/proc/{process}/{file}").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def foreign_namespaces(process: int) -> set[str]:
    """Returns the namespaces of a process that this process is not in; none if they cannot be read."""
    result = set()
    for kind in NAMESPACE_KINDS:
        try:
            link = Path(f"/proc/{process}/ns/{kind}").readlink()
        except OSError:  # The process has ended, or is process 1 of the machine.
            return set()
        if link != Path(f"/proc/self/ns/{kind}").readlink():
            result.add(str(link))
    return result


def processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def children(process: int) -> list[int]:
    return [int(child) for child in read_proc(process, f"task/{process}/children").split()]


def process_tree(process: int) -> list[int]:
    """Returns a process and all its descendants."""
    return [process, *(descendant for child in children(process) for descendant in process_tree(child))]


def is_running(process: int) -> bool:
    """Returns whether a process runs. An ended process is listed until its parent has read its status."""
    state = read_proc(process, "stat").rpartition(")")[2].split()[:1]
    return state not in ([], ["Z"], ["X"])

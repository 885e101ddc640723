"""The processes of this machine, as ``/proc`` has them."""

from collections.abc import Iterator
from pathlib import Path

SPACES = ("pid", "mnt", "net")


def about(process: int, file: str) -> str:
    """Returns what ``/proc`` says of a process; nothing where it has ended."""
    try:
        return Path(f"/proc/{process}/{file}").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def spaces(process: int) -> set[str]:
    """Returns the namespaces of a process that this one does not share; none where they cannot be seen."""
    result = set()
    for space in SPACES:
        try:
            link = Path(f"/proc/{process}/ns/{space}").readlink()
        except OSError:  # It has ended meanwhile, or is the machine's first.
            return set()
        if link != Path(f"/proc/self/ns/{space}").readlink():
            result.add(str(link))
    return result


def processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def children(process: int) -> list[int]:
    return [int(child) for child in about(process, f"task/{process}/children").split()]


def offspring(process: int) -> list[int]:
    """Returns a process's descendants, itself included."""
    return [process, *(deeper for child in children(process) for deeper in offspring(child))]


def alive(process: int) -> bool:
    """Returns whether it has not ended; one that has is listed until its parent has read its status."""
    state = about(process, "stat").rpartition(")")[2].split()[:1]
    return state not in ([], ["Z"], ["X"])

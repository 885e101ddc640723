"""Files of objects, named as in kubectl's ``-f``."""

import errno
import os
import sys
from pathlib import Path


def files_of(path: Path, *, recursive: bool = False) -> list[Path]:
    """Returns a directory's files that kubectl would read, or the path itself if it is not a directory."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if recursive else path.iterdir()
    return sorted(file for file in files if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())


def read_text(path: Path, named: Path) -> tuple[str, bytes]:
    """Returns a file's name for messages, and its `content`; - is standard input."""
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), content(path, named)


def content(path: Path, named: Path, most: int = -1) -> bytes:
    """Returns at most ``most`` bytes of a file; ``named`` is the path that the user gave, or its folder.

    Only a path that the user gave and that is below ``/dev`` may be a pipe, such as a shell's.
    """
    if path != named or not path.is_relative_to("/dev"):
        check(path, named if named.is_dir() else named.parent)
    with path.open("rb") as file:
        return file.read(most)


def check(path: Path, folder: Path) -> None:
    """Raises an `OSError` unless the path is a regular file in the folder, or a link to one."""
    target = Path(os.path.realpath(path, strict=True))
    if not target.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, "a link that leads out of its folder", str(path))
    if not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))

"""Files of objects, named as for kubectl."""

import errno
import os
import sys
from pathlib import Path


def files_of(path: Path, *, recursive: bool = False) -> list[Path]:
    """A directory's files as kubectl takes them, anything else as it is."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if recursive else path.iterdir()
    return sorted(file for file in files if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())


def read_text(path: Path, named: Path) -> tuple[str, bytes]:
    """What a file is called in messages, and its content; - is standard input.

    Raises:
        OSError: as of `content`.
    """
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), content(path, named)


def content(path: Path, named: Path, most: int = -1) -> bytes:
    """At most so many bytes of a file, which a person named, or the folder that it is in.

    Only what is named itself, below ``/dev``, may be a pipe, as a shell names its own.

    Raises:
        OSError: if it cannot be read, is no regular file, or is a link that leads out of the folder.
    """
    if not (path == named and path.is_relative_to("/dev")):
        target = target_of(path, named if named.is_dir() else named.parent)
        if not target.is_file():
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as opened:
        return opened.read(most)


def target_of(path: Path, folder: Path) -> Path:
    """Where a path in a folder leads.

    Raises:
        OSError: if it leads to nothing, or out of the folder.
    """
    target = Path(os.path.realpath(path, strict=True))
    if not target.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, "a link that leads out of its folder", str(path))
    return target

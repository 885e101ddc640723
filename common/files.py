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
    """What a file is called in messages, and its content, as of `content`; - is standard input."""
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), content(path, named)


def content(path: Path, named: Path, most: int = -1) -> bytes:
    """At most so many bytes of a file, which a person named, or the folder that it is in.

    Only what is named itself, below ``/dev``, may be a pipe, as a shell names its own.
    """
    if path != named or not path.is_relative_to("/dev"):
        check(path, named if named.is_dir() else named.parent)
    with path.open("rb") as opened:
        return opened.read(most)


def check(path: Path, folder: Path) -> None:
    """Raise an `OSError` unless a path is, or leads to, a regular file in a folder."""
    target = Path(os.path.realpath(path, strict=True))
    if not target.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, "a link that leads out of its folder", str(path))
    if not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))

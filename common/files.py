"""Reads files of objects that the user names as in kubectl's ``-f``."""

import errno
import os
import sys
from pathlib import Path

from common import messages


def files_of(path: Path, *, recursive: bool = False) -> list[Path]:
    """Returns a directory's files that kubectl would read, or the path itself if it is not a directory."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if recursive else path.iterdir()
    return sorted(file for file in files if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())


def read_named(path: Path, given_path: Path) -> tuple[str, bytes]:
    """Returns a file's name for messages, and its `content`. The path ``-`` is standard input."""
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), content(path, given_path)


def content(path: Path, given_path: Path, max_bytes: int = -1) -> bytes:
    """Returns the first ``max_bytes`` bytes of a file (-1 for all).

    ``given_path`` is the user's argument: the path itself, or its folder. Only an argument below ``/dev`` may
    be a pipe, such as the pipes that a shell creates. Any other path that is not a regular file raises an
    `OSError`.
    """
    if path != given_path or not path.is_relative_to("/dev"):
        require_regular_file(path, given_path if given_path.is_dir() else given_path.parent)
    with path.open("rb") as file:
        return file.read(max_bytes)


def require_regular_file(path: Path, folder: Path) -> None:
    """Raises an `OSError` if the path is not a regular file in the folder, or a link to such a file."""
    target = Path(os.path.realpath(path, strict=True))
    if not target.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, messages.LINK_LEADS_OUT, str(path))
    if not target.is_file():
        raise OSError(errno.EINVAL, messages.NOT_REGULAR, str(path))

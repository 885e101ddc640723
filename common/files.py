"""Files of objects, named as for kubectl."""

import sys
from pathlib import Path


def files_of(path: Path, *, recursive: bool = False) -> list[Path]:
    """A directory's files as kubectl takes them, anything else as it is."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if recursive else path.iterdir()
    return sorted(file for file in files if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())


def read_text(path: Path) -> tuple[str, bytes]:
    """What a file is called in messages, and its content; - is standard input."""
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), path.read_bytes()

"""The files of a rule table: one, or those of a directory, such as a mounted ConfigMap."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

Text = tuple[str, str | bytes]
"""A file's name, for messages, and its content."""

SUFFIXES: Final = (".yaml", ".yml")


def table_files(path: Path) -> Sequence[Path]:
    """The file, or the directory's files that end in ``.yaml`` or ``.yml``, in the order of their names."""
    if not path.is_dir():
        return [path]
    return [path / name for name in ordered(file.name for file in path.iterdir())]


def ordered(names: Iterable[str]) -> Sequence[str]:
    """Those that are names of tables, in the order in which they are laid over each other.

    Names that begin with a dot are not: the kubelet keeps the versions of a ConfigMap so.
    """
    return sorted(name for name in names if name.endswith(SUFFIXES) and not name.startswith("."))


def read_texts(path: Path, most: int) -> Sequence[Text]:
    """The texts of a table's files, of each no more than so many bytes and one.

    A mounted ConfigMap is read from one version of it: its link is followed once.

    Raises:
        OSError: if a file cannot be read.
    """
    version = path / "..data"
    found = table_files(version.resolve(strict=True) if version.is_dir() else path)
    texts: list[Text] = []
    for file in found:
        with file.open("rb") as opened:
            texts.append((str(path / file.name if path.is_dir() else path), opened.read(most + 1)))
    return texts

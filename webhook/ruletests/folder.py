"""Reads the folder of cases, and writes its snapshots."""

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from common.files import check
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rules.problems import Problem
from webhook.ruletests.cases import CasesError


def read(folder: Path) -> Mapping[str, bytes]:
    """Returns the YAML and JSON files in a folder and its subfolders, by relative path, without hidden ones.

    Raises:
        CasesError: A link leads out of the folder, or to a folder.
        OSError: A file cannot be read.
    """
    texts: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink() and not _leads_to_a_file(path, folder):
            problems.append(
                Problem(str(path), 1, "", "a link to a folder, out of the folder of the cases, or to nothing")
            )
        elif path.suffix not in {".yaml", ".yml", ".json"} or path.is_dir():
            continue
        elif path.is_file():
            texts[name.as_posix()] = path.read_bytes()
        else:
            problems.append(Problem(str(path), 1, "", "not a regular file"))
    if problems:
        raise CasesError(problems)
    return texts


def _leads_to_a_file(path: Path, folder: Path) -> bool:
    try:
        check(path, folder)
    except OSError:
        return False
    return True


def write(folder: Path, files: Mapping[str, Mapping[str, Json]]) -> None:
    """Writes files of snapshots, by relative path; each file is either replaced as a whole or unchanged.

    Raises:
        CasesError: A file would be written through a link, or hidden; then no file is written.
        OSError: A file cannot be written.
    """
    if problems := [problem for name in files for problem in _unfit(folder, Path(name))]:
        raise CasesError(problems)
    for name, snapshots in files.items():
        replace(folder / name, dump_yaml(dict(snapshots)))


def _unfit(folder: Path, name: Path) -> Iterator[Problem]:
    """Yields why a path must not be written."""
    for path in (name, *name.parents[:-1]):
        if (folder / path).is_symlink():
            target = (folder / path).readlink()
            yield Problem(
                str(folder / path), 1, "", f"a link to {target}: snapshots go into a file of their own"
            )
        elif path.name.startswith("."):
            yield Problem(str(folder / path), 1, "", "snapshots are not written to hidden files and folders")


def replace(path: Path, text: str) -> None:
    """Replaces a path, which may have become a link, by a new file with the same mode.

    Raises:
        OSError: The file cannot be written.
    """
    mode = stat.S_IMODE(path.lstat().st_mode) if path.is_file() else 0o644
    with TemporaryDirectory(dir=path.parent, prefix=".") as folder:
        new = Path(folder, path.name)
        new.write_text(text, encoding="utf-8")
        new.chmod(mode)
        new.replace(path)

"""The folder of cases: its files read, and its snapshots written."""

from collections.abc import Mapping
from pathlib import Path

from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rules.problems import Problem
from webhook.ruletests.cases import CasesError


def read(folder: Path) -> Mapping[str, bytes]:
    """The YAML and JSON files in a folder and those below it, by path from it; hidden ones are left out.

    Raises:
        CasesError: if a link leads out of the folder, or to a folder.
        OSError: if a file cannot be read.
    """
    texts: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink() and (path.is_dir() or not path.resolve().is_relative_to(folder.resolve())):
            problems.append(
                Problem(str(path), 1, "", "a link to a folder, or out of the folder of the cases")
            )
        elif path.suffix in {".yaml", ".yml", ".json"}:
            texts[name.as_posix()] = path.read_bytes()
    if problems:
        raise CasesError(problems)
    return texts


def write(folder: Path, files: Mapping[str, Mapping[str, Json]]) -> None:
    """Writes files of snapshots, by path from the folder."""
    for name, snapshots in files.items():
        (folder / name).write_text(dump_yaml(dict(snapshots)), encoding="utf-8")

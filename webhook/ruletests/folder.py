"""Reads the folder of cases, and writes its snapshots."""

import errno
import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from common.files import check
from webhook.documents import dump_yaml
from webhook.objects.tree import Json


def read(folder: Path) -> Mapping[str, bytes]:
    """Returns the YAML and JSON files in a folder and its subfolders, by relative path, without hidden ones.

    Raises:
        OSError: A file cannot be read, or a link leads out of the folder or to a folder.
    """
    texts: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        is_text = path.suffix in {".yaml", ".yml", ".json"} and not path.is_dir()
        if is_text or path.is_symlink():
            check(path, folder)
        if is_text:
            texts[name.as_posix()] = path.read_bytes()
    return texts


def write(folder: Path, files: Mapping[str, Mapping[str, Json]]) -> None:
    """Writes files of snapshots, by relative path; each file is either replaced as a whole or unchanged.

    Raises:
        OSError: A file cannot be written, or would be written through a link or hidden; then none is written.
    """
    for path in [path for name in map(Path, files) for path in (name, *name.parents[:-1])]:
        if (folder / path).is_symlink():
            why = f"a link to {(folder / path).readlink()}: snapshots go into a file of their own"
            raise OSError(errno.EPERM, why, str(folder / path))
        if path.name.startswith("."):
            why = "snapshots are not written to hidden files and folders"
            raise OSError(errno.EPERM, why, str(folder / path))
    for name, snapshots in files.items():
        replace(folder / name, dump_yaml(dict(snapshots)))


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

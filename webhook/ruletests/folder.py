"""Reads the files of a folder with cases, and writes the files of snapshots."""

import errno
import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from common.files import require_regular_file
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.ruletests import messages


def read_files(folder: Path) -> Mapping[str, bytes]:
    """Returns the texts of YAML and JSON files below a folder, by relative path, without hidden paths.

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
            require_regular_file(path, folder)
        if is_text:
            texts[name.as_posix()] = path.read_bytes()
    return texts


def write_snapshots(folder: Path, files: Mapping[str, Mapping[str, Json]]) -> None:
    """Writes files of snapshots, by relative path. Each file is replaced as a whole or, on error, unchanged.

    Raises:
        OSError: A file cannot be written. If a path is a link or hidden, no file is written.
    """
    for path in [path for name in map(Path, files) for path in (name, *name.parents[:-1])]:
        if (folder / path).is_symlink():
            reason = messages.is_link((folder / path).readlink())
            raise OSError(errno.EPERM, reason, str(folder / path))
        if path.name.startswith("."):
            raise OSError(errno.EPERM, messages.IS_HIDDEN, str(folder / path))
    for name, snapshots in files.items():
        replace_file(folder / name, dump_yaml(dict(snapshots)))


def replace_file(path: Path, text: str) -> None:
    """Replaces a file with a new file that has the same mode. A link is replaced, and not followed.

    Raises:
        OSError: The file cannot be written.
    """
    mode = stat.S_IMODE(path.lstat().st_mode) if path.is_file() else 0o644
    with TemporaryDirectory(dir=path.parent, prefix=".") as folder:
        new_file = Path(folder, path.name)
        new_file.write_text(text, encoding="utf-8")
        new_file.chmod(mode)
        new_file.replace(path)

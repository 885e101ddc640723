"""Finds, reads and merges the files of a rule table: one file, or the files of a directory."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from common import messages
from common.familyrows import merge_rows
from common.files import content

SUFFIXES: Final = (".yaml", ".yml")

PROFILES: Final = {"default": ("rules", "launcher", "kueue", "checks"), "aws-document": ("aws-document",)}
"""The profiles that a table may extend, and the files of each profile in addition to `SHARED`."""

SHARED: Final = ("workloads", "families")
"""The files that belong to every packaged table. No section is in both files."""

MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a rule table, in bytes; a ConfigMap holds no more (Kubernetes, "ConfigMaps": 1 MiB)."""

MOST_FILES: Final = 64
"""The maximum number of files of a rule table: the time to merge a file grows with the number of
rows of all files before it."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's C loader; the plugin, which is a single file, contains only the Python loader."""


def packaged_texts(profile: str = "default") -> Mapping[str, bytes]:
    """Returns the texts of a packaged table by name. This function needs no other code of the webhook."""
    folder = files("webhook.rules").joinpath("packaged")
    return {name: folder.joinpath(f"{name}.yaml").read_bytes() for name in (*SHARED, *PROFILES[profile])}


def table_files(path: Path) -> Sequence[Path]:
    """Returns the file, or the table files of a directory in the order of `table_file_names`."""
    if not path.is_dir():
        return [path]
    return [path / name for name in table_file_names(file.name for file in path.iterdir())]


def table_file_names(names: Iterable[str]) -> Sequence[str]:
    """Returns the names of table files, in the order in which they are merged.

    Names that begin with a dot are left out: the kubelet uses these names for the versions of a ConfigMap.
    """
    return sorted(name for name in names if name.endswith(SUFFIXES) and not name.startswith("."))


def read_texts(path: Path) -> Sequence[tuple[str, bytes]]:
    """Returns the name and the first `MOST_BYTES` + 1 bytes of each file of a table.

    All files of a mounted ConfigMap are read from one version: its link ``..data`` is followed once.

    Raises:
        OSError: A file cannot be read; see `common.files.content`.
    """
    version = path / "..data"
    paths = table_files(version.resolve(strict=True) if version.is_dir() else path)
    names = [str(path / file.name if path.is_dir() else path) for file in paths]
    return [(name, content(file, path, MOST_BYTES + 1)) for name, file in zip(names, paths, strict=True)]


def merge_texts(texts: Iterable[str | bytes], *sections: str) -> dict[str, dict[str, Any]]:
    """Returns merged sections of a table: maps are merged by key, rows by name. Later texts take precedence.

    Guarantees have no names: rows with equal namespaces and units are the same row.

    Only the webhook checks whether the texts are a valid table.

    Raises:
        ValueError: A text cannot be read.
    """
    table: dict[str, dict[str, Any]] = {section: {} for section in sections}
    try:
        for document in (yaml.load(text, _Loader) for text in texts):  # noqa: S506 - a safe loader
            for section, rows_by_name in table.items():
                rows = document.get(section) or {}
                is_map = isinstance(rows, dict)
                named = rows.items() if is_map else ((_identity(section, row), row) for row in rows)
                for name, row in named:
                    old = rows_by_name.get(name, {})
                    rows_by_name[name] = merge_rows(old, row) if isinstance(row, dict) else row
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(messages.invalid_table(type(error).__name__, error)) from error
    return table


def _identity(section: str, row: Mapping[str, Any]) -> str:
    if section == "guarantees":
        globs = row["namespaces"]
        return f"{[globs] if isinstance(globs, str) else sorted(globs)} {row['unit']}"
    name: str = row["name"]
    return name

"""Writes the provenance of a release: SLSA provenance, version 1, in an in-toto statement.

The statement contains no time and no machine, so the same commit and images give the same statement.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testbed.images import archives, layout
from testbed.release.source import Source

NAME = "provenance.intoto.json"
BUILD = "urn:ultraserver-webhook:make-release:1"
"""The type of the build: ``make release`` of a commit, as in CONTRIBUTING.md."""
BUILDER = "urn:ultraserver-webhook:builder:a-persons-machine"
"""The builder: a person who has the key of the signature."""
WHEELS = "opt/ultraserver-webhook/wheels.sha256"
"""The file in an image with the checksums of the files that pip installed, as ``sha256sum`` prints them."""

Object = dict[str, Any]


def sha256(path: Path) -> str:
    """Returns the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def statement(files: Iterable[Path], images: Mapping[str, Path], sources: Source, *, dirty: bool) -> Object:
    """Returns the statement about a release.

    Args:
        files: The files of the release.
        images: The archives of the release's images, by name and tag.
        sources: The sources of the release.
        dirty: Whether the sources have changes that are not committed.
    """
    source = {"gitTree": sources.tree} if dirty else {"gitCommit": sources.commit, "gitTree": sources.tree}
    subjects = {path.name: sha256(path) for path in files}
    subjects |= {name: layout.digest(path).removeprefix("sha256:") for name, path in images.items()}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": _resources(subjects),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {"source": source, "dirty": dirty},
                "resolvedDependencies": [
                    {"name": "source", "digest": source},
                    *_resources(_materials(images.values())),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def _materials(images: Iterable[Path]) -> dict[str, str]:
    """Returns the digests of image contents that come from elsewhere: the lowest layer, and pip's files."""
    materials = {}
    for archive in images:
        (lowest, *_) = archives.diff_ids(archive)
        materials["lowest layer: Debian, by debootstrap"] = lowest.removeprefix("sha256:")
        for line in archives.text_of(archive, WHEELS).splitlines():
            digest, _, name = line.partition("  ")
            materials[name] = digest
    return materials


def _resources(digests: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]

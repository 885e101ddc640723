"""The sources of a release: a SLSA provenance, version 1, in an in-toto statement.

It has no time and no machine in it: the same commit and the same images give the same statement.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testbed.images import archives, layout
from testbed.release.source import Source

NAME = "provenance.intoto.json"
BUILD = "urn:ultraserver-webhook:make-release:1"
"""How it was built: ``make release`` of a commit, as CONTRIBUTING.md has it."""
BUILDER = "urn:ultraserver-webhook:builder:a-persons-machine"
"""The builder: a person with the key of the signature, by hand."""
WHEELS = "opt/ultraserver-webhook/wheels.sha256"
"""Where an image says which files pip installed, as ``sha256sum`` prints it."""

Object = dict[str, Any]


def sha256(path: Path) -> str:
    """Returns the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def statement(files: Iterable[Path], images: Mapping[str, Path], state: Source, *, dirty: bool) -> Object:
    """Returns the statement about a release.

    Args:
        files: of the release.
        images: the archives of its images, by name and tag.
        state: what it is made of.
        dirty: whether that is a checkout with changes: its commit is not what it is made of then.
    """
    source = {"gitTree": state.tree} if dirty else {"gitCommit": state.commit, "gitTree": state.tree}
    subjects = {path.name: sha256(path) for path in files}
    subjects |= {name: layout.digest(path).removeprefix("sha256:") for name, path in images.items()}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": _described(subjects),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {"source": source, "dirty": dirty},
                "resolvedDependencies": [
                    {"name": "source", "digest": source},
                    *_described(_materials(images.values())),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def _materials(images: Iterable[Path]) -> dict[str, str]:
    """Returns what the images contain besides the source: their lowest layer, and what pip installed."""
    materials = {}
    for archive in images:
        (lowest, *_) = archives.diff_ids(archive)
        materials["lowest layer: Debian, by debootstrap"] = lowest.removeprefix("sha256:")
        for line in archives.text_of(archive, WHEELS).splitlines():
            digest, _, name = line.partition("  ")
            materials[name] = digest
    return materials


def _described(digests: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]

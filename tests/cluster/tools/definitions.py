"""The CustomResourceDefinitions that ``tests/cluster/kinds`` uses, from the Go modules of their authors.

Nothing is built: a module is fetched, one file of it is copied, and its hash has to be the one named here.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

if __package__:
    from tests.cluster.tools import golang, progress
    from tests.cluster.tools.kit import CACHE
else:  # below build.py as a script: the folder of this file is the import path
    import golang  # type: ignore[import-not-found,no-redef]
    import progress  # type: ignore[import-not-found,no-redef]
    from kit import CACHE  # type: ignore[import-not-found,no-redef]

NAME = "kinds"


@dataclass(frozen=True)
class Definition:
    """One file of a Go module.

    Attributes:
        module: with its version.
        path: of the file in it.
        sha256: of the file.
    """

    module: str
    path: str
    sha256: str


DEFINITIONS = (
    Definition(
        "github.com/kubeflow/training-operator@v1.9.3",
        "manifests/base/crds/kubeflow.org_mpijobs.yaml",
        "477375d6759b1e173f3ac546ce8ee59ee3491ccb71cfa1df85243c29640870bf",
    ),
    Definition(
        "github.com/kubeflow/training-operator@v1.9.3",
        "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
        "eb80e57a984cdc7ceefaaf3fc561e21b673c30cbb58589f2389528d2b2760d22",
    ),
    Definition(
        "sigs.k8s.io/jobset@v0.10.1",
        "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "dd2d5dbb3186ea36f6815b19d9bc18c0f59ce50e28348d11d2a0888e0b5d0f16",
    ),
    Definition(
        "sigs.k8s.io/lws@v0.7.0",
        "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        "1f0a68582d5aea22c6b422747a09b1fb7f7768a4f741ae14b7d0abb46e3be5d2",
    ),
)


def directory() -> Path:
    """Where the files are, or will be."""
    digest = hashlib.sha256(repr(DEFINITIONS).encode()).hexdigest()[:16]
    return CACHE / NAME / digest


def files() -> list[Path]:
    """The files, whether or not they are there."""
    return [directory() / Path(each.path).name for each in DEFINITIONS]


def missing() -> list[str]:
    """The names of the files that are not there."""
    return [path.name for path in files() if not path.exists()]


def fetch() -> None:
    """Fetches what is missing and says where it is.

    Raises:
        LookupError: a file is another one than it was.
    """
    target = directory()
    target.mkdir(parents=True, exist_ok=True)
    for each, path in zip(DEFINITIONS, files(), strict=True):
        if path.exists():
            continue
        content = _content(each)
        found = hashlib.sha256(content).hexdigest()
        if found != each.sha256:
            raise LookupError(f"{each.path} of {each.module} has the SHA-256 {found}, not {each.sha256}")
        # Written beside and renamed, so that half a file is never found.
        with tempfile.NamedTemporaryFile(dir=target, delete=False) as part:
            part.write(content)
        Path(part.name).replace(path)
    progress.say(f"{NAME} are ready in {target}")


def _content(wanted: Definition) -> bytes:
    go = golang.find(CACHE / "go-toolchain", progress.say)
    with tempfile.TemporaryDirectory() as empty:
        # The hash of the file says whether it is the right one, so no checksum database has to be asked.
        command = ("mod", "download", "-json", wanted.module)
        said = go.output(*command, folder=Path(empty), more={"GOSUMDB": "off"})
    return Path(json.loads(said)["Dir"], wanted.path).read_bytes()

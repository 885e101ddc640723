"""What kubectl's own kustomize makes of base and overlays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.kubectl import program
from tests.docs.blocks import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Object = dict[str, Any]
Build = tuple[Object, ...]


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The one that the cluster tests use, or the machine's own; no cluster is asked."""
    try:
        return program()
    except FileNotFoundError as error:
        refuse = pytest.fail if os.environ.get("REQUIRE_CLUSTER") == "1" else pytest.skip
        refuse(str(error))


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the manifests, with a certificate where one's own is to be put."""
    copy = tmp_path_factory.mktemp("manifests") / "manifests"
    shutil.copytree(REPOSITORY / "manifests", copy)
    own = copy / "components" / "bring-your-own-certificate"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(own)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return copy


@pytest.fixture(scope="session")
def built(kubectl: Path, tree: Path) -> Callable[[str], Build]:
    """Builds a kustomization by its path below manifests/; each once."""
    made: dict[str, Build] = {}

    def build_one(path: str) -> Build:
        if path not in made:
            command = [str(kubectl), "kustomize", str(tree / path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            assert not done.stderr
            made[path] = tuple(yaml.safe_load_all(done.stdout))
        return made[path]

    return build_one


@pytest.fixture
def base(built: Callable[[str], Build]) -> Build:
    """The base."""
    return built("base")

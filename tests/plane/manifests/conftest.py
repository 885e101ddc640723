"""What kubectl's own kustomize makes of base and overlays."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.blocks import REPOSITORY

Object = dict[str, Any]
Build = tuple[Object, ...]
Command = list[str]


@pytest.fixture(scope="session")
def kustomize(tools: Path) -> Command:
    """The command that builds a kustomization; no cluster is asked."""
    return [str(tools / "kubectl"), "kustomize"]


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
def built(kustomize: Command, tree: Path) -> Callable[[str], Build]:
    """Builds a kustomization by its path below manifests/; each once."""
    made: dict[str, Build] = {}

    def build_one(path: str) -> Build:
        if path not in made:
            command = [*kustomize, str(tree / path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            assert not done.stderr
            made[path] = tuple(yaml.safe_load_all(done.stdout))
        return made[path]

    return build_one


@pytest.fixture(scope="session")
def combined(tree: Path) -> Callable[..., str]:
    """Writes an overlay of the base with components, in this order; its path below manifests/."""

    def write(*components: str) -> str:
        own = tree / "overlays" / "-".join(("own", *components))
        own.mkdir()
        listed = ", ".join(f"../../components/{name}" for name in components)
        text = f"resources: [../../base]\ncomponents: [{listed}]\n"
        (own / "kustomization.yaml").write_text(text, encoding="utf-8")
        return f"overlays/{own.name}"

    return write


@pytest.fixture
def base(built: Callable[[str], Build]) -> Build:
    """The base."""
    return built("base")

"""What Helm makes of the chart and values."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from testbed import chart
from testbed.plane.controlplane import ControlPlane
from tests.docs.blocks import REPOSITORY

Object = dict[str, Any]
Build = tuple[Object, ...]


@pytest.fixture(scope="session")
def built(helm: None) -> Callable[..., Build]:
    """Renders the chart with values; each set of them once."""
    assert helm is None

    @cache
    def build_one(values: str) -> Build:
        return tuple(chart.objects({"createNamespace": True} | json.loads(values)))

    return lambda **values: build_one(json.dumps(values, sort_keys=True))


@pytest.fixture(scope="package")
def control_plane(
    tools: Path, helm: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane without nodes; every test leaves it with nothing of ours."""
    assert helm is None
    with ControlPlane(tmp_path_factory.mktemp("chart"), tools) as running:
        yield running


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of one's own."""
    folder = tmp_path_factory.mktemp("own")
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


@pytest.fixture
def base(built: Callable[..., Build]) -> Build:
    """The default."""
    return built()

"""Fixtures: the objects that Helm renders from the chart, and a control plane."""

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
Rendered = tuple[Object, ...]


@pytest.fixture(scope="session")
def render(helm: None) -> Callable[..., Rendered]:
    """A function that renders the chart with values, once for each set of values."""
    assert helm is None

    @cache
    def render_once(values: str) -> Rendered:
        return tuple(chart.objects({"createNamespace": True} | json.loads(values)))

    return lambda **values: render_once(json.dumps(values, sort_keys=True))


@pytest.fixture(scope="package")
def control_plane(
    tools: Path, helm: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane without nodes. Every test deletes the chart's objects at its end."""
    assert helm is None
    with ControlPlane(tmp_path_factory.mktemp("chart"), tools) as running:
        yield running


@pytest.fixture(scope="session")
def own_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its key and its CA certificate, as a user may provide them."""
    folder = tmp_path_factory.mktemp("own")
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


@pytest.fixture
def defaults(render: Callable[..., Rendered]) -> Rendered:
    """The objects of the chart with the default values."""
    return render()

"""Renders the chart with Helm.

``python -m testbed.chart`` writes the chart's copies of files of the packaged table, and then
``manifests/install.yaml``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.kits import build

Object = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parents[1]
CHART = REPOSITORY / "manifests" / "chart"
RULES = CHART / "rules"
"""The files of the rule table that the chart adds for some values."""
COPIES = {"placement": RULES / "30-placement.yaml", "families": CHART / "families.yaml"}
"""The chart's copies of files of the packaged table. They are not links, because Helm reads no files outside
the chart, and Flux does not follow links."""
INSTALL = REPOSITORY / "manifests" / "install.yaml"
"""The chart with its default values, as Helm renders it, for users without Helm."""
NAME: Final = "ultraserver-webhook"
"""The name of the Helm release and of its namespace."""
RECOMMENDED: Final[dict[str, dict[str, Any]]] = {
    "cert-manager": {"certificates": "certManager"},
    "failclosed": {"failurePolicy": "Fail"},
    "guard-warn": {"guard": "warn"},
    "hyperpod": {"hyperpod": True},
    "kinds": {"kinds": ["all"]},
    "monitoring": {"monitoring": {"enabled": True}},
    "neuron-scheduler": {"pods": True, "neuronScheduler": "my-scheduler"},
    "opt-in": {"optIn": True},
    "without-placement": {"placement": False},
}
"""Recommended values of the chart, by the name of their manifest in a release."""


class ChartError(RuntimeError):
    """Helm cannot render the chart with these values; the message is Helm's error output."""


def packaged_file(name: str) -> Path:
    """Returns the path of a file of the packaged table."""
    return REPOSITORY / "webhook" / "rules" / "packaged" / f"{name}.yaml"


def helm() -> Path:
    """Returns the path of the helm that the test bed has built or, if there is none, of the machine's helm.

    Raises:
        FileNotFoundError: There is no helm.
    """
    return build.HELM.program("helm")


def render(values: Mapping[str, Any] | None = None, chart: Path = CHART) -> str:
    """Returns the output of ``helm template`` for ``kubectl apply``, with the Namespace object.

    Args:
        values: Values that differ from the chart's defaults.
        chart: The chart's folder.

    Raises:
        ChartError: The chart or its schema refuses the values.
        FileNotFoundError: There is no helm.
    """
    return _render(json.dumps({"createNamespace": True} | dict(values or {})), chart)


@cache
def _render(values: str, chart: Path) -> str:
    command = [str(helm()), "template", NAME, str(chart), "--namespace", NAME, "--values", "-"]
    result = subprocess.run(command, input=values, check=False, capture_output=True, text=True)
    if result.returncode:
        raise ChartError(result.stderr.strip())
    return result.stdout


def objects(values: Mapping[str, Any] | None = None) -> list[Object]:
    """Returns the objects of an installation with these values. Without values, Helm is not needed.

    Raises:
        ChartError: The chart or its schema refuses the values.
        FileNotFoundError: There is no helm.
    """
    text = render(values) if values else INSTALL.read_text(encoding="utf-8")
    return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]


if __name__ == "__main__":
    try:
        for name, path in COPIES.items():
            path.write_bytes(packaged_file(name).read_bytes())
        INSTALL.write_text(render(), encoding="utf-8")
    except (ChartError, FileNotFoundError) as error:
        sys.exit(f"manifests: {error}")

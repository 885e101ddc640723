"""The chart: its values rendered by Helm, and the rendered files in the repository.

As a program, ``python -m testbed.chart``, it writes ``manifests/install.yaml``, and before it the chart's
copies of files of the packaged table.
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
"""The files of the rule table that values bring."""
COPIES = {"placement": RULES / "30-placement.yaml", "families": CHART / "families.yaml"}
"""Files of the packaged table that the chart has, too: Helm reads nothing outside, and Flux no links."""
INSTALL = REPOSITORY / "manifests" / "install.yaml"
"""The default as Helm renders it, for users without Helm."""
NAME: Final = "ultraserver-webhook"
"""The name of the release, and of its namespace."""
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
"""Recommended values, by the name of the manifest that a release has for them."""


class ChartError(RuntimeError):
    """Helm does not render the chart with these values; the message is Helm's."""


def packaged_file(name: str) -> Path:
    """Returns a file of the packaged table."""
    return REPOSITORY / "webhook" / "rules" / "packaged" / f"{name}.yaml"


def helm() -> Path:
    """Returns the helm of the testbed, or else the machine's own.

    Raises:
        FileNotFoundError: there is none.
    """
    return build.HELM.program("helm")


def rendered(values: Mapping[str, Any] | None = None, chart: Path = CHART) -> str:
    """Returns what ``helm template`` prints, with the namespace: what kubectl applies.

    Args:
        values: other than the chart's own.
        chart: its folder.

    Raises:
        ChartError: the chart or its schema refuses the values.
        FileNotFoundError: there is no helm.
    """
    return _rendered(json.dumps({"createNamespace": True} | dict(values or {})), chart)


@cache
def _rendered(values: str, chart: Path) -> str:
    command = [str(helm()), "template", NAME, str(chart), "--namespace", NAME, "--values", "-"]
    done = subprocess.run(command, input=values, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ChartError(done.stderr.strip())
    return done.stdout


def objects(values: Mapping[str, Any] | None = None) -> list[Object]:
    """Returns the objects of an installation with these values; those of the default need no Helm.

    Raises:
        ChartError: see ``rendered``.
        FileNotFoundError: there is no helm.
    """
    text = rendered(values) if values else INSTALL.read_text(encoding="utf-8")
    return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]


if __name__ == "__main__":
    try:
        for name, path in COPIES.items():
            path.write_bytes(packaged_file(name).read_bytes())
        INSTALL.write_text(rendered(), encoding="utf-8")
    except (ChartError, FileNotFoundError) as error:
        sys.exit(f"manifests: {error}")

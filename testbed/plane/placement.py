"""Whole-job admission on a control plane: its own manifests and rights, as a process on loopback."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import chart
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import text, together
from testbed.plane.process import Program

ROWS = chart.RULES / "30-placement.yaml"
"""The rows that put the gate on a job's pods."""
NAMESPACE = "ultraserver-webhook"
ACCOUNT = "ultraserver-placement"
COMPONENT = "app.kubernetes.io/component"
POLICY = "ValidatingAdmissionPolicy"
STORED = {*managers.RIGHTS, POLICY, f"{POLICY}Binding", "ConfigMap"}
"""The objects of an installation except its programs, and how these are reached."""


def install(plane: ControlPlane, values: Mapping[str, Any] | None = None) -> Path:
    """Applies all that needs no kubelet: rights, the guard and the other policies, the table.

    Args:
        plane: Where.
        values: Values of the chart, other than the default, which needs no Helm.

    Returns:
        A folder with the files of the table, as it is mounted.
    """
    parts = [part for part in chart.objects(values) if part["kind"] in STORED]
    plane.kubectl.run("apply", "-f", "-", stdin=text(together(*parts)))
    folder = plane.folder / "rules"
    folder.mkdir()
    (table,) = (part["data"] for part in parts if part["kind"] == "ConfigMap")
    for name, rows in table.items():
        (folder / name).write_text(rows, encoding="utf-8")
    return folder


def install_rights(plane: ControlPlane) -> None:
    """Creates what the program may do, and what bounds that without the guard; its namespace is there."""
    parts = [part for part in chart.objects({"guard": "off"}) if part["kind"] in STORED]
    own = [part for part in parts if part["metadata"]["labels"].get(COMPONENT, "").startswith("placement")]
    plane.kubectl.create(together(*own))


def start(
    plane: ControlPlane,
    name: str,
    kubeconfig: Path | None = None,
    code: str = "",
    **options: float | str | Path,
) -> Program:
    """Starts ``python -m placement run``, or other code, under the account that the manifests give it."""
    given = str(kubeconfig or plane.account(NAMESPACE, ACCOUNT))
    command = [sys.executable, *(("-c", code) if code else ("-m", "placement")), "run", "--kubeconfig", given]
    command += ["--namespace", NAMESPACE, "--identity", name, "--log-format", "text"]
    for key, value in options.items():
        command.append(f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}"))
    return plane.programs.start(name, command, cwd=webhook.REPOSITORY, env=dict(os.environ))

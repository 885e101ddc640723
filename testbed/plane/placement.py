"""Runs whole-job admission on a control plane: with its manifests and rights, as a process on loopback."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import chart
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import to_json, list_object
from testbed.plane.process import Program

ROWS = chart.RULES / "30-placement.yaml"
"""The rows that add the scheduling gate to a job's pods."""
NAMESPACE = "ultraserver-webhook"
ACCOUNT = "ultraserver-placement"
COMPONENT = "app.kubernetes.io/component"
POLICY = "ValidatingAdmissionPolicy"
STORED = {*managers.RIGHTS, POLICY, f"{POLICY}Binding", "ConfigMap"}
"""The kinds of the objects of an installation, except its programs and their Services."""


def install(plane: ControlPlane, values: Mapping[str, Any] | None = None) -> Path:
    """Applies the objects that need no kubelet: rights, the guard and the other policies, the table.

    Args:
        plane: The control plane.
        values: Values of the chart. The default values need no Helm.

    Returns:
        A folder with the files of the table, as a Pod would mount it.
    """
    parts = [part for part in chart.objects(values) if part["kind"] in STORED]
    plane.kubectl.run("apply", "-f", "-", stdin=to_json(list_object(*parts)))
    folder = plane.folder / "rules"
    folder.mkdir()
    (table,) = (part["data"] for part in parts if part["kind"] == "ConfigMap")
    for name, rows in table.items():
        (folder / name).write_text(rows, encoding="utf-8")
    return folder


def install_rights(plane: ControlPlane) -> None:
    """Creates the rights of the placement program, and the policies that limit them without the guard."""
    parts = [part for part in chart.objects({"guard": "off"}) if part["kind"] in STORED]
    placement_parts = [
        part for part in parts if part["metadata"]["labels"].get(COMPONENT, "").startswith("placement")
    ]
    plane.kubectl.create(list_object(*placement_parts))


def start(
    plane: ControlPlane,
    name: str,
    kubeconfig: Path | None = None,
    code: str = "",
    **options: float | str | Path,
) -> Program:
    """Starts ``python -m placement run``, or other code, with the account in the manifests."""
    kubeconfig_path = str(kubeconfig or plane.account(NAMESPACE, ACCOUNT))
    command = [
        sys.executable,
        *(("-c", code) if code else ("-m", "placement")),
        "run",
        "--kubeconfig",
        kubeconfig_path,
    ]
    command += ["--namespace", NAMESPACE, "--identity", name, "--log-format", "text"]
    for key, value in options.items():
        command.append(f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}"))
    return plane.programs.start(name, command, cwd=webhook.REPOSITORY, env=dict(os.environ))

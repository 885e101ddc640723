"""Runs the placement program as a process next to a control plane, with its manifests and roles."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import chart
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object, to_json
from testbed.plane.process import Program

ROWS = chart.RULES / "30-placement.yaml"
"""The rows that add the scheduling gate to a job's pods."""
NAMESPACE = "ultraserver-webhook"
ACCOUNT = "ultraserver-placement"
COMPONENT = "app.kubernetes.io/component"
POLICY = "ValidatingAdmissionPolicy"
STORED = {*managers.RIGHTS, POLICY, f"{POLICY}Binding", "ConfigMap"}
"""The kinds of objects that `install` applies."""


def install(plane: ControlPlane, values: Mapping[str, Any] | None = None) -> Path:
    """Applies the objects that need no kubelet: roles, the guard and the other policies, the rule table.

    Args:
        plane: The control plane.
        values: Values of the chart. Without values, Helm is not needed.

    Returns:
        A folder with the files of the rule table, as a Pod would mount it.
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
    """Creates the roles of the placement program and the policies that limit it, but not the guard."""
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
    """Starts ``python -m placement run`` with the service account in the manifests.

    Args:
        plane: The control plane.
        name: The name of the log, and the identity for the Lease.
        kubeconfig: A kubeconfig that replaces the kubeconfig of the service account.
        code: Python code that runs in place of the module ``placement``.
        options: Additional options of the command; True for an option without a value.
    """
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

"""The chart's previews behind the API server, with no kubelet."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from testbed import chart
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl
from testbed.plane.process import free_ports
from testbed.waiting import until
from tests.plane.fleets.installed import MERGE

NAME = f"{chart.NAME}-preview"


@contextlib.contextmanager
def previews(plane: ControlPlane, namespace: str) -> Iterator[Kubectl]:
    """The chart's Service and command, where a kubelet would run them: on an address of this machine."""
    (port,) = free_ports(1)
    parts = {part["kind"]: part for part in chart.objects() if part["metadata"]["name"] == NAME}
    (container,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    own = ("--port=", "--rules=")
    options = [option for option in container["args"] if not option.startswith(own)]
    command = [sys.executable, "-m", "webhook", container["command"][1], *options, f"--port={port}"]
    program = plane.programs.start("previews", command, cwd=chart.REPOSITORY)
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
    kubectl = plane.kubectl.share_namespace(namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "preview",
            "labels": parts["Deployment"]["spec"]["template"]["metadata"]["labels"],
        },
        "spec": {
            "nodeName": nodes.plain_nodes(1)[0]["metadata"]["name"],
            "containers": [
                {"name": "preview", "image": "x", "ports": [{"name": "http", "containerPort": port}]}
            ],
        },
    }
    parts["Service"]["metadata"]["namespace"] = kubectl.namespace
    kubectl.create(together(parts["Service"], pod))
    runs(kubectl, "preview")
    try:
        yield kubectl
    finally:
        kubectl.delete("pod", "preview", at_once=True)
        plane.programs.stop(program)


def runs(namespace: Kubectl, pod: str) -> None:
    """Says of a Pod what a kubelet says once its containers run, here at the address of this machine.

    The API server takes it a moment after a webhook is gone.
    """
    here = address()
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "PodScheduled")]
    status = {"phase": "Running", "podIP": here, "podIPs": [{"ip": here}], "conditions": ready}
    path = f"/api/v1/namespaces/{namespace.namespace}/pods/{pod}/status"

    def taken() -> bool:
        return namespace.api.send("PATCH", path, {"status": status}, MERGE)[0] == HTTPStatus.OK

    until(taken, f"the status of Pod {pod}")


def address() -> str:
    """This machine's own, for the API server passes on nothing to loopback addresses; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has loopback addresses only, to which the API server passes on nothing")
        return str(probe.getsockname()[0])

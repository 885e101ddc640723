"""Runs the chart's preview service, to which the API server proxies requests, without a kubelet."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from testbed import chart
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import ClusterError, Program, free_ports
from testbed.waiting import until

NAME = f"{chart.NAME}-preview"
MERGE = "application/merge-patch+json"


class NoAddressError(ClusterError):
    """The machine has only loopback addresses, to which the API server proxies no request."""


def start(plane: ControlPlane, rules: Path | None = None) -> tuple[Program, int]:
    """Starts the chart's preview command, optionally with another table; returns the program and its port."""
    (port,) = free_ports(1)
    (container,) = _parts()["Deployment"]["spec"]["template"]["spec"]["containers"]
    replaced_options = ("--port=", "--rules=")
    options = [option for option in container["args"] if not option.startswith(replaced_options)]
    # These rules are the whole table. Without the option, the command adds rows for whole-job admission.
    options += [f"--port={port}", *([f"--rules={rules}", "--without-placement"] if rules else [])]
    command = [sys.executable, "-m", "webhook", container["command"][1], *options]
    program = plane.programs.start("previews", command, cwd=chart.REPOSITORY)
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
    return program, port


def _parts() -> dict[str, Object]:
    return {part["kind"]: part for part in chart.objects() if part["metadata"]["name"] == NAME}


def wait_until_served(kubectl: Kubectl, revision: str = "") -> None:
    """Waits until the API server proxies requests to a preview service with this revision of the table."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/services/{NAME}:http/proxy/readyz"

    def ready() -> bool:
        status, answer = kubectl.api.send("GET", path, None)
        return status == HTTPStatus.OK and revision in {"", answer["table"]}

    until(ready, f"previews with table {revision or 'of any revision'}")


@contextlib.contextmanager
def run_preview_service(plane: ControlPlane, namespace: str, rules: Path | None = None) -> Iterator[Kubectl]:
    """Runs the chart's preview command as the Pod of its Service; yields kubectl for the namespace."""
    address()
    program, port = start(plane, rules)
    parts = _parts()
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
    kubectl.create(list_object(parts["Service"], pod))
    mark_running(kubectl, "preview")
    try:
        yield kubectl
    finally:
        kubectl.delete("pod", "preview", at_once=True)
        kubectl.delete("service", NAME)
        plane.programs.stop(program)


def mark_running(namespace: Kubectl, pod: str) -> None:
    """Writes the status of a running Pod with this machine's address, as a kubelet does.

    The write is repeated, because the API server may still call a webhook that has just been removed.
    """
    own_address = address()
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "PodScheduled")]
    status = {
        "phase": "Running",
        "podIP": own_address,
        "podIPs": [{"ip": own_address}],
        "conditions": conditions,
    }
    path = f"/api/v1/namespaces/{namespace.namespace}/pods/{pod}/status"

    def is_accepted() -> bool:
        return namespace.api.send("PATCH", path, {"status": status}, MERGE)[0] == HTTPStatus.OK

    until(is_accepted, f"the status of Pod {pod}")


def address() -> str:
    """Returns an address of this machine that is not loopback. No packet is sent.

    Raises:
        NoAddressError: The machine has no such address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise NoAddressError(str(NoAddressError.__doc__)) from error
        return str(probe.getsockname()[0])

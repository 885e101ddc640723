"""The chart's previews behind the API server, with no kubelet."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from testbed import chart
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import ClusterError, Program, free_ports
from testbed.waiting import until

NAME = f"{chart.NAME}-preview"
MERGE = "application/merge-patch+json"


class NoAddressError(ClusterError):
    """The machine has loopback addresses only, to which the API server passes on nothing."""


def start(plane: ControlPlane, rules: Path | None = None) -> tuple[Program, int]:
    """Returns the chart's command as a process of this machine, with a table or the default; and its port."""
    (port,) = free_ports(1)
    (container,) = _parts()["Deployment"]["spec"]["template"]["spec"]["containers"]
    own = ("--port=", "--rules=")
    options = [option for option in container["args"] if not option.startswith(own)]
    # As `serve` reads a table: of one file the rows alone, without those of whole-job admission.
    options += [f"--port={port}", *([f"--rules={rules}", "--without-placement"] if rules else [])]
    command = [sys.executable, "-m", "webhook", container["command"][1], *options]
    program = plane.programs.start("previews", command, cwd=chart.REPOSITORY)
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
    return program, port


def _parts() -> dict[str, Object]:
    return {part["kind"]: part for part in chart.objects() if part["metadata"]["name"] == NAME}


def answering(kubectl: Kubectl, revision: str = "") -> None:
    """Waits until the API server passes on to the service, whose table has this revision."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/services/{NAME}:http/proxy/readyz"

    def ready() -> bool:
        status, answer = kubectl.api.send("GET", path, None)
        return status == HTTPStatus.OK and revision in {"", answer["table"]}

    until(ready, f"previews by table {revision or 'of any revision'}")


@contextlib.contextmanager
def previews(plane: ControlPlane, namespace: str, rules: Path | None = None) -> Iterator[Kubectl]:
    """Yields the chart's Service and command, as a kubelet would run them, on an address of this machine."""
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
    kubectl.create(together(parts["Service"], pod))
    runs(kubectl, "preview")
    try:
        yield kubectl
    finally:
        kubectl.delete("pod", "preview", at_once=True)
        kubectl.delete("service", NAME)
        plane.programs.stop(program)


def runs(namespace: Kubectl, pod: str) -> None:
    """Writes the status of a Pod whose containers run, as a kubelet does, with the address of this machine.

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
    """Returns this machine's own address; nothing is sent.

    Raises:
        NoAddressError: It has none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise NoAddressError(str(NoAddressError.__doc__)) from error
        return str(probe.getsockname()[0])

"""Pods on real nodes: they run where they are said to be, talk to each other, and outlive what runs them."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.process import ClusterError
from tests.cluster.realnodes.images import BUSYBOX
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.plane import RealPlane


def pod(name: str, script: str, node: str = "", **container: Any) -> Object:
    """A Pod of one busybox that runs a script, on a node or wherever the scheduler puts it."""
    one = {"name": "main", "image": BUSYBOX, "command": ["busybox", "sh", "-c", script], **container}
    spec: Object = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [one]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": spec,
    }


def result(kubectl: Kubectl, name: str) -> str:
    """What a Pod printed, once it has ended well."""
    ended = kubectl.wait_for(
        lambda found: found["status"]["phase"] in {"Succeeded", "Failed"}, "pod", name, timeout=PATIENCE
    )
    log = kubectl.run("logs", name).stdout
    assert ended["status"]["phase"] == "Succeeded", log
    return log


def test_a_pod_runs_on_each_node_with_an_address_of_the_nodes_network(
    real_plane: RealPlane, here: Kubectl
) -> None:
    names = {f"pod-{node.place.number}": node for node in real_plane.nodes.values()}
    for name, node in names.items():
        here.create(pod(name, "busybox hostname -i", node=node.place.name))
    for name, node in names.items():
        address = ipaddress.ip_address(result(here, name).strip())
        assert address in ipaddress.ip_network(node.place.pods)
        assert here.get_json("pod", name)["status"]["hostIP"] == node.place.address


def test_a_service_is_reached_from_another_node_and_found_by_name(
    real_plane: RealPlane, here: Kubectl
) -> None:
    first, second, *_ = real_plane.nodes
    here.create(pod("server", "echo hello > index.html; exec busybox httpd -f -p 8080", node=first))
    spec = {"selector": {"name": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    created = here.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "greeting"}, "spec": spec}
    )
    address = created["spec"]["clusterIP"]
    # Not busybox's wget: the static one of Debian ends with a segmentation fault, whatever it is asked.
    asks = f"import urllib.request as r; print(r.urlopen('http://{address}', timeout=5).read().decode())"
    answers: list[str] = []

    def answered() -> bool:
        with contextlib.suppress(ClusterError):
            answers.append(real_plane.nodes[second].run(sys.executable, "-c", asks).strip())
        return any(answers)

    until(answered)
    assert answers[-1] == "hello"
    name = f"greeting.{here.namespace}.svc.cluster.local"
    here.create(pod("client", f"until busybox nslookup {name}; do busybox sleep 1; done", node=second))
    assert address in result(here, "client")


def test_kubectl_reaches_into_a_pod_through_the_kubelet(real_plane: RealPlane, here: Kubectl) -> None:
    here.create(pod("waits", "echo begun; exec busybox sleep 600", node=next(iter(real_plane.nodes))))
    here.wait_for(lambda found: found["status"]["phase"] == "Running", "pod", "waits", timeout=PATIENCE)
    assert here.run("logs", "waits").stdout == "begun\n"
    assert here.run("exec", "waits", "--", "busybox", "echo", "inside").stdout == "inside\n"


def test_a_memory_limit_is_enforced(real_plane: RealPlane, here: Kubectl) -> None:
    greedy = pod("greedy", "exec busybox tail /dev/zero", resources={"limits": {"memory": "32Mi"}})
    here.create(greedy)
    ended = here.wait_for(
        lambda found: found["status"]["phase"] == "Failed", "pod", "greedy", timeout=PATIENCE
    )
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 137
    assert real_plane.nodes.keys() >= {ended["spec"]["nodeName"]}


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_node_whose_program_was_killed_works_again_once_it_is_started(
    program: str, real_plane: RealPlane, here: Kubectl
) -> None:
    name, node = list(real_plane.nodes.items())[-1]
    here.create(pod("stays", "exec busybox sleep 600", node=name))
    here.wait_for(lambda found: found["status"]["phase"] == "Running", "pod", "stays", timeout=PATIENCE)
    node.kill(program)
    {"kubelet": node.start_kubelet, "containerd": node.start_runtime}[program]()
    here.create(pod("new", "echo done", node=name))
    assert result(here, "new") == "done\n"
    kept = here.get_json("pod", "stays")["status"]
    assert kept["phase"] == "Running"
    assert kept["containerStatuses"][0]["restartCount"] == 0

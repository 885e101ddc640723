"""Tests of creates while a replica is killed, hangs, loses its node, or finds all nodes full.

The numbers are in docs/operations.md. Chance decides how many creates meet a replica that is
gone, so ``LOST_LIMIT`` limits their number.
"""

import sys

import pytest

from common.quantities import thousandths
from testbed.images.images import BUSYBOX
from testbed.nodes import story
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import Load
from testbed.waiting import until
from tests.nodes.replicas import (
    CREATES_IN_THREE_SECONDS,
    LOST_LIMIT,
    REPLICAS,
    SERVING,
    Product,
    ready,
    restarts,
    signal,
)
from webhook.serving.settings import API_SERVER_IDLE_SECONDS

pytestmark = pytest.mark.soak


def assert_few_lost(load: Load, begin: float, end: float) -> None:
    """Asserts that no create failed, and that few creates were not mutated, all of them between two times."""
    assert load.failed_creates == []
    assert load.lost_creates_outside(begin, end) == []
    assert len(load.lost_creates) < LOST_LIMIT


def test_a_killed_replica_loses_few_creates_until_its_endpoint_is_removed(product: Product) -> None:
    with product.load("replica killed") as load:
        replica = product.wait_for_replicas()[0]
        killed = load.seconds
        signal(product.plane, replica, "SIGKILL", "--all")
        product.own.wait_for(
            lambda obj: restarts([obj]) != restarts([replica]),
            *("pod", replica["metadata"]["name"]),
            timeout=story.SECONDS,
        )
        # The Pod is not ready, and every kube-proxy removes its endpoint in this time.
        load.wait_for_creates(CREATES_IN_THREE_SECONDS)
        noticed = load.seconds
    assert_few_lost(load, killed, noticed)


def test_a_replica_that_hangs_loses_few_creates_until_it_is_restarted(product: Product) -> None:
    with product.load("replica hangs") as load:
        replica = product.wait_for_replicas()[0]
        name = ("pod", replica["metadata"]["name"])
        hung = load.seconds
        signal(product.plane, replica, "SIGSTOP", "--all")
        # From now on, new connections go to the other replica.
        product.own.wait_for(lambda obj: not ready(obj), *name, timeout=story.SECONDS)
        unready = load.seconds
        # The API server's kept connections to this replica end with the process.
        product.own.wait_for(
            lambda obj: restarts([obj]) != restarts([replica]) and ready(obj),
            *name,
            timeout=story.SECONDS,
        )
        again = load.seconds
        sys.stderr.write(f"\nnot ready after {unready - hung:.0f} s, again after {again - hung:.0f} s")
    assert_few_lost(load, hung, again)


def test_a_dead_node_loses_few_creates_until_connections_to_its_replica_are_forgotten(
    product: Product,
) -> None:
    with product.load("node of a replica dies") as load:
        pod = product.wait_for_replicas()[0]
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]

        def replaced(obj: Object) -> bool:
            elsewhere = [item for item in obj["items"] if item["spec"].get("nodeName") != node]
            return sum(map(ready, elsewhere)) == REPLICAS

        died = load.seconds
        product.plane.nodes[node].die()
        try:
            product.own.wait_for(lambda obj: not ready(obj), "pod", name, timeout=story.SECONDS)
            unready = load.seconds
            # Every kube-proxy removes the endpoint in this time.
            load.wait_for_creates(CREATES_IN_THREE_SECONDS)
            noticed = load.seconds
            product.own.wait_for(replaced, *SERVING, timeout=story.SECONDS)
            sys.stderr.write(
                f"\nnot ready after {unready - died:.0f} s, replaced after {load.seconds - died:.0f} s"
            )
            # The API server may still have connections to the dead replica, each of which costs one job.
            forgotten = max(noticed, died + API_SERVER_IDLE_SECONDS)
            until(lambda: load.seconds > forgotten, "the API server's idle time", seconds=story.SECONDS)
        finally:
            product.plane.revive(node)
    assert_few_lost(load, died, forgotten)


def filling_pod(product: Product, node: str) -> Object:
    """Returns a Pod without a priority class that requests all CPU that is free on a node."""
    on_node = ("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")
    pods = product.own.get_json(*on_node)["items"]
    resources = [container.get("resources", {}) for pod in pods for container in pod["spec"]["containers"]]
    requests = sum(thousandths(resource.get("requests", {}).get("cpu", "0")) for resource in resources)
    allocatable = thousandths(product.own.get_json("node", node)["status"]["allocatable"]["cpu"])
    container = {"name": "main", "image": BUSYBOX, "command": ["busybox", "sleep", "3600"]}
    container |= {"resources": {"requests": {"cpu": f"{allocatable - requests}m"}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    number = product.plane.nodes[node].host.number
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"fills-{number}"}, "spec": spec}


def test_a_new_replica_preempts_a_pod_if_all_nodes_are_full(product: Product, kubectl: Kubectl) -> None:
    product.wait_for_replicas()
    for node in product.plane.nodes:
        kubectl.create(filling_pod(product, node))
    kubectl.wait_for(
        lambda obj: all(item["status"]["phase"] == "Running" for item in obj["items"]),
        "pods",
        timeout=story.SECONDS,
    )
    with product.load("one replica more on full nodes") as load:
        try:
            product.scale(REPLICAS + 1)
            product.wait_for_replicas(REPLICAS + 1)
        finally:
            product.scale(REPLICAS)
    assert len(kubectl.get_json("pods")["items"]) == len(product.plane.nodes) - 1
    assert load.lost_creates == []

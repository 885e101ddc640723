"""What happens to one replica: killed, hung, without its node, or without room; jobs keep coming meanwhile.

The numbers are in docs/operations.md. Chance decides how many jobs meet a replica that is gone; ``MOST_LOST``
has the bound, and what it follows from.
"""

import sys

import pytest

from common.quantities import thousandths
from testbed.images.images import BUSYBOX
from testbed.nodes import story
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import Load
from testbed.waiting import until
from tests.nodes.replicas import MOST_LOST, NOTICED, REPLICAS, SERVING, Product, ready, restarts, signal
from webhook.serving.settings import API_SERVER_IDLE_SECONDS

pytestmark = pytest.mark.soak


def bounded(load: Load, begin: float, end: float) -> None:
    """Asserts that nothing was refused, and that jobs were lost between two times only, and few of them."""
    assert load.failed == []
    assert load.lost_outside(begin, end) == []
    assert len(load.lost) < MOST_LOST


def test_a_replica_that_is_killed_is_missed_until_its_endpoint_is_gone(product: Product) -> None:
    with product.load("replica killed") as load:
        replica = product.settle()[0]
        killed = load.seconds
        signal(product.plane, replica, "SIGKILL", "--all")
        product.own.wait_for(
            lambda obj: restarts([obj]) != restarts([replica]),
            *("pod", replica["metadata"]["name"]),
            timeout=story.SECONDS,
        )
        # The Pod is not ready then, and kube-proxy hears of it.
        load.more(NOTICED)
        noticed = load.seconds
    bounded(load, killed, noticed)


def test_a_replica_that_hangs_is_missed_until_it_is_started_again(product: Product) -> None:
    with product.load("replica hangs") as load:
        replica = product.settle()[0]
        name = ("pod", replica["metadata"]["name"])
        hung = load.seconds
        signal(product.plane, replica, "SIGSTOP", "--all")
        # New connections are then made to the other one.
        product.own.wait_for(lambda obj: not ready(obj), *name, timeout=story.SECONDS)
        unready = load.seconds
        # Those that the API server has kept end with the process.
        product.own.wait_for(
            lambda obj: restarts([obj]) != restarts([replica]) and ready(obj),
            *name,
            timeout=story.SECONDS,
        )
        again = load.seconds
        sys.stderr.write(f"\nnot ready after {unready - hung:.0f} s, again after {again - hung:.0f} s")
    bounded(load, hung, again)


def test_a_node_that_dies_is_missed_until_it_is_found_not_ready_and_its_replica_comes_elsewhere(
    product: Product,
) -> None:
    with product.load("node of a replica dies") as load:
        pod = product.settle()[0]
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]

        def replaced(obj: Object) -> bool:
            elsewhere = [each for each in obj["items"] if each["spec"].get("nodeName") != node]
            return sum(map(ready, elsewhere)) == REPLICAS

        died = load.seconds
        product.plane.nodes[node].die()
        try:
            product.own.wait_for(lambda obj: not ready(obj), "pod", name, timeout=story.SECONDS)
            result = load.seconds
            # kube-proxy hears of it.
            load.more(NOTICED)
            noticed = load.seconds
            product.own.wait_for(replaced, *SERVING, timeout=story.SECONDS)
            sys.stderr.write(
                f"\nnot ready after {result - died:.0f} s, replaced after {load.seconds - died:.0f} s"
            )
            # The API server may still have connections to the dead replica, each of which costs one job.
            forgotten = max(noticed, died + API_SERVER_IDLE_SECONDS)
            until(lambda: load.seconds > forgotten, "the API server's idle time", seconds=story.SECONDS)
        finally:
            product.plane.revive(node)
    bounded(load, died, forgotten)


def full(product: Product, node: str) -> Object:
    """Returns a Pod of no priority that asks for all CPU which is left on a node."""
    on = ("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")
    pods = product.own.get_json(*on)["items"]
    resources = [each.get("resources", {}) for one in pods for each in one["spec"]["containers"]]
    requests = sum(thousandths(each.get("requests", {}).get("cpu", "0")) for each in resources)
    has = thousandths(product.own.get_json("node", node)["status"]["allocatable"]["cpu"])
    container = {"name": "main", "image": BUSYBOX, "command": ["busybox", "sleep", "3600"]}
    container |= {"resources": {"requests": {"cpu": f"{has - requests}m"}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    number = product.plane.nodes[node].place.number
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"fills-{number}"}, "spec": spec}


def test_a_replica_comes_up_where_jobs_have_taken_all_nodes(product: Product, here: Kubectl) -> None:
    product.settle()
    for node in product.plane.nodes:
        here.create(full(product, node))
    here.wait_for(
        lambda obj: all(each["status"]["phase"] == "Running" for each in obj["items"]),
        "pods",
        timeout=story.SECONDS,
    )
    with product.load("one replica more on full nodes") as load:
        try:
            product.scale(REPLICAS + 1)
            product.settle(REPLICAS + 1)
        finally:
            product.scale(REPLICAS)
    assert len(here.get_json("pods")["items"]) == len(product.plane.nodes) - 1
    assert load.lost == []

"""What becomes of one replica: killed, hung, or without room; jobs keep coming meanwhile.

The numbers are in docs/operations.md.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from common.quantities import thousandths
from tests.cluster.realnodes import story
from tests.cluster.realnodes.replicas import MOST_LOST, NOTICED, REPLICAS, ready
from tests.cluster.realnodes.test_nodes import pod
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.replicas import Product


def restarts(replica: Object) -> int:
    """How often its container was started again."""
    return int(replica["status"]["containerStatuses"][0]["restartCount"])


def test_a_replica_that_is_killed_is_missed_until_its_endpoint_is_gone(product: Product) -> None:
    with product.load("replica killed") as load:
        replica = product.pods()[0]
        killed = load.seconds
        product.signal(replica, "SIGKILL")
        product.own.wait_for(
            lambda found: restarts(found) > restarts(replica),
            *("pod", replica["metadata"]["name"]),
            timeout=story.SECONDS,
        )
        # The Pod is not ready then, and kube-proxy hears of it.
        load.more(NOTICED)
        noticed = load.seconds
    assert load.failed == []
    assert load.lost_outside(killed, noticed) == []
    # Of new connections half meet it; how many are new, chance decides.
    assert len(load.lost) < MOST_LOST


def test_a_replica_that_hangs_is_missed_until_it_is_started_again(product: Product) -> None:
    with product.load("replica hangs") as load:
        replica = product.pods()[0]
        name = ("pod", replica["metadata"]["name"])
        hung = load.seconds
        product.signal(replica, "SIGSTOP")
        # New connections are then made to the other one.
        product.own.wait_for(lambda found: not ready(found), *name, timeout=story.SECONDS)
        unready = load.seconds
        # Those that the API server has kept end with the process.
        product.own.wait_for(
            lambda found: restarts(found) > restarts(replica) and ready(found), *name, timeout=story.SECONDS
        )
        again = load.seconds
        sys.stderr.write(f"\nnot ready after {unready - hung:.0f} s, again after {again - hung:.0f} s")
    assert load.failed == []
    assert load.lost_outside(hung, again) == []
    assert len(load.lost) < MOST_LOST


def full(product: Product, node: str) -> Object:
    """A Pod of no priority that asks for all CPU which is left on a node."""
    on = ("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")
    pods = product.own.get_json(*on)["items"]
    resources = [each.get("resources", {}) for one in pods for each in one["spec"]["containers"]]
    asked = sum(thousandths(each.get("requests", {}).get("cpu", "0")) for each in resources)
    has = thousandths(product.own.get_json("node", node)["status"]["allocatable"]["cpu"])
    number = product.plane.nodes[node].place.number
    rest = {"requests": {"cpu": f"{has - asked}m"}}
    return pod(f"fills-{number}", "exec busybox sleep 3600", node, resources=rest)


def test_a_replica_comes_up_where_jobs_have_taken_all_nodes(product: Product, here: Kubectl) -> None:
    until(product.settled, story.SECONDS)
    for node in product.plane.nodes:
        here.create(full(product, node))
    here.wait_for(
        lambda found: all(each["status"]["phase"] == "Running" for each in found["items"]),
        "pods",
        timeout=story.SECONDS,
    )
    with product.load("one replica more on full nodes") as load:
        try:
            product.scale(REPLICAS + 1)
            until(lambda: product.settled(REPLICAS + 1), story.SECONDS)
        finally:
            product.scale(REPLICAS)
    assert len(here.get_json("pods")["items"]) == len(product.plane.nodes) - 1
    assert load.lost == []

"""A node that holds a replica dies at once, as by a power cut, while jobs keep coming."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.cluster.realnodes import story
from tests.cluster.realnodes.replicas import MOST_LOST, NOTICED, REPLICAS, ready
from tests.waiting import until
from webhook.serving.settings import API_SERVER_IDLE_SECONDS

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.realnodes.replicas import Product


def test_a_node_that_dies_is_missed_until_it_is_found_not_ready_and_its_replica_comes_elsewhere(
    product: Product,
) -> None:
    with product.load("node of a replica dies") as load:
        pod = product.pods()[0]
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]

        def unready(found: Object) -> bool:
            return not ready(found)

        died = load.seconds
        product.plane.nodes[node].die()
        try:
            product.own.wait_for(unready, "pod", name, timeout=story.SECONDS)
            found = load.seconds
            # kube-proxy hears of it.
            load.more(NOTICED)
            noticed = load.seconds

            def replaced() -> bool:
                elsewhere = [each for each in product.pods() if each["spec"].get("nodeName") != node]
                return sum(map(ready, elsewhere)) == REPLICAS

            until(replaced, story.SECONDS)
            sys.stderr.write(
                f"\nnot ready after {found - died:.0f} s, replaced after {load.seconds - died:.0f} s"
            )
            # The API server may still have connections to the dead replica, each of which costs one job.
            forgotten = max(noticed, died + API_SERVER_IDLE_SECONDS)
            until(lambda: load.seconds > forgotten, story.SECONDS)
        finally:
            product.plane.revive(node)
    assert load.failed == []
    assert load.lost_outside(died, forgotten) == []
    assert len(load.lost) < MOST_LOST

"""During any change of the installation, new jobs are created, and changed by the webhook.

The numbers are in docs/operations.md.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.nodes import story
from tests.nodes.replicas import REPLICAS, Product

NAME = "ultraserver-webhook"
SCALED = 5


def test_the_nodes_of_all_replicas_are_drained_at_once(product: Product) -> None:
    nodes = {pod["spec"]["nodeName"] for pod in product.settle()}
    assert len(nodes) == REPLICAS
    options = ["--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={story.SECONDS:.0f}s"]

    def drain(node: str) -> None:
        product.own.run("drain", node, *options)

    try:
        # One command for both would drain one after the other.
        with product.load("drain of two nodes") as load, ThreadPoolExecutor() as pool:
            assert len(list(pool.map(drain, nodes))) == REPLICAS
            assert not nodes & {pod["spec"]["nodeName"] for pod in product.settle()}
    finally:
        product.own.run("uncordon", *nodes)
    assert load.lost == []


@pytest.mark.soak
def test_pods_come_up_in_a_namespace_with_a_quota(product: Product) -> None:
    quota = ("resourcequota", "what-pods-ask-for")
    most = "pods=9,requests.cpu=2,requests.memory=2Gi,limits.memory=4Gi"
    product.own.run("create", *quota, f"--hard={most}")
    try:
        product.own.wait_for(lambda obj: obj.get("status", {}).get("hard"), *quota)
        with product.load("restart within a quota") as load:
            for name in (NAME, f"{NAME}-certs"):
                product.own.run("rollout", "restart", f"deployment/{name}")
                story.wait_for_rollout(product.own, name)
    finally:
        product.own.run("delete", *quota)
    assert load.lost == []


@pytest.mark.soak
def test_more_replicas_and_fewer_again(product: Product) -> None:
    with product.load(f"scale to {SCALED} and back to {REPLICAS}") as load:
        try:
            product.scale(SCALED)
            product.settle(SCALED)
        finally:
            product.scale(REPLICAS)
    assert load.lost == []


@pytest.mark.soak
def test_peers_that_leave_after_the_handshake_end_no_others_connection(product: Product) -> None:
    # With the Python and the OpenSSL of the image, which are newer than those of most who run the tests.
    ask = "import ssl, sys; [ssl.get_server_certificate((a, 8443)) for _ in range(100) for a in sys.argv[1:]]"
    with product.load("peers that leave") as load:
        addresses = [pod["status"]["podIP"] for pod in product.settle()]
        product.plane.namespaces.run([sys.executable, "-c", ask, *addresses])
    assert load.lost == []

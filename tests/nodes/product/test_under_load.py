"""Tests that the webhook changes every new job during changes of the installation.

The numbers are in docs/operations.md.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.nodes import story
from tests.nodes.replicas import REPLICAS, Product

NAME = "ultraserver-webhook"
MORE_REPLICAS = 5


def test_draining_the_nodes_of_all_replicas_at_once_loses_no_create(product: Product) -> None:
    nodes = {pod["spec"]["nodeName"] for pod in product.wait_for_replicas()}
    assert len(nodes) == REPLICAS
    options = ["--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={story.SECONDS:.0f}s"]

    def drain(node: str) -> None:
        product.own.run("drain", node, *options)

    try:
        # A single command would drain one node after the other.
        with product.load("drain of two nodes") as load, ThreadPoolExecutor() as pool:
            assert len(list(pool.map(drain, nodes))) == REPLICAS
            assert not nodes & {pod["spec"]["nodeName"] for pod in product.wait_for_replicas()}
    finally:
        product.own.run("uncordon", *nodes)
    assert load.lost_creates == []


@pytest.mark.soak
def test_a_restart_in_a_namespace_with_a_quota_loses_no_create(product: Product) -> None:
    quota = ("resourcequota", "what-pods-ask-for")
    limits = "pods=9,requests.cpu=2,requests.memory=2Gi,limits.memory=4Gi"
    product.own.run("create", *quota, f"--hard={limits}")
    try:
        product.own.wait_for(lambda obj: obj.get("status", {}).get("hard"), *quota)
        with product.load("restart within a quota") as load:
            for name in (NAME, f"{NAME}-certs"):
                product.own.run("rollout", "restart", f"deployment/{name}")
                story.wait_for_rollout(product.own, name)
    finally:
        product.own.run("delete", *quota)
    assert load.lost_creates == []


@pytest.mark.soak
def test_scaling_up_and_down_loses_no_create(product: Product) -> None:
    with product.load(f"scale to {MORE_REPLICAS} and back to {REPLICAS}") as load:
        try:
            product.scale(MORE_REPLICAS)
            product.wait_for_replicas(MORE_REPLICAS)
        finally:
            product.scale(REPLICAS)
    assert load.lost_creates == []


@pytest.mark.soak
def test_peers_that_disconnect_after_the_handshake_end_no_other_connection(product: Product) -> None:
    # The image has a newer Python and OpenSSL than most machines that run the other tests.
    script = (
        "import ssl, sys; [ssl.get_server_certificate((a, 8443)) for _ in range(100) for a in sys.argv[1:]]"
    )
    with product.load("peers that leave") as load:
        addresses = [pod["status"]["podIP"] for pod in product.wait_for_replicas()]
        product.plane.namespaces.run([sys.executable, "-c", script, *addresses])
    assert load.lost_creates == []

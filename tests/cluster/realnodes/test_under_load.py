"""Whatever is done to the installation, jobs that keep coming are admitted, and by the webhook.

The numbers are in docs/operations.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.cluster.jobs import template
from tests.cluster.realnodes import story
from tests.cluster.realnodes.product import version
from tests.cluster.realnodes.replicas import (
    CONFIG,
    DEPLOYMENT,
    REPLICAS,
    TABLE,
    put_table,
    ready,
)
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.realnodes.replicas import Product

NAME = "ultraserver-webhook"
NOW, OTHER = version(), "0.0.1"
SCALED = 5
BROKEN = TABLE.replace("reason:", "reasn:")


def test_another_version_goes_out_and_back(product: Product) -> None:
    story.tag(product.plane, OTHER)
    try:
        with product.load("rollout and undo") as load:
            product.own.run("set", "image", DEPLOYMENT, f"webhook=ultraserver-webhook:{OTHER}")
            story.rolled_out(product.own, NAME)
            until(product.settled, story.SECONDS)
            assert story.serving(product.own) == {f"ultraserver-webhook:{OTHER}"}
            product.own.run("rollout", "undo", DEPLOYMENT)
            story.rolled_out(product.own, NAME)
    finally:
        story.install(product.plane.kubectl)
    assert story.serving(product.own) == {f"ultraserver-webhook:{NOW}"}
    assert load.lost == []


def test_pods_come_up_in_a_namespace_with_a_quota(product: Product) -> None:
    quota = ("resourcequota", "what-pods-ask-for")
    most = "pods=9,requests.cpu=2,requests.memory=2Gi,limits.memory=4Gi"
    product.own.run("create", *quota, f"--hard={most}")
    try:
        product.own.wait_for(lambda found: found.get("status", {}).get("hard"), *quota)
        with product.load("restart within a quota") as load:
            for name in (NAME, f"{NAME}-certs"):
                product.own.run("rollout", "restart", f"deployment/{name}")
                story.rolled_out(product.own, name)
    finally:
        product.own.run("delete", *quota)
    assert load.lost == []


def test_more_replicas_and_fewer_again(product: Product) -> None:
    with product.load(f"scale to {SCALED} and back to {REPLICAS}") as load:
        try:
            product.scale(SCALED)
            until(lambda: product.settled(SCALED), story.SECONDS)
        finally:
            product.scale(REPLICAS)
    assert load.lost == []


def test_the_nodes_of_all_replicas_are_drained_at_once(product: Product) -> None:
    until(product.settled, story.SECONDS)
    nodes = product.nodes()
    assert len({*nodes}) == REPLICAS
    options = ["--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={story.SECONDS:.0f}s"]

    def drain(node: str) -> None:
        product.own.run("drain", node, *options)

    try:
        # One command for both would drain one after the other.
        with product.load("drain of two nodes") as load, ThreadPoolExecutor() as pool:
            assert len(list(pool.map(drain, nodes))) == REPLICAS
            assert not {*product.nodes()} & {*nodes}
    finally:
        product.own.run("uncordon", *nodes)
    assert load.lost == []


def test_peers_that_leave_after_the_handshake_end_no_others_connection(product: Product) -> None:
    # With the Python and the OpenSSL of the image, which are newer than those of most who run the tests.
    ask = "import ssl, sys; [ssl.get_server_certificate((a, 8443)) for _ in range(100) for a in sys.argv[1:]]"
    with product.load("peers that leave") as load:
        addresses = [pod["status"]["podIP"] for pod in product.pods()]
        assert len(addresses) == REPLICAS
        product.plane.namespaces.run([sys.executable, "-c", ask, *addresses])
    assert load.lost == []


def test_the_certificate_program_is_evicted_while_the_certificate_is_rotated(product: Product) -> None:
    metric = "ultraserver_webhook_certificate_expiry_timestamp_seconds"
    (pod,) = filter(ready, product.pods("certificates"))
    name, before = pod["metadata"]["name"], product.metric(metric)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{story.NAMESPACE}/pods/{name}/eviction"
    rotate = [sys.executable, "-m", "certs", "rotate", "--force=leaf", "--wait=60"]
    rotate += [f"--kubeconfig={product.plane.kubeconfig}", f"--namespace={story.NAMESPACE}"]
    rotate += [f"--{kind}=ultraserver-webhook" for kind in ("mutating", "validating")]
    with product.load("certificate program evicted, leaf rotated") as load:
        product.own.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        subprocess.run(rotate, cwd=story.REPOSITORY, check=True, capture_output=True)
        until(lambda: product.says_another(metric, before))
        story.rolled_out(product.own, f"{NAME}-certs")
        until(lambda: name not in [each["metadata"]["name"] for each in product.pods("certificates")])
    assert load.lost == []


def test_a_changed_table_is_served_by_every_replica_and_a_broken_one_by_none(product: Product) -> None:
    revision, stale = "ultraserver_webhook_table_info", "ultraserver_webhook_table_stale"
    installed = product.metric(revision)
    assert len(installed) == 1
    try:
        with product.load("table changed, then broken") as load:
            assert put_table(product.own, TABLE) == ""
            until(lambda: product.says_another(revision, installed))
            changed = product.metric(revision)
            assert all(tolerates(product) for _ in range(4))
            said = put_table(product.own, BROKEN)
            assert 'admission webhook "rule-table.ultraserver-webhook.io" denied the request' in said
            # By this label the check knows what is a table.
            product.own.run("label", *CONFIG, "ultraserver-webhook.io/rules-")
            assert put_table(product.own, BROKEN) == ""
            until(lambda: product.metric(stale) == {" 1.0"})
            assert product.metric(revision) == changed
            assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in product.pods())
    finally:
        story.install(product.plane.kubectl)
        until(lambda: product.metric(revision) == installed and product.metric(stale) == {" 0.0"})
    assert load.lost == []


def tolerates(product: Product) -> bool:
    """Whether a new job gets what only the changed table adds."""
    shown = template(product.team.create(mpijob(4), "--dry-run=server"), "Worker")
    return "example.com/ultraserver" in json.dumps(shown["spec"].get("tolerations", []))

"""``kubectl ultraserver`` where the webhook places jobs alone: by the real scheduler and operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl
from testbed.plane.plugin import account, eventually, plugin, texts
from tests.docs.blocks import blocks_of

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]


@pytest.fixture
def cordoned(control_plane_nodes: Labels, namespace: Kubectl) -> Iterator[str]:
    """The name of a node of an UltraServer that is cordoned."""
    name = next(name for name, found in control_plane_nodes.items() if nodes.SERVER_ID_4 in found)
    namespace.run("cordon", name)
    yield name
    namespace.run("uncordon", name)


def test_a_job_is_verified_by_the_labels_of_its_nodes(
    namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    namespace.create(mpijob(8))
    found = eventually(namespace, ["verify", "mpijob/train"], lambda found: found["whole"])
    assert found["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    rows = found["rows"]
    assert [row["rank"] for row in rows] == list(range(8))
    for row in rows:
        assert len(row["labels"]) == 5
        assert row["labels"].items() <= control_plane_nodes[row["node"]].items()
    ranked = [(row["labels"][nodes.SERVER_ID_4], row["labels"][nodes.NODE_ID_4]) for row in rows]
    assert ranked == sorted(ranked)
    assert plugin(namespace, "verify", "train").returncode == 0


def test_a_job_of_which_a_node_is_cordoned_is_told_which(
    namespace: Kubectl, cordoned: str, control_plane_nodes: Labels
) -> None:
    server = control_plane_nodes[cordoned][nodes.SERVER_ID_4]
    namespace.create(mpijob(4, worker_spec={"nodeSelector": {nodes.SERVER_ID_4: server}}))
    found = eventually(
        namespace, ["why", "train"], lambda found: any("nodes are available" in text for text in texts(found))
    )
    where = [item for item in found["findings"] if item["kind"] == "ultraserver"]
    # With a required term for the block three are bound and the fourth has to join them; it may also be
    # that none is.
    assert f"node {cordoned} cordoned" in where[0]["text"] + " ".join(where[0]["details"])
    assert plugin(namespace, "verify", "train").returncode == 1


def test_a_job_that_the_webhook_did_not_see_is_told_why(plain_namespace: Kubectl) -> None:
    plain_namespace.create(mpijob(1))
    found = eventually(plain_namespace, ["why", "train"], lambda found: found["findings"])
    (text,) = [text for text in texts(found) if text.startswith("webhook")]
    assert text == (
        f"webhook ultraserver-webhook: added nothing: namespace {plain_namespace.namespace} "
        f"is opted out by label {keys.INJECT}=disabled"
    )


def test_a_quota_is_named_by_the_operators_own_event(namespace: Kubectl) -> None:
    namespace.run("create", "quota", "few", "--hard=count/pods=2")
    namespace.wait_for(lambda found: found.get("status", {}).get("hard"), "resourcequota", "few")
    namespace.create(mpijob(4))

    def named(found: Any) -> bool:
        missing = [item for item in found["findings"] if "of 4 workers exist" in item["text"]]
        return any("exceeded quota: few" in str(item["details"]) for item in missing)

    eventually(namespace, ["why", "train"], named)


def test_the_documented_rights_are_enough_and_what_lacks_is_said(namespace: Kubectl, tmp_path: Path) -> None:
    namespace.create(mpijob(1))
    eventually(namespace, ["verify", "train"], lambda found: found["whole"])
    person = account(namespace, "ada", tmp_path)
    done = plugin(namespace, "verify", "train", kubeconfig=person)
    assert done.returncode == 2
    assert f"cannot get mpijobs in namespace {namespace.namespace}: " in done.stderr
    assert "docs/kubectl.md has a ClusterRole" in done.stderr
    who = f"--serviceaccount={namespace.namespace}:ada"
    namespace.run("create", "rolebinding", "ada-view", "--clusterrole=view", who)
    namespace.run("create", "role", "mpijobs", "--verb=get", "--resource=mpijobs.kubeflow.org")
    namespace.run("create", "rolebinding", "ada-mpijobs", "--role=mpijobs", who)
    done = plugin(namespace, "verify", "train", kubeconfig=person)
    assert "cannot list nodes: " in done.stderr
    (role,) = [block for block in blocks_of("docs/kubectl.md") if block.file == "reader.yaml"]
    namespace.apply(role.text)
    binding = f"ultraserver-reader-{namespace.namespace}"
    namespace.run("create", "clusterrolebinding", binding, "--clusterrole=ultraserver-reader", who)
    for words in (["verify", "train"], ["why", "train"], ["topology"]):
        done = plugin(namespace, *words, kubeconfig=person)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
    namespace.run("delete", "clusterrolebinding", binding)

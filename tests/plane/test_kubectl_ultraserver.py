"""``kubectl ultraserver`` where the webhook places jobs alone: by the real scheduler and operator."""

from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl
from testbed.plane.plugin import account, eventually, plugin
from tests.docs.blocks import blocks_of

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]


def test_a_job_is_verified_by_the_labels_of_its_nodes(
    namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    namespace.create(mpijob(8))
    value = eventually(namespace, ["verify", "mpijob/train"], lambda obj: obj["whole"])
    assert value["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    rows = value["rows"]
    assert [row["rank"] for row in rows] == list(range(8))
    for row in rows:
        assert len(row["labels"]) == 5
        assert row["labels"].items() <= control_plane_nodes[row["node"]].items()
    ranked = [(row["labels"][nodes.SERVER_ID_4], row["labels"][nodes.NODE_ID_4]) for row in rows]
    assert ranked == sorted(ranked)
    assert plugin(namespace, "verify", "train").returncode == 0


def test_a_quota_is_named_by_the_operators_own_event(namespace: Kubectl) -> None:
    namespace.run("create", "quota", "few", "--hard=count/pods=2")
    namespace.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "few")
    namespace.create(mpijob(4))

    def named(stored: Any) -> bool:
        missing = [item for item in stored["findings"] if "of 4 workers exist" in item["text"]]
        return any("exceeded quota: few" in str(item["details"]) for item in missing)

    eventually(namespace, ["why", "train"], named)


def test_the_documented_rights_are_enough_and_missing_ones_are_named(
    namespace: Kubectl, tmp_path: Path
) -> None:
    namespace.create(mpijob(1))
    eventually(namespace, ["verify", "train"], lambda obj: obj["whole"])
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
    for words in (["verify", "train"], ["why", "train"], ["topology"], ["queue"]):
        done = plugin(namespace, *words, kubeconfig=person)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
    namespace.run("delete", "clusterrolebinding", binding)

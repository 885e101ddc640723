"""Tests of ``kubectl ultraserver`` with the real scheduler and operator, without the placement program."""

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


def test_a_job_is_verified_by_the_labels_of_its_nodes(namespace: Kubectl, labels_by_node: Labels) -> None:
    namespace.create(mpijob(8))
    value = eventually(namespace, ["verify", "mpijob/train"], lambda obj: obj["whole"])
    assert value["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    rows = value["rows"]
    assert [row["rank"] for row in rows] == list(range(8))
    for row in rows:
        assert len(row["labels"]) == 5
        assert row["labels"].items() <= labels_by_node[row["node"]].items()
    positions = [(row["labels"][nodes.SERVER_ID_4], row["labels"][nodes.NODE_ID_4]) for row in rows]
    assert positions == sorted(positions)
    assert plugin(namespace, "verify", "train").returncode == 0


def test_why_shows_a_quota_by_the_event_of_the_operator(namespace: Kubectl) -> None:
    namespace.run("create", "quota", "few", "--hard=count/pods=2")
    namespace.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "few")
    namespace.create(mpijob(4))

    def shows_quota(answer: Any) -> bool:
        findings = [item for item in answer["findings"] if "of 4 workers exist" in item["text"]]
        return any("exceeded quota: few" in str(item["details"]) for item in findings)

    eventually(namespace, ["why", "train"], shows_quota)


def test_the_documented_rights_are_enough_and_errors_name_the_missing_rights(
    namespace: Kubectl, tmp_path: Path
) -> None:
    namespace.create(mpijob(1))
    eventually(namespace, ["verify", "train"], lambda obj: obj["whole"])
    kubeconfig = account(namespace, "ada", tmp_path)
    result = plugin(namespace, "verify", "train", kubeconfig=kubeconfig)
    assert result.returncode == 2
    assert f"cannot get mpijobs in namespace {namespace.namespace}: " in result.stderr
    assert "docs/kubectl.md has a ClusterRole" in result.stderr
    subject = f"--serviceaccount={namespace.namespace}:ada"
    namespace.run("create", "rolebinding", "ada-view", "--clusterrole=view", subject)
    namespace.run("create", "role", "mpijobs", "--verb=get", "--resource=mpijobs.kubeflow.org")
    namespace.run("create", "rolebinding", "ada-mpijobs", "--role=mpijobs", subject)
    result = plugin(namespace, "verify", "train", kubeconfig=kubeconfig)
    assert "cannot list nodes: " in result.stderr
    (role,) = [block for block in blocks_of("docs/kubectl.md") if block.file == "reader.yaml"]
    namespace.apply(role.text)
    binding = f"ultraserver-reader-{namespace.namespace}"
    namespace.run("create", "clusterrolebinding", binding, "--clusterrole=ultraserver-reader", subject)
    for words in (["verify", "train"], ["why", "train"], ["topology"], ["queue"]):
        result = plugin(namespace, *words, kubeconfig=kubeconfig)
        assert result.returncode == 0, result.stderr
        assert not result.stderr
    namespace.run("delete", "clusterrolebinding", binding)

"""``kubectl ultraserver`` where the webhook places jobs alone: by the real scheduler and operator."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.jobs import JOB_NAME, template
from tests.cluster.plugin import account, eventually, plugin, texts
from tests.docs.blocks import blocks_of
from tests.helpers import mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]
PART = "example.com/part"


def members(labels: Labels, server: str) -> list[str]:
    return sorted(name for name, found in labels.items() if found.get(nodes.SERVER_ID_4) == server)


@pytest.fixture
def part(control_plane_nodes: Labels, namespace: Kubectl) -> Iterator[list[str]]:
    """The nodes of one UltraServer, which jobs can select by a label; the last is cordoned."""
    server = max(found.get(nodes.SERVER_ID_4, "") for found in control_plane_nodes.values())
    names = members(control_plane_nodes, server)
    namespace.run("label", "node", *names, f"{PART}=here")
    namespace.run("cordon", names[-1])
    yield names
    namespace.run("uncordon", names[-1])
    namespace.run("label", "node", *names, f"{PART}-")


def test_a_job_is_verified_by_the_labels_of_its_nodes(
    namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    namespace.apply(mpijob(8))
    found = eventually(namespace, ["verify", "mpijob/train"], lambda found: found["whole"])
    assert found["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    rows = found["rows"]
    assert [row["rank"] for row in rows] == list(range(8))
    for row in rows:
        labels = control_plane_nodes[row["node"]]
        assert (row["server_4"], row["node_4"]) == (labels[nodes.SERVER_ID_4], labels[nodes.NODE_ID_4])
        assert (row["server_2"], row["mode"]) == (labels[nodes.SERVER_ID_2], labels[nodes.MODE])
    assert [(row["server_4"], row["node_4"]) for row in rows] == sorted(
        (row["server_4"], row["node_4"]) for row in rows
    )
    assert plugin(namespace, "verify", "train").returncode == 0


def test_a_job_of_which_a_node_is_cordoned_is_told_which(namespace: Kubectl, part: list[str]) -> None:
    namespace.apply(mpijob(4, worker_spec={"nodeSelector": {PART: "here"}}))
    found = eventually(
        namespace, ["why", "train"], lambda found: any("nodes are available" in text for text in texts(found))
    )
    where = [item for item in found["findings"] if item["kind"] == "ultraserver"]
    # With a required term for the block three are bound and the fourth has to join them; it may also be
    # that none is.
    assert f"node {part[-1]} cordoned" in where[0]["text"] + " ".join(where[0]["details"])
    assert plugin(namespace, "verify", "train").returncode == 1


def test_a_job_that_shares_an_ultraserver_is_told_with_whom(
    namespace: Kubectl, second_namespace: Kubectl, part: list[str]
) -> None:
    namespace.run("uncordon", part[-1])
    plain = mpijob(1, name="stray", annotations={keys.INJECT: "false"})
    template(plain, "Worker")["spec"]["nodeName"] = part[-1]
    second_namespace.apply(plain)
    namespace.apply(mpijob(2, worker_spec={"nodeSelector": {PART: "here"}}))
    eventually(namespace, ["verify", "train"], lambda found: found["whole"])
    found = eventually(namespace, ["topology", "--job", "train"], lambda found: found["ultraservers"])
    (server,) = found["ultraservers"]
    tenants = {tenant for spot in server["spots"] for tenant in spot["tenants"]}
    assert tenants == {f"{namespace.namespace}/train", f"{second_namespace.namespace}/stray"}


def test_a_job_that_the_webhook_did_not_see_is_told_why(plain_namespace: Kubectl) -> None:
    plain_namespace.apply(mpijob(1))
    found = eventually(plain_namespace, ["why", "train"], lambda found: found["findings"])
    (text,) = [text for text in texts(found) if text.startswith("webhook")]
    assert text == (
        f"webhook ultraserver-webhook: added nothing: namespace {plain_namespace.namespace} "
        f"is opted out by label {keys.INJECT}=disabled"
    )


def test_a_job_that_is_no_candidate_is_told_so(namespace: Kubectl) -> None:
    namespace.apply(mpijob(1, resource=None))
    found = eventually(namespace, ["why", "train"], lambda found: found["findings"])
    assert any("ask for no Neuron resource" in text for text in texts(found))


def test_a_quota_is_named_by_the_operators_own_event(namespace: Kubectl) -> None:
    namespace.run("create", "quota", "few", "--hard=count/pods=2")
    namespace.wait_for(lambda found: found.get("status", {}).get("hard"), "resourcequota", "few")
    namespace.apply(mpijob(4))
    found = eventually(
        namespace,
        ["why", "train"],
        lambda found: any("exceeded quota: few" in str(item["details"]) for item in found["findings"]),
    )
    assert any("of 4 workers exist" in text for text in texts(found))


def test_a_suspended_job_names_its_queue_or_says_that_it_has_none(namespace: Kubectl) -> None:
    job = mpijob(4)
    job["spec"]["runPolicy"] = {"suspend": True}
    namespace.apply(job)
    found = eventually(namespace, ["why", "train"], lambda found: found["findings"])
    assert texts(found) == ["job train: is suspended (spec.runPolicy.suspend), and by no queue"]
    job["metadata"] = {"name": "queued", "labels": {"kueue.x-k8s.io/queue-name": "trn2u"}}
    namespace.apply(job)
    found = eventually(namespace, ["why", "queued"], lambda found: found["findings"])
    assert texts(found) == ["queue trn2u: is named by the job, but Kueue is not installed in this cluster"]


def test_the_launchers_last_words_are_shown(namespace: Kubectl) -> None:
    namespace.apply(mpijob(1))
    pods = namespace.wait_for(
        lambda found: found["items"],
        *("pods", "-l", f"{JOB_NAME}=train,training.kubeflow.org/job-role=launcher"),
    )
    name = pods["items"][0]["metadata"]["name"]
    # What a kubelet reports: there is none.
    ended = {"exitCode": 1, "message": "ERROR: 1 problem(s).", "finishedAt": "2026-11-21T12:00:00Z"}
    status = {
        "name": "ultraserver-init-container",
        "image": "x",
        "imageID": "x",
        "ready": False,
        "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    patch = json.dumps({"status": {"initContainerStatuses": [status]}})
    namespace.run("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)
    found = eventually(
        namespace, ["why", "train"], lambda found: any("exit code" in text for text in texts(found))
    )
    (finding,) = [item for item in found["findings"] if "exit code" in item["text"]]
    assert finding["name"] == name
    assert finding["details"] == ["ERROR: 1 problem(s)."]


def test_an_unknown_job_is_answered_with_names_that_exist(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    namespace.apply(mpijob(1, name="trained"))
    second_namespace.apply(mpijob(1))
    done = plugin(namespace, "why", "train")
    assert done.returncode == 2
    assert f"there is no job train in namespace {namespace.namespace}" in done.stderr
    assert f"one of that name is in namespace {second_namespace.namespace}: give it with -n" in done.stderr
    assert "did you mean trained?" in done.stderr


def test_the_documented_rights_are_enough_and_what_lacks_is_said(namespace: Kubectl, tmp_path: Path) -> None:
    namespace.apply(mpijob(1))
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


def test_who_sees_one_namespace_only_is_told_what_was_not_looked_at(
    namespace: Kubectl, tmp_path: Path
) -> None:
    namespace.apply(mpijob(1))
    eventually(namespace, ["verify", "train"], lambda found: found["whole"])
    person = account(namespace, "bob", tmp_path)
    who = f"--serviceaccount={namespace.namespace}:bob"
    binding = f"bob-nodes-{namespace.namespace}"
    namespace.run("create", "role", "reads", "--verb=get,list", "--resource=pods,mpijobs.kubeflow.org")
    namespace.run("create", "rolebinding", "bob", "--role=reads", who)
    namespace.run("create", "clusterrole", binding, "--verb=list", "--resource=nodes")
    namespace.run("create", "clusterrolebinding", binding, f"--clusterrole={binding}", who)
    done = plugin(namespace, "verify", "train", kubeconfig=person)
    namespace.run("delete", "clusterrole,clusterrolebinding", binding)
    assert done.returncode == 0, done.stderr
    assert "note: pods of other namespaces were not looked at: " in done.stdout


def test_the_picture_shows_every_ultraserver(
    namespace: Kubectl, control_plane_nodes: Labels, tmp_path: Path
) -> None:
    path = tmp_path / "topology.svg"
    free = namespace.in_namespace("")
    assert plugin(free, "topology", "--svg", str(path)).returncode == 0
    drawn = "".join(ET.parse(path).getroot().itertext())  # noqa: S314 - our own
    for found in control_plane_nodes.values():
        assert found.get(nodes.SERVER_ID_4, "") in drawn

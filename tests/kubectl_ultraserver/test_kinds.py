"""Every kind of the table: what admission writes is read from the pods that the kind's controller makes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from contract.keys import GATE, HOSTNAME, JOB
from kube.api import Object
from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.fleet import MODE
from kubectl_ultraserver.listing import HOOKS_PATH, RULES_PATH, Lister
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.objects import NAME, templates
from kubectl_ultraserver.servers import servers
from kubectl_ultraserver.table import read
from kubectl_ultraserver.terminal import verification_lines
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.why import why
from placement.observe.model import Node
from tests.kubectl_ultraserver.api import Cluster
from tests.kubectl_ultraserver.build import NAMESPACE, THREE, case, event, fleet, pod, rules, run, work
from tests.placement.stored import path_of, store_nodes
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob
from webhook.engine import Request, evaluate
from webhook.rules.load import load_default

TRAINING, SET, LEADER = "training.kubeflow.org/", "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
VERSION = "jobset.x-k8s.io/v1alpha2"
COMPLETION = "batch.kubernetes.io/job-completion-index"
Labels = list[dict[str, int | str]]
KINDS: dict[str, tuple[Object, list[Labels]]] = {
    "Job": (job(8, completionMode="Indexed"), [[{COMPLETION: index} for index in range(8)]]),
    "Job without numbers": (job(4), [[{} for _ in range(4)]]),
    "JobSet": (jobset(2, 4), [[{SET + "job-index": n // 4, COMPLETION: n % 4} for n in range(8)]]),
    "LeaderWorkerSet": (
        leaderworkerset(2, 4),
        [
            [{LEADER + "group-index": group, LEADER + "worker-index": 0} for group in (0, 1)],
            [{LEADER + "group-index": n // 3, LEADER + "worker-index": n % 3 + 1} for n in range(6)],
        ],
    ),
    "PyTorchJob": (
        pytorchjob(7),
        # In the order of the templates: the job has its workers before its master.
        [[{TRAINING + "replica-index": n} for n in range(7)], [{TRAINING + "replica-index": 0}]],
    ),
    "MPIJob v1": (mpijob_v1(8), [[], [{TRAINING + "replica-index": n} for n in range(8)]]),
}
"""By kind: the job, and for each of its pod templates the labels of the pods that are made of it."""


def made(obj: Object, labels: list[Labels], nodes: Iterator[str]) -> list[Object]:
    """Returns the pods of a job as admission makes its templates, each on a node."""
    obj = evaluate(load_default(), Request(obj, NAMESPACE)).after
    pods = []
    for number, (template, group) in enumerate(zip(templates(obj), labels, strict=True)):
        for index, own in enumerate(group):
            new = pod(f"train-{number}-{index}", "train", "", **template["spec"], nodeName=next(nodes))
            marks = {**template["metadata"]["labels"], **{key: str(value) for key, value in own.items()}}
            new["metadata"] |= {"labels": marks, "annotations": template["metadata"]["annotations"]}
            new["metadata"]["ownerReferences"] = [{"kind": obj["kind"], "name": "train", "controller": True}]
            pods.append(new)
    return pods


@pytest.mark.parametrize(("given", "labels"), KINDS.values(), ids=KINDS.keys())
def test_a_job_of_any_kind_is_verified_by_its_place(given: Object, labels: list[Labels]) -> None:
    pods = made(given, labels, iter(THREE))
    servers_ = "1 UltraServer" if len(pods) == 4 else "2 UltraServers"
    # A LeaderWorkerSet's leaders come first, and are on one server: each group then is on two.
    verdict = verify(work(pods))
    if given["kind"] == "LeaderWorkerSet":
        assert [problem.kind for problem in verdict.problems] == ["straddles", "shares"] * 4
        assert verdict.problems[0].text.startswith(
            "us-01 has 3 of the job's workers, and node config 4 needs 4"
        )
        order = ["n1-0", "n2-0", "n1-1", "n1-2", "n1-3", "n2-1", "n2-2", "n2-3"]
        verdict = verify(work(made(given, labels, iter(order))))
    assert verdict.text == f"placed whole: {len(pods)} workers on {servers_}, as node config 4 needs"
    ranks = 2 * [*range(4)] if given["kind"] == "LeaderWorkerSet" else [*range(len(pods))]
    assert [row.rank for row in verdict.rows] == ranks
    lacking = work(pods[1:], job=evaluate(load_default(), Request(given, NAMESPACE)).after)
    assert f"{len(pods) - 1} of {len(pods)} workers exist" in verify(lacking).problems[0].text


def test_a_pod_that_failed_is_followed_by_the_one_in_its_place() -> None:
    for kind, failed in (("Job", 2), ("Job without numbers", 0)):
        pods = made(*KINDS[kind], iter(THREE))
        old = json.loads(json.dumps(pods[failed]))
        old["metadata"] |= {"name": "train-a", "uid": "old"}
        old["spec"]["nodeName"] = "n3-0"
        old["status"]["phase"] = "Failed"
        assert verify(work([old, *pods])).is_whole, kind
        assert "straddles" in verify(work([old, *pods[:failed], *pods[failed + 1 :]])).text


def test_units_are_those_of_the_installations_table() -> None:
    racks = "families: [{name: racks, units: [{label: example.com/rack, nodes: 18}]}]\n"
    table = read(rules(racks))
    (api := Cluster()).put(RULES_PATH, rules(racks))
    assert Lister(api, NAMESPACE).fleet.table.units.kind_of_label("example.com/rack").nodes == 18
    nodes = [Node(f"r{n}", {"example.com/rack": "r", HOSTNAME: f"r{n}", MODE: "1"}) for n in range(17)]
    (rack,) = servers(fleet(nodes, table=table))
    assert (rack.id, len(rack.spots), rack.troubles) == ("r", 18, ["1 of 18 nodes missing"])
    assert not any(server.id for server in servers(fleet(nodes)))
    place = "placer=gate workers=18 size=18 unit=example.com/rack index=name"
    pods = [pod(f"train-{n}", "train", "worker", nodeName=f"r{n % 17}") for n in range(18)]
    for raw in pods:
        raw["metadata"]["annotations"]["ultraserver-webhook.io/place"] = place
    assert not fleet(nodes, pods).holders_by_node, "there are no such units by the packaged table"
    verdict = verify(work(pods, nodes, table=table))
    assert [problem.text for problem in verdict.problems] == [
        "node r0 has 2 of the job's workers, and must have at most one"
    ]
    head, first, *_ = verification_lines(verdict)
    assert head.split()[3:] == ["SERVER-ID-2", "NODE-ID-2", "SERVER-ID-4", "NODE-ID-4", "RACK", "MODE"]
    assert first.split() == ["0", "train-0", "r0", "-", "-", "-", "-", "r", "1"]
    for raw in pods:
        del raw["spec"]["nodeName"]
        raw["metadata"]["labels"][JOB] = "train"
        raw["spec"]["schedulingGates"] = [{"name": GATE}]
        raw["spec"]["containers"][0]["resources"] = {"requests": {"aws.amazon.com/neuron": "16"}}
    (waits,) = why(case(work(pods, nodes, table=table)))
    assert waits.details == ("r: 17 of 18 nodes present",)


@pytest.fixture
def stored_jobset(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A JobSet that admission left alone, without pods, in a cluster that serves no other kind."""
    api = Cluster()
    api.put(RULES_PATH, rules())
    store_nodes(api, 1)
    obj = jobset(1, 4)
    obj["metadata"] |= {"namespace": NAMESPACE, "annotations": {"ultraserver-webhook.io/inject": "false"}}
    api.put("/apis", {"groups": [{"versions": [{"groupVersion": VERSION}]}]})
    api.put(
        f"/apis/{VERSION}",
        {"resources": [{"name": f"jobsets{part}", "kind": "JobSet"} for part in ("/status", "")]},
    )
    api.put(f"/apis/{VERSION}/namespaces/{NAMESPACE}/jobsets/train", obj)
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (api, NAMESPACE))
    return api


def test_the_object_of_a_job_of_any_kind_in_the_table_is_read(stored_jobset: Cluster) -> None:
    code, out, _ = run("why", "train")
    assert code == 0
    assert out.startswith("jobset team/train:\n* operator the controller of JobSets: ")
    assert "added nothing: opted out by ultraserver-webhook.io/inject" in out
    hook = {"metadata": {"name": NAME}, "webhooks": [{"rules": [{"resources": ["mpijobs"]}]}]}
    stored_jobset.put(f"{HOOKS_PATH}/{NAME}", hook)
    stored_jobset.put(f"/apis/{VERSION}/namespaces/{NAMESPACE}/jobsets/plain", jobset(1, 4))
    assert "no MutatingWebhookConfiguration sends JobSets to it" in run("why", "plain")[1]
    assert run("why", "job/train")[0] == 2
    assert "there is no job jobset/trian in namespace team" in run("why", "jobset/trian")[2]
    assert not any("/status" in path for path in stored_jobset.paths)
    stored_jobset.refuse = "/jobsets/train"
    assert "cannot get jobsets in namespace team" in run("why", "jobset/train")[2]
    assert "there is no job train in" in run("why", "train")[2]
    path = path_of(result := pod("train-workers-0-0", "train", "worker"))
    result["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "train"}
    stored_jobset.put(path, result)
    assert run("verify", "train")[0] == 2, "its pods say enough, or that they do not"


def test_a_job_of_another_kind_that_is_suspended_or_over_quota_is_explained() -> None:
    obj: dict[str, Any] = jobset(2, 4)
    obj["spec"]["suspend"] = True
    reference = JobReference("", "train")
    (about, *_) = why(case(work([], job=obj, reference=reference)))
    assert about.code == "suspended"
    assert "(spec.suspend)" in about.text
    assert about.remedy.endswith('patch jobset train --type merge -p \'{"spec": {"suspend": false}}\'')
    obj = evaluate(load_default(), Request(jobset(2, 4), NAMESPACE)).after | {"status": {"restarts": 0}}
    pods = made(*KINDS["JobSet"], iter(THREE))
    for raw in pods:
        raw["metadata"]["ownerReferences"][0] = {"kind": "Job", "name": "train-workers-1", "controller": True}
        raw["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    message = event("Job", "train-workers-1", "FailedCreate", "exceeded quota: neuron")
    (about,) = why(case(work([*pods[:5], *pods[6:]], job=obj), events=(message,)))
    assert (about.code, about.kind) == ("workers-missing", "job")
    assert about.text.endswith(": there is no number 5")
    assert about.details == ("Job train-workers-1: FailedCreate: exceeded quota: neuron",)

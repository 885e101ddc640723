"""Tests that the plugin reads the pods of each kind in the rule table, as its controller creates them."""

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
from tests.kubectl_ultraserver.build import (
    NAMESPACE,
    NODES,
    event,
    fleet,
    job_case,
    pod,
    rules,
    run_plugin,
    with_installation,
)
from tests.placement.stored import path_of, store_nodes
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob
from webhook.engine import Request, evaluate
from webhook.rules.load import load_default

TRAINING, JOBSET, LEADER = "training.kubeflow.org/", "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
VERSION = "jobset.x-k8s.io/v1alpha2"
COMPLETION = "batch.kubernetes.io/job-completion-index"
Labels = list[dict[str, int | str]]
KINDS: dict[str, tuple[Object, list[Labels]]] = {
    "Job": (job(8, completionMode="Indexed"), [[{COMPLETION: index} for index in range(8)]]),
    "Job without numbers": (job(4), [[{} for _ in range(4)]]),
    "JobSet": (jobset(2, 4), [[{JOBSET + "job-index": n // 4, COMPLETION: n % 4} for n in range(8)]]),
    "LeaderWorkerSet": (
        leaderworkerset(2, 4),
        [
            [{LEADER + "group-index": group, LEADER + "worker-index": 0} for group in (0, 1)],
            [{LEADER + "group-index": n // 3, LEADER + "worker-index": n % 3 + 1} for n in range(6)],
        ],
    ),
    "PyTorchJob": (
        pytorchjob(7),
        # In the order of the templates: the workers come before the master.
        [[{TRAINING + "replica-index": n} for n in range(7)], [{TRAINING + "replica-index": 0}]],
    ),
    "MPIJob v1": (mpijob_v1(8), [[], [{TRAINING + "replica-index": n} for n in range(8)]]),
}
"""For each kind: a job, and for each of its pod templates the labels of the pods of the template."""


def create_pods(obj: Object, labels: list[Labels], nodes: Iterator[str]) -> list[Object]:
    """Returns the pods of a job that the webhook has changed, each on a node."""
    obj = evaluate(load_default(), Request(obj, NAMESPACE)).after
    pods = []
    for number, (template, group) in enumerate(zip(templates(obj), labels, strict=True)):
        for index, own_labels in enumerate(group):
            new_pod = pod(f"train-{number}-{index}", "train", "", **template["spec"], nodeName=next(nodes))
            all_labels = {
                **template["metadata"]["labels"],
                **{key: str(value) for key, value in own_labels.items()},
            }
            new_pod["metadata"] |= {"labels": all_labels, "annotations": template["metadata"]["annotations"]}
            new_pod["metadata"]["ownerReferences"] = [
                {"kind": obj["kind"], "name": "train", "controller": True}
            ]
            pods.append(new_pod)
    return pods


@pytest.mark.parametrize(("obj", "labels"), KINDS.values(), ids=KINDS.keys())
def test_a_job_of_any_kind_is_verified_by_its_placement_annotation(obj: Object, labels: list[Labels]) -> None:
    pods = create_pods(obj, labels, iter(NODES))
    servers_ = "1 UltraServer" if len(pods) == 4 else "2 UltraServers"
    # Both leaders of the LeaderWorkerSet share an UltraServer, so each group has workers on two UltraServers.
    verdict = verify(job_case(pods))
    if obj["kind"] == "LeaderWorkerSet":
        assert [problem.kind for problem in verdict.problems] == ["straddles", "shares"] * 4
        assert verdict.problems[0].text.startswith(
            "us-01 has 3 of the job's workers, and node config 4 needs 4"
        )
        order = ["n1-0", "n2-0", "n1-1", "n1-2", "n1-3", "n2-1", "n2-2", "n2-3"]
        verdict = verify(job_case(create_pods(obj, labels, iter(order))))
    assert verdict.text == f"placed whole: {len(pods)} workers on {servers_}, as node config 4 needs"
    ranks = 2 * [*range(4)] if obj["kind"] == "LeaderWorkerSet" else [*range(len(pods))]
    assert [row.rank for row in verdict.rows] == ranks
    incomplete_job = job_case(pods[1:], job=evaluate(load_default(), Request(obj, NAMESPACE)).after)
    assert f"{len(pods) - 1} of {len(pods)} workers exist" in verify(incomplete_job).problems[0].text


def test_a_failed_pod_is_ignored_if_another_pod_has_replaced_it() -> None:
    for kind, index in (("Job", 2), ("Job without numbers", 0)):
        pods = create_pods(*KINDS[kind], iter(NODES))
        failed_pod = json.loads(json.dumps(pods[index]))
        failed_pod["metadata"] |= {"name": "train-a", "uid": "old"}
        failed_pod["spec"]["nodeName"] = "n3-0"
        failed_pod["status"]["phase"] = "Failed"
        assert verify(job_case([failed_pod, *pods])).is_whole, kind
        assert "straddles" in verify(job_case([failed_pod, *pods[:index], *pods[index + 1 :]])).text


def test_units_are_read_from_the_rule_table_of_the_installation() -> None:
    racks = "families: [{name: racks, units: [{label: example.com/rack, nodes: 18}]}]\n"
    table = read(rules(racks))
    (api := Cluster()).put(RULES_PATH, rules(racks))
    assert Lister(api, NAMESPACE).fleet.table.units.kind_of_label("example.com/rack").nodes == 18
    nodes = [Node(f"r{n}", {"example.com/rack": "r", HOSTNAME: f"r{n}", MODE: "1"}) for n in range(17)]
    (rack,) = servers(fleet(nodes, table=table))
    assert (rack.id, len(rack.spots), rack.troubles) == ("r", 18, ["1 of 18 nodes missing"])
    assert not any(server.id for server in servers(fleet(nodes)))
    placement = "placer=gate workers=18 size=18 unit=example.com/rack index=name"
    pods = [pod(f"train-{n}", "train", "worker", nodeName=f"r{n % 17}") for n in range(18)]
    for raw in pods:
        raw["metadata"]["annotations"]["ultraserver-webhook.io/place"] = placement
    assert not fleet(nodes, pods).holders_by_node, "the packaged table has no such units"
    verdict = verify(job_case(pods, nodes, table=table))
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
    (finding,) = why(with_installation(job_case(pods, nodes, table=table)))
    assert finding.details == ("r: 17 of 18 nodes present",)


@pytest.fixture
def stored_jobset(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns a cluster that serves only JobSets, with a JobSet that is opted out and has no pods."""
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
    code, out, _ = run_plugin("why", "train")
    assert code == 0
    assert out.startswith("jobset team/train:\n* operator the controller of JobSets: ")
    assert "added nothing: opted out by ultraserver-webhook.io/inject" in out
    hook = {"metadata": {"name": NAME}, "webhooks": [{"rules": [{"resources": ["mpijobs"]}]}]}
    stored_jobset.put(f"{HOOKS_PATH}/{NAME}", hook)
    stored_jobset.put(f"/apis/{VERSION}/namespaces/{NAMESPACE}/jobsets/plain", jobset(1, 4))
    assert "no MutatingWebhookConfiguration sends JobSets to it" in run_plugin("why", "plain")[1]
    assert run_plugin("why", "job/train")[0] == 2
    assert "there is no job jobset/trian in namespace team" in run_plugin("why", "jobset/trian")[2]
    assert not any("/status" in path for path in stored_jobset.paths)
    stored_jobset.refuse = "/jobsets/train"
    assert "cannot get jobsets in namespace team" in run_plugin("why", "jobset/train")[2]
    assert "there is no job train in" in run_plugin("why", "train")[2]
    path = path_of(worker := pod("train-workers-0-0", "train", "worker"))
    worker["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "train"}
    stored_jobset.put(path, worker)
    assert run_plugin("verify", "train")[0] == 2, "without its object, a job is verified by its pods"


def test_a_job_of_another_kind_that_is_suspended_or_over_quota_is_explained() -> None:
    obj: dict[str, Any] = jobset(2, 4)
    obj["spec"]["suspend"] = True
    reference = JobReference("", "train")
    (finding, *_) = why(with_installation(job_case([], job=obj, reference=reference)))
    assert finding.code == "suspended"
    assert "(spec.suspend)" in finding.text
    assert finding.remedy.endswith('patch jobset train --type merge -p \'{"spec": {"suspend": false}}\'')
    obj = evaluate(load_default(), Request(jobset(2, 4), NAMESPACE)).after | {"status": {"restarts": 0}}
    pods = create_pods(*KINDS["JobSet"], iter(NODES))
    for raw in pods:
        raw["metadata"]["ownerReferences"][0] = {"kind": "Job", "name": "train-workers-1", "controller": True}
        raw["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    message = event("Job", "train-workers-1", "FailedCreate", "exceeded quota: neuron")
    (finding,) = why(with_installation(job_case([*pods[:5], *pods[6:]], job=obj), events=(message,)))
    assert (finding.code, finding.kind) == ("workers-missing", "job")
    assert finding.text.endswith(": there is no number 5")
    assert finding.details == ("Job train-workers-1: FailedCreate: exceeded quota: neuron",)

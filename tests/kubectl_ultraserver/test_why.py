"""Tests of ``why``: the reasons why a job waits, for each placer."""

import json
import shlex
from typing import Any

import pytest

from contract import keys
from contract.keys import NODE_IDS, SERVER_4
from kube.api import Object
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.why import why
from placement.observe.inventory import Inventory, read_claim
from tests.kubectl_ultraserver.build import (
    NODES,
    event,
    gated,
    job_case,
    launcher,
    placement_annotation,
    rules,
    stored_job,
    unscheduled,
    with_claims,
    with_installation,
    workers,
)
from tests.nodes.commands import steps
from tests.placement.world import changed_nodes

FIRST = ["n1-0", "n1-1", "n1-2", "n1-3"]
ALL_WORKERS = "train-worker-0, train-worker-1, train-worker-2, train-worker-3"
GATED_PLACEMENT = placement_annotation(4, placer="gate")
NO_NODE = "0/12 nodes are available: 12 node(s) didn't match pod affinity rules."


def only_finding(job: Case) -> Finding:
    (finding,) = why(job)
    return finding


def findings_of(job: Case) -> list[tuple[str, str]]:
    return [(finding.code, finding.name) for finding in why(job)]


def test_a_job_that_runs_waits_for_nothing() -> None:
    pods = [*workers("train", 4, FIRST), launcher("train")]
    assert why(with_installation(job_case(pods, job=stored_job()))) == []


def test_a_job_that_has_ended_is_explained_by_its_result() -> None:
    job = stored_job()
    job["status"]["conditions"].append(
        {"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}
    )
    finding = only_finding(with_installation(job_case([], job=job)))
    assert (finding.code, finding.kind) == ("ended", "job")
    assert finding.text.endswith(": Failed: BackoffLimitExceeded")


# ---- the placement program ---------------------------------------------------------------------------------


def test_each_ultraserver_that_the_job_cannot_use_has_a_reason() -> None:
    nodes = changed_nodes(NODES, n1_2={"cordoned": True})
    others = workers("other", 4, ["n2-0", "n2-1", "n2-2", "n2-3"])
    finding = only_finding(
        with_installation(job_case(gated(workers("train", 8), 8), nodes, others, stored_job(count=8)))
    )
    assert (finding.code, finding.kind) == ("not-admitted", "program")
    assert finding.name == "ultraserver-placement"
    assert finding.text.endswith(": needs 2 whole UltraServers; 1 free; what becomes free is reserved for it")
    assert finding.details == ("us-01: node n1-2 is cordoned", "us-02: held by team/other")


def test_broken_units_are_listed_before_units_that_are_held_or_not_selected() -> None:
    pods = gated(workers("train", 4), 4)
    for pod in pods:
        pod["spec"]["affinity"]["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": SERVER_4, "operator": "In", "values": ["us-02", "us-03"]}]}
                ]
            }
        }
    nodes = changed_nodes(NODES, n3_2={"cordoned": True})
    finding = only_finding(
        with_installation(job_case(pods, nodes, workers("other", 4, ["n2-0", "n2-1", "n2-2", "n2-3"])))
    )
    assert finding.details == (
        "us-03: node n3-2 is cordoned",
        "us-02: held by team/other",
        "us-01: node n1-0 does not match the pods' node affinity",
    )


def test_with_whole_job_admission_a_job_waits_for_its_missing_pods() -> None:
    pods = gated(workers("train", 4), 4)[:3]
    missing, waits = why(with_installation(job_case(pods, job=stored_job())))
    assert (missing.code, waits.code) == ("workers-missing", "not-admitted")
    assert missing.text == "3 of 4 workers exist: there is no number 3"
    assert waits.text.endswith(": 3 of 4 workers exist")


def test_a_worker_that_has_succeeded_is_not_waited_for() -> None:
    pods = gated(workers("train", 4), 4)
    pods[0]["status"]["phase"] = "Succeeded"
    assert only_finding(with_installation(job_case(pods, job=stored_job()))).code == "could-admit"


def test_if_the_program_does_not_run_the_units_that_the_job_would_get_are_named() -> None:
    pods = gated(workers("train", 4), 4)
    old = {"spec": {"renewTime": "2026-11-21T11:40:00.000000Z", "holderIdentity": "a"}}
    for lease, fact in ((None, "it has no Lease"), (old, "11:40:00 UTC by a")):
        units, program = why(with_installation(job_case(pods, job=stored_job()), lease=lease))
        assert (units.code, program.code) == ("would-admit", "placement-stopped")
        assert "us-01" in units.text
        assert fact in program.text


def test_if_the_program_does_not_admit_a_job_that_fits_its_last_event_is_shown() -> None:
    reason = event(
        "Pod",
        "train-worker-0",
        "Waiting",
        "admitted 3 times without getting its nodes",
        "ultraserver-placement",
    )
    finding = only_finding(
        with_installation(job_case(gated(workers("train", 4), 4), job=stored_job()), events=(reason,))
    )
    assert finding.code == "could-admit"
    assert "us-01" in finding.text
    assert finding.details == ("its last Event: admitted 3 times without getting its nodes",)


# ---- affinity, without the placement program -----------------------------------------------------------


def test_with_affinity_the_message_of_the_scheduler_and_a_reason_for_each_ultraserver_are_shown() -> None:
    pods = unscheduled(workers("train", 4), NO_NODE)
    labels = {
        key: value for key, value in NODES["n3-1"].labels.items() if key not in (SERVER_4, NODE_IDS[SERVER_4])
    }
    nodes = [
        *changed_nodes(
            {name: node for name, node in NODES.items() if name != "n3-1"}, n1_2={"cordoned": True}
        ),
        type(NODES["n3-1"])("n3-1", labels, allocatable=NODES["n3-1"].allocatable),
    ]
    others = workers("other", 1, ["n2-3"], size=1)
    scheduler, places = why(with_installation(job_case(pods, nodes, others, stored_job())))
    assert (scheduler.code, scheduler.name) == ("unschedulable", "train-worker-0")
    assert scheduler.text == f"{ALL_WORKERS}: {NO_NODE}"
    assert (places.code, places.kind) == ("too-few-units", "job")
    assert places.text == "needs 1 whole UltraServer; 0 free"
    assert places.details == (
        "us-01: node n1-2 is cordoned",
        "us-03: 3 of 4 nodes present",
        "us-02: held by team/other",
        f"node n3-1: in no working UltraServer, label {SERVER_4} is missing",
    )


def test_a_worker_of_a_placed_block_waits_for_a_node_in_the_unit_of_the_block() -> None:
    placed = workers("train", 4, FIRST[:3])
    pods = [*placed[:3], *unscheduled(placed[3:], NO_NODE)]
    nodes = changed_nodes(NODES, n1_3={"cordoned": True})
    scheduler, places = why(with_installation(job_case(pods, nodes, job=stored_job())))
    assert scheduler.name == "train-worker-3"
    assert places.text == "train-worker-3 needs a node in us-01, where its block is: node n1-3 is cordoned"


def test_free_units_are_reported_if_the_scheduler_has_another_reason() -> None:
    pods = unscheduled(workers("train", 4), "0/12 nodes are available: 12 node(s) had volume conflicts.")
    _, places = why(with_installation(job_case(pods, job=stored_job())))
    assert places.code == "enough-units"
    assert "us-01" in places.text


def test_free_units_are_not_examined_while_a_worker_is_being_deleted() -> None:
    placed = workers("train", 4, FIRST[:3])
    placed[1]["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z"
    pods = [*placed[:3], *unscheduled(placed[3:], NO_NODE)]
    codes = [finding.code for finding in why(with_installation(job_case(pods, job=stored_job())))]
    assert codes == ["unschedulable", "terminating"]


def test_a_missing_claim_template_is_named_where_affinity_places_the_job() -> None:
    """The scheduler reports nothing before a Pod's claims exist. ``verify`` still has a certain result."""
    pods = with_claims(workers("train", 4), "mine")
    message = "PodResourceClaim neurons: resource claim template not found"
    reason = event("Pod", "train-worker-0", "FailedResourceClaimCreation", message)
    known = {"inventory": Inventory(claims={("other", "theirs"): read_claim({})})}
    (finding, *_) = why(with_installation(job_case(pods, job=stored_job(), **known), events=(reason,)))
    assert finding.code == "claims-unusable"
    assert "ResourceClaimTemplate mine" in finding.text
    assert finding.details == (message,)
    verdict = verify(job_case(pods, job=stored_job(), **known))
    assert (verdict.is_certain, verdict.is_whole) == (True, False)


def test_a_scheduler_that_does_not_run_is_named() -> None:
    pods = workers("train", 4, schedulerName="my-scheduler")
    finding = why(with_installation(job_case(pods)))[0]
    assert finding.code == "not-scheduled"
    assert "my-scheduler" in finding.text


@pytest.mark.parametrize(
    ("gate", "owner"), [("kueue.x-k8s.io/topology", "Kueue"), ("example.com/hold", "its owner")]
)
def test_a_gate_of_another_program_is_named(gate: str, owner: str) -> None:
    pods = workers("train", 2, schedulingGates=[{"name": gate}])
    finding = only_finding(with_installation(job_case(pods)))
    assert (finding.code, finding.name) == ("foreign-gate", "train-worker-0")
    assert f"{gate}, which {owner} " in finding.text


# ---- a job that the webhook did not change --------------------------------------------------------------


def unchanged_job_finding(**known: Any) -> Finding:
    """Returns the finding about a job that the webhook did not change."""
    pods = workers("train", 4, FIRST)
    for pod in pods:
        del pod["metadata"]["labels"][keys.JOB]
    job = known.pop("job", stored_job(mutated=False))
    finding = only_finding(with_installation(job_case(pods, job=job), **known))
    assert finding.kind == "webhook"
    return finding


def test_a_job_that_was_not_mutated_is_explained() -> None:
    assert unchanged_job_finding().code == "not-called"
    assert "though the rule table would" in unchanged_job_finding().text
    assert "Ignore" in unchanged_job_finding().text
    assert unchanged_job_finding(registration=None).code == "kind-not-sent"
    late = {"metadata": {"name": "ultraserver-webhook", "creationTimestamp": "2026-11-21T11:55:00Z"}}
    assert unchanged_job_finding(registration=late).code == "registered-later"
    namespace_object = {"metadata": {"labels": {keys.INJECT: "disabled"}}}
    opted_out = unchanged_job_finding(namespace_object=namespace_object)
    assert opted_out.code == "namespace-opted-out"
    assert opted_out.text.endswith(" ultraserver-webhook.io/inject=disabled")


def test_a_job_of_which_the_webhook_changed_only_the_pods_is_explained() -> None:
    pods = workers("train", 4, FIRST)
    for pod in pods:
        del pod["metadata"]["labels"][keys.JOB]
        pod["metadata"]["annotations"] = {keys.ADDED_TO_POD: "{}"}
    finding = only_finding(
        with_installation(job_case(pods, job=stored_job(mutated=False)), registration=None)
    )
    assert finding.code == "kind-not-sent"
    assert finding.text.startswith("changed only the pods of the job, not the job: ")


def test_a_job_that_is_opted_out_or_is_not_a_candidate_is_explained() -> None:
    job = stored_job(mutated=False)
    job["metadata"]["annotations"] = {keys.INJECT: "false"}
    opted_out = unchanged_job_finding(job=job)
    assert (opted_out.code, opted_out.remedy) == ("nothing-to-add", "")
    assert opted_out.text.endswith(": opted out by ultraserver-webhook.io/inject")
    job = stored_job(mutated=False)
    del job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"]
    assert unchanged_job_finding(job=job).text.endswith(": the workers request no aws.amazon.com/neuron")


def test_the_pods_of_a_job_that_is_not_placed_are_workers_even_without_devices() -> None:
    """Protects users who misspell a resource: the scheduler's message names the resource."""
    pods = unscheduled(workers("train", 4), "no nueron")
    for pod in pods:
        del pod["spec"]["containers"][0]["resources"], pod["metadata"]["labels"][keys.JOB]
        pod["metadata"]["annotations"] = {}
    unchanged, no_node = why(with_installation(job_case(pods, job=stored_job(mutated=False))))
    assert (unchanged.code, no_node.code) == ("not-called", "unschedulable")
    assert no_node.text.endswith(": no nueron")


def test_after_the_kill_switch_the_reason_is_the_switched_off_table() -> None:
    (step,) = steps("docs/operations.md", "The kill switch")
    off = unchanged_job_finding(rules=json.loads(shlex.split(step.command)[-1]))
    assert (off.code, off.remedy) == ("nothing-to-add", "")
    assert off.text.endswith(": the whole rule table is switched off")
    assert ": the whole rule table only reports" in unchanged_job_finding(rules=rules("mode: shadow\n")).text
    exempt = "policies: [{mode: off, reason: They move., until: 2026-11-21T12:00:00Z}]\n"
    assert unchanged_job_finding(rules=rules(exempt)).text.endswith(" for it, by the policy: They move."), (
        "the policy ended after the job was created"
    )
    # The table was switched on again after the job was created.
    on = unchanged_job_finding(
        rules=rules(managedFields=[{"manager": "kubectl", "time": "2026-11-21T11:59:00Z"}])
    )
    assert on.code == "table-changed"
    assert on.text.endswith(", and would now change the job")


def test_without_an_answer_of_the_preview_service_the_finding_has_the_reason() -> None:
    unknown = unchanged_job_finding(answer={}, no_preview_reason="the API server answers 404: x")
    assert unknown.code == "not-called"
    assert unknown.text.endswith(", or ignores such a job; the API server answers 404: x")
    on = rules(managedFields=[{"manager": "kubectl", "time": "2026-11-21T11:59:00Z"}])
    changed_table = unchanged_job_finding(answer={}, rules=on)
    assert changed_table.code == "table-changed"
    assert "would now change" not in changed_table.text


def test_a_refusal_by_rows_of_an_installation_has_their_text() -> None:
    refusal = "families: [{name: trn2u, shapes: [{name: four-node, deny: no jobs of four nodes here}]}]\n"
    refused = unchanged_job_finding(rules=rules(refusal))
    assert refused.code == "table-refuses"
    assert refused.text.endswith(": no jobs of four nodes here")


def test_a_registration_that_cannot_be_read_is_not_reported_as_missing() -> None:
    assert unchanged_job_finding(registration={}).code == "not-called"


# ---- no pods, and pods that do not start ------------------------------------------------------------------


def test_an_operator_that_does_not_run_is_named() -> None:
    job = stored_job()
    del job["status"]
    assert findings_of(with_installation(job_case([], job=job))) == [("no-status", "mpi-operator")]


def test_a_quota_is_quoted_from_the_jobs_events() -> None:
    reason = event(
        "MPIJob", "train", "MPIJobFailed", 'pods "train-worker-2" is forbidden: exceeded quota: neuron'
    )
    finding = why(with_installation(job_case(workers("train", 4)[:2], job=stored_job()), events=(reason,)))[0]
    assert (finding.code, finding.name) == ("workers-missing", "train")
    assert finding.text.endswith(": there is no number 2, 3")
    assert finding.details == (
        'MPIJob train: MPIJobFailed: pods "train-worker-2" is forbidden: exceeded quota: neuron',
    )


def test_a_launcher_that_cannot_be_created_is_reported_with_its_jobs_message() -> None:
    """Protects users of a job whose workers hold nodes while the job cannot start."""
    message = 'Internal error occurred: failed calling webhook "launchers.ultraserver-webhook.io"'
    reason = event("Job", "train-launcher", "FailedCreate", message)
    finding = only_finding(
        with_installation(job_case(workers("train", 4, FIRST), job=stored_job()), events=(reason,))
    )
    assert (finding.code, finding.name) == ("launcher-not-created", "train-launcher")
    assert finding.details == (f"Job train-launcher: FailedCreate: {message}",)


def test_an_image_that_cannot_be_pulled_is_reported_once_for_all_pods() -> None:
    pods = workers("train", 4, FIRST)
    for pod in pods:
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "mpitest", "state": waiting}]}
    finding = only_finding(with_installation(job_case(pods, job=stored_job())))
    assert (finding.code, finding.name) == ("container-not-running", "train-worker-0")
    assert finding.text == f"{ALL_WORKERS}: container mpitest is waiting: ImagePullBackOff: not found"


def test_a_pod_that_stays_terminating_is_named_with_its_node() -> None:
    pods = workers("train", 4, FIRST)
    pods[1]["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z"
    (finding,) = [
        result
        for result in why(with_installation(job_case(pods, job=stored_job())))
        if result.code == "terminating"
    ]
    assert finding.text == "train-worker-1: terminating since 2026-11-21T11:00:00Z, on node n1-1"


# ---- the launcher, and jobs on wrong or failed nodes -----------------------------------------------------


def init(name: str, **state: Object) -> Object:
    return {"name": name, "restartCount": 2, **state}


def test_a_launcher_that_waits_names_the_workers_that_are_not_ready() -> None:
    pods = workers("train", 4, FIRST)
    pods[2]["status"] = {"phase": "Pending"}
    waiting = launcher("train", init("wait-hostfilename", state={"running": {"startedAt": "x"}}))
    result = findings_of(with_installation(job_case([*pods, waiting], job=stored_job())))
    assert result == [("launcher-waits", "train-worker-2")]


def test_the_last_lines_of_the_init_script_are_shown() -> None:
    message = "ERROR: pod train-worker-1: did not answer ssh: Connection refused\nERROR: 1 problem(s)."
    ended = {"terminated": {"exitCode": 1, "message": message, "finishedAt": "2026-11-21T11:59:00Z"}}
    failed = launcher("train", init("ultraserver-init-container", state={"waiting": {}}, lastState=ended))
    finding = only_finding(
        with_installation(job_case([*workers("train", 4, FIRST), failed], job=stored_job()))
    )
    assert (finding.code, finding.name) == ("init-failed", "train-launcher-x7f2p")
    assert finding.text.endswith(" exit code 1, 2 restarts")
    assert finding.details == tuple(message.splitlines())


def test_before_the_launcher_is_created_the_workers_that_are_not_ready_are_named() -> None:
    pods = workers("train", 4, FIRST)
    pods[3]["status"] = {"phase": "Pending"}
    job = stored_job(launcherCreationPolicy="WaitForWorkersReady")
    assert findings_of(with_installation(job_case(pods, job=job)))[0] == (
        "launcher-when-ready",
        "train-worker-3",
    )


def test_a_job_that_straddles_or_has_a_broken_node_is_reported() -> None:
    nodes = changed_nodes(NODES, n1_1={"ready": False})
    broken = with_installation(job_case(workers("train", 4, FIRST), nodes, job=stored_job()))
    assert findings_of(broken) == [("node", "n1-1")]
    away = with_installation(
        job_case(workers("train", 4, ["n1-0", "n1-1", "n1-2", "n2-0"]), job=stored_job())
    )
    assert findings_of(away) == [("straddles", "us-01"), ("straddles", "us-02")]
    crowded = why(
        with_installation(job_case(workers("train", 4, ["n1-0", "n1-0", "n1-2", "n1-3"]), job=stored_job()))
    )
    assert (crowded[0].kind, crowded[0].name) == ("node", "n1-0")


def failed_nodes_finding(choice: str = "", **known: Any) -> Finding:
    """Returns the finding about the program, for a running job with two failed nodes."""
    pods = workers("train", 4, FIRST)
    for pod in pods:
        pod["metadata"]["annotations"] |= {
            keys.OPENED: "2026-11-21T11:50:00Z",
            keys.PLACEMENT: GATED_PLACEMENT,
        }
        pod["spec"]["nodeSelector"] |= {SERVER_4: "us-01"}
        pod["metadata"]["annotations"] |= {keys.ON_NODE_FAILURE: choice} if choice else {}
    nodes = changed_nodes(NODES, n1_1={"ready": False}, n1_2=None)
    findings = why(with_installation(job_case(pods, nodes, job=stored_job()), **known))
    (finding,) = (finding for finding in findings if finding.kind == "program")
    assert {finding.name for finding in findings} >= {"n1-1", "n1-2"}
    return finding


def test_a_job_that_waits_for_a_failed_node_has_the_remedy() -> None:
    finding = failed_nodes_finding()
    assert finding.code == "waits-for-failed-nodes"
    assert "n1-1, n1-2" in finding.text
    assert finding.remedy.endswith("ultraserver-webhook.io/on-node-failure: move")


def test_a_job_that_leaves_a_failed_node_has_the_last_event_of_the_program() -> None:
    last_event = event("Pod", "train-worker-0", "Waiting", "node n1-1 is not ready", "ultraserver-placement")
    finding = failed_nodes_finding("move", events=(last_event,))
    assert finding.code == "leaves-failed-nodes"
    assert "n1-1, n1-2 (ultraserver-webhook.io/on-node-failure: move)" in finding.text
    assert finding.details == ("Waiting: node n1-1 is not ready",)
    assert ", but the program does not run: " in failed_nodes_finding("restart", lease=None).text


def test_a_job_without_a_placement_annotation_is_explained_by_the_scheduler_only() -> None:
    pods = unscheduled(workers("train", 2), NO_NODE)
    for pod in pods:
        pod["metadata"]["annotations"] = {}
    assert (
        only_finding(with_installation(job_case(pods))).text == f"train-worker-0, train-worker-1: {NO_NODE}"
    )

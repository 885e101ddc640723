"""Pods that pass for a job's workers: only operators make them, and nobody else changes whose they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs
from tests.cluster.guard import people
from tests.cluster.guard.conftest import refuses
from tests.cluster.guard.people import assert_done, assert_refused, patches, pod, tries
from tests.cluster.jobs import JOB_NAME, ROLE
from tests.waiting import until
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object

WORKER = "pod/train-worker-0"
INDEX = "training.kubeflow.org/replica-index"
FORGED = {ROLE: "worker", keys.JOB: "team-b.victim"}


def test_the_operator_makes_workers_and_the_job_controller_launchers(running_job: Kubectl) -> None:
    def made(pods: Object) -> bool:
        roles = sorted(found["metadata"]["labels"][ROLE] for found in pods["items"])
        return roles == ["launcher", "worker", "worker", "worker", "worker"]

    running_job.wait_for(made, "pods")
    running_job.run("delete", WORKER, "--force", "--grace-period=0")
    running_job.wait_for(made, "pods")
    assert running_job.get_json(WORKER)["metadata"]["labels"][keys.JOB] == "guard-running.train"


@pytest.mark.parametrize(
    "labels",
    [{ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {JOB_NAME: "victim", keys.BLOCK: "0"}],
    ids=["role", "job", "block"],
)
def test_a_bare_pod_that_passes_for_a_worker_is_refused_in_any_namespace(
    labels: dict[str, str], ada: Kubectl, plain_namespace: Kubectl
) -> None:
    generated = pod(labels=labels)
    generated["metadata"] |= {"name": None, "generateName": "bare-"}
    for inside in (ada, plain_namespace.acting_as(people.ADA)):
        refused = tries(inside, jobs.together(pod(labels=labels), generated))
        assert_refused(refused, "metadata.labels[", "only operators", f"not {people.ADA}", "create an MPIJob")
        assert refused.stderr.count("ValidatingAdmissionPolicy") == 2
        assert_refused(tries(inside, pod(labels=labels), "apply", "--server-side"), "metadata.labels[")
        assert not inside.get_json("pods")["items"]


def test_an_operator_that_is_not_bound_is_told_how_it_would_be(ada: Kubectl) -> None:
    refused = tries(ada.acting_as(people.STRANGER), people.WORKER)
    assert_refused(refused, f"not {people.STRANGER}", "bound to the ClusterRole ultraserver-webhook-operator")


@pytest.mark.parametrize("subresource", [(), ("--subresource=status",)], ids=["pod", "status"])
def test_a_pod_cannot_become_a_worker_or_another_jobs_afterwards(
    subresource: tuple[str, ...], ada: Kubectl, running_job: Kubectl
) -> None:
    ada.create(pod())
    for labels in ({ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {keys.BLOCK: "0"}):
        refused = patches(ada, "pod/bare", {"metadata": {"labels": labels}}, *subresource)
        assert_refused(refused, f"metadata.labels[{next(iter(labels))}]", "only operators may change it")
    for key, value in ((ROLE, None), (JOB_NAME, "other"), (keys.JOB, "team-b.victim"), (INDEX, "7")):
        refused = patches(running_job, WORKER, {"metadata": {"labels": {key: value}}}, *subresource)
        assert_refused(refused, f"metadata.labels[{key}]", "only operators may change it")
    forged = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-worker-0", "labels": FORGED}}
    assert_refused(tries(running_job, forged, "apply", "--server-side", "--force-conflicts", *subresource))


def test_subresources_that_cannot_change_labels_are_not_asked_about(running_job: Kubectl) -> None:
    debugger = {"name": "debugger", "image": "example.invalid/debug"}
    both = {"metadata": {"labels": FORGED}, "spec": {"ephemeralContainers": [debugger]}}
    done = running_job.run(
        *("patch", WORKER, "--subresource=ephemeralcontainers", "--type=strategic", "-p", json.dumps(both))
    )
    assert_done(done)
    found = running_job.get_json(WORKER)
    assert found["spec"]["ephemeralContainers"][0]["name"] == "debugger"
    assert found["metadata"]["labels"][keys.JOB] == "guard-running.train"


def laundries(labels: dict[str, str]) -> list[Object]:
    """Objects from whose templates Kubernetes' own controllers make Pods, one of each kind."""
    made = []
    for kind, api, more in (
        ("Deployment", "apps/v1", {}),
        ("ReplicaSet", "apps/v1", {}),
        ("StatefulSet", "apps/v1", {"serviceName": "none"}),
        ("DaemonSet", "apps/v1", {}),
        ("ReplicationController", "v1", {}),
        ("Job", "batch/v1", {}),
    ):
        own = {"app": kind.lower()}
        template = {"metadata": {"labels": own | labels}, "spec": pod()["spec"]}
        spec = {**more, "template": template, "selector": own if api == "v1" else {"matchLabels": own}}
        if kind == "DaemonSet":  # a Pod for every node that it selects
            template["spec"]["nodeSelector"] = {}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            del spec["selector"]
        made.append({"apiVersion": api, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec})
    return made


@pytest.fixture
def laundry(ada: Kubectl) -> Iterator[Kubectl]:
    """Kubectl of a person in a namespace whose Deployments and the like are deleted before its Pods."""
    yield ada
    ada.run("delete", "deployments,statefulsets,daemonsets,replicasets,rc", "--all", "--wait=false")


def told(events: Object) -> set[str]:
    """The kinds whose controller was refused a Pod because it is no operator."""
    return {
        event["involvedObject"]["kind"] for event in events["items"] if "only operators" in event["message"]
    }


def test_no_controller_makes_a_worker_from_a_persons_template(laundry: Kubectl) -> None:
    assert_done(tries(laundry, jobs.together(*laundries({ROLE: "worker"}))))
    kinds = {found["kind"] for found in laundries({})} - {"Deployment"}
    laundry.wait_for(lambda events: told(events) == kinds, "events", timeout=60)
    assert not laundry.get_json("pods")["items"]


def test_no_controller_makes_a_pod_with_a_job_label_from_a_persons_template(laundry: Kubectl) -> None:
    *others, job = laundries({keys.JOB: "team-b.victim"})
    assert_refused(tries(laundry, job), "spec.template.metadata.labels[ultraserver-webhook.io/job]")
    assert_done(tries(laundry, jobs.together(*others)))
    kinds = {found["kind"] for found in others} - {"Deployment"}
    laundry.wait_for(lambda events: told(events) == kinds, "events", timeout=60)
    assert not laundry.get_json("pods")["items"]


def test_a_cron_jobs_jobs_are_looked_at_as_well(ada: Kubectl) -> None:
    *_, job = laundries({keys.JOB: "team-b.victim"})
    refused = tries(ada.acting_as(people.CRONJOBS), job)
    assert_refused(
        refused, "spec.template.metadata.labels[ultraserver-webhook.io/job]", f"not {people.CRONJOBS}"
    )


def test_pods_of_other_apps_are_none_of_its_business(laundry: Kubectl) -> None:
    assert_done(
        tries(laundry, jobs.together(*laundries({JOB_NAME: "other"}), pod(labels={ROLE: "launcher"})))
    )
    apps = {found["metadata"]["name"] for found in laundries({})}
    laundry.wait_for(
        lambda pods: {found["metadata"]["labels"].get("app") for found in pods["items"]} >= apps,
        "pods",
        timeout=60,
    )
    assert_done(patches(laundry, "pod/bare", {"metadata": {"labels": {"team": "a", ROLE: "master"}}}))


def test_node_scheduler_and_placement_do_their_work_on_workers(running_job: Kubectl, ada: Kubectl) -> None:
    node = running_job.acting_as(people.NODE, "system:nodes")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert_done(patches(node, WORKER, ready, "--subresource=status"))
    assert_done(
        patches(running_job, WORKER, {"metadata": {"labels": {"team": "a"}, "finalizers": ["example.com/x"]}})
    )
    assert_done(patches(running_job, WORKER, {"metadata": {"finalizers": None}}))
    gated = people.unplaceable(2)
    jobs.template(gated, "Worker")["spec"]["schedulingGates"] = [{"name": "example.com/whole"}]
    ada.apply(gated)
    ada.wait_for(lambda found: len(jobs.workers_of(found["items"])) == 2, "pods")
    opening = [
        {"op": "add", "path": "/spec/nodeSelector/server", "value": "us-01"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    assert_done(patches(ada.acting_as(people.PLACEMENT), WORKER, opening))


def test_an_administrator_may_make_a_worker(ada: Kubectl, namespace: Kubectl) -> None:
    del ada
    assert_done(tries(namespace, people.WORKER))


def test_the_component_for_a_staged_rollout_warns_and_refuses_nothing(guarded: Kubectl, ada: Kubectl) -> None:
    dry = ("create", "--dry-run=server")
    try:
        guarded.run("apply", "-k", str(people.COMPONENTS / "guard-warn"))
        until(lambda: tries(ada, people.WORKER, *dry).returncode == 0)
        assert (
            "Warning: Validation failed for ValidatingAdmissionPolicy"
            in tries(ada, people.WORKER, *dry).stderr
        )
    finally:
        guarded.run("apply", "-k", str(people.COMPONENTS / "guard"))
        until(lambda: refuses(guarded.in_namespace("guard-probe")))

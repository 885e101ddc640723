"""Tests of jobs whose name the API server generates after the webhook, and of a second call for a job."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import jobs, nodes, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import RunningWebhook
from tests.plane.recorder import Review, answer_of_webhook, answer_with_patch, patch_of, serve_answers

pytestmark = pytest.mark.usefixtures("registered_webhook")
GENERATED = mpijob(4, generate_name="train-")
Calls = list[tuple[Review, Review]]
"""The requests that the webhook received, with its responses, in order."""


def job_label(job: Object) -> str:
    text: str = template(job, "Worker")["metadata"]["labels"][keys.JOB]
    return text


def values_in_selectors(job: Object) -> list[str]:
    """Returns the values of the job label in the workers' affinity terms."""
    affinity = template(job, "Worker")["spec"]["affinity"]
    result = []
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"]:
            selector = term["labelSelector"]
            result += [value for key, value in selector["matchLabels"].items() if key == keys.JOB]
            for expression in selector.get("matchExpressions", ()):
                assert expression["key"] == keys.JOB, (
                    "no selector uses the job's name, which does not exist yet"
                )
                result += expression["values"]
    return result


def test_jobs_with_generated_names_have_different_job_labels_and_are_placed_whole(
    namespace: Kubectl, labels_by_node: dict[str, dict[str, str]]
) -> None:
    created = namespace.create(jobs.list_object(*[GENERATED] * 3))["items"]
    for job in created:
        assert values_in_selectors(job) == [job_label(job)] * 2
        assert len(job_label(job)) <= 63
    assert len({job_label(job) for job in created}) == 3
    pods = namespace.wait_for(
        lambda obj: sum(bool(pod["spec"].get("nodeName")) for pod in obj["items"]) == 12,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
    )["items"]
    servers = {}
    for job in created:
        workers = [pod for pod in pods if pod["metadata"]["labels"][keys.JOB] == job_label(job)]
        assert len(workers) == 4
        (servers[job["metadata"]["name"]],) = {
            labels_by_node[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in workers
        }
    assert len(set(servers.values())) == 3


def test_copies_of_an_exported_job_get_new_job_labels(namespace: Kubectl) -> None:
    first = namespace.create(GENERATED)
    copy = jobs.without_server_fields(first)
    del copy["metadata"]["name"]
    # Most copies have the same creation time, because the API server writes it in whole seconds.
    copies = namespace.create(jobs.list_object(*[copy] * 4))["items"]
    assert len({job_label(job) for job in (first, *copies)}) == 5
    for job in copies:
        assert values_in_selectors(job) == [job_label(job)] * 2
        assert job_label(first) not in str(job["spec"])


@pytest.fixture(scope="module")
def called_twice(
    control_plane: ControlPlane, registered_webhook: RunningWebhook
) -> Iterator[tuple[Kubectl, Calls]]:
    """A namespace where a second webhook changes jobs after ours, so that the API server calls ours again.

    The list contains the calls of our webhook.
    """
    calls: Calls = []

    def record_call(review: Review) -> Review:
        answer = answer_of_webhook(review)
        calls.append((review["request"], answer["response"]))
        return answer

    labels = {webhook.INJECT: "disabled", "asked": "called-twice"}
    folder = registered_webhook.ca.parent
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(jobs.temporary_namespace(control_plane, "called-twice", labels))
        for name, answer in (
            ("called-twice", record_call),
            ("later-than-ours", answer_with_patch(with_sidecar)),
        ):
            url = stack.enter_context(serve_answers(folder, answer))
            running = webhook.RunningWebhook(registered_webhook.program, url, registered_webhook.ca)
            registration = webhook.configuration(running, name, {"matchLabels": {"asked": "called-twice"}})
            stack.enter_context(webhook.register(inside, registration))
        yield inside, calls


def with_sidecar(obj: Object) -> list[dict[str, Any]]:
    """Returns a patch that adds a container and an init container to each template, like a service mesh's."""
    if obj["kind"] != "MPIJob":
        return []
    changes = []
    for role in ("Launcher", "Worker"):
        spec = template(obj, role)["spec"]
        for kind in ("containers", "initContainers"):
            path = f"/spec/mpiReplicaSpecs/{role}/template/spec/{kind}"
            if not any(item["name"] == "mesh" for item in spec.get(kind, ())):
                mesh = {"name": "mesh", "image": "example.invalid/mesh"}
                changes.append(
                    {"op": "add", "path": f"{path}/-", "value": mesh}
                    if kind in spec
                    else {"op": "add", "path": path, "value": [mesh]}
                )
    return changes


@pytest.mark.parametrize("job", [GENERATED, mpijob(4, name="named")], ids=["generated name", "given name"])
def test_a_second_call_for_the_same_job_changes_nothing(
    job: Object, called_twice: tuple[Kubectl, Calls]
) -> None:
    kubectl, calls = called_twice
    calls.clear()
    stored = kubectl.create(job)
    job_calls = [call for call in calls if call[0]["object"]["kind"] == "MPIJob"]
    (first, first_response), (second, second_response) = job_calls
    assert patch_of(first_response)
    assert patch_of(second_response) == []
    # The two reviews have different uids. Their objects have the same managedFields, which the API server
    # writes for every new object before it calls the webhooks.
    assert first["uid"] != second["uid"]
    assert first["object"]["metadata"]["managedFields"] == second["object"]["metadata"]["managedFields"]
    assert first["object"]["metadata"].get("name") == second["object"]["metadata"].get("name")
    assert job_label(second["object"]) == job_label(stored)
    for role, kinds in {"Launcher": ["containers", "initContainers"], "Worker": ["containers"]}.items():
        spec = template(stored, role)["spec"]
        for kind in kinds:
            names = [item["name"] for item in spec[kind]]
            assert names.count("mesh") == 1
            assert len(names) == len(set(names))
    if "generateName" in job["metadata"]:
        assert values_in_selectors(stored) == [job_label(stored)] * 2

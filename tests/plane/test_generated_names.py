"""A job whose name the API server generates after admission, and a webhook that is called a second time."""

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
from tests.plane.recorder import Review, answering, mutating, patch_of, patching

pytestmark = pytest.mark.usefixtures("registered_webhook")
GENERATED = mpijob(4, generate_name="train-")
Seen = list[tuple[Review, Review]]
"""Requests of reviews and the responses to them, in order."""


def label(job: Object) -> str:
    text: str = template(job, "Worker")["metadata"]["labels"][keys.JOB]
    return text


def values_in_selectors(job: Object) -> list[str]:
    """Returns every value of the job label that the workers' affinity names."""
    affinity = template(job, "Worker")["spec"]["affinity"]
    result = []
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"]:
            selector = term["labelSelector"]
            result += [value for key, value in selector["matchLabels"].items() if key == keys.JOB]
            for expression in selector.get("matchExpressions", ()):
                assert expression["key"] == keys.JOB, "no selector by a name that is not known yet"
                result += expression["values"]
    return result


def test_its_terms_go_by_a_label_of_its_own_and_place_every_job_whole(
    namespace: Kubectl, control_plane_nodes: dict[str, dict[str, str]]
) -> None:
    made = namespace.create(jobs.together(*[GENERATED] * 3))["items"]
    for job in made:
        assert values_in_selectors(job) == [label(job)] * 2
        assert len(label(job)) <= 63
    assert len({label(job) for job in made}) == 3
    pods = namespace.wait_for(
        lambda obj: sum(bool(pod["spec"].get("nodeName")) for pod in obj["items"]) == 12,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
    )["items"]
    servers = {}
    for job in made:
        own = [pod for pod in pods if pod["metadata"]["labels"][keys.JOB] == label(job)]
        assert len(own) == 4
        (servers[job["metadata"]["name"]],) = {
            control_plane_nodes[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in own
        }
    assert len(set(servers.values())) == 3


def test_copies_of_an_exported_one_get_labels_of_their_own(namespace: Kubectl) -> None:
    first = namespace.create(GENERATED)
    copy = jobs.own_part(first)
    del copy["metadata"]["name"]
    # Most come within one of the whole seconds that the API server writes, where copies are hardest to tell.
    copies = namespace.create(jobs.together(*[copy] * 4))["items"]
    assert len({label(job) for job in (first, *copies)}) == 5
    for job in copies:
        assert values_in_selectors(job) == [label(job)] * 2
        assert label(first) not in str(job["spec"])


@pytest.fixture(scope="module")
def called_twice(
    control_plane: ControlPlane, registered_webhook: RunningWebhook
) -> Iterator[tuple[Kubectl, Seen]]:
    """A namespace where a second webhook changes what ours has seen, so that ours is called once more.

    What ours was asked and answered is kept.
    """
    preview: Seen = []

    def ours(review: Review) -> Review:
        answered = mutating(review)
        preview.append((review["request"], answered["response"]))
        return answered

    labels = {webhook.INJECT: "disabled", "asked": "called-twice"}
    folder = registered_webhook.ca.parent
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(jobs.borrowed_namespace(control_plane, "called-twice", labels))
        for name, answer in (("called-twice", ours), ("later-than-ours", patching(with_sidecar))):
            url = stack.enter_context(answering(folder, answer))
            running = webhook.RunningWebhook(registered_webhook.program, url, registered_webhook.ca)
            registration = webhook.configuration(running, name, {"matchLabels": {"asked": "called-twice"}})
            stack.enter_context(webhook.registered(inside, registration))
        yield inside, preview


def with_sidecar(obj: Object) -> list[dict[str, Any]]:
    """Returns as a mesh would: a container more, and something behind each of our init containers."""
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


@pytest.mark.parametrize("job", [GENERATED, mpijob(4, name="named")], ids=["generated name", "named"])
def test_a_second_call_for_the_same_object_has_nothing_to_change(
    job: Object, called_twice: tuple[Kubectl, Seen]
) -> None:
    kubectl, before = called_twice
    before.clear()
    stored = kubectl.create(job)
    mine = [pair for pair in before if pair[0]["object"]["kind"] == "MPIJob"]
    (first, answered), (second, answered_again) = mine
    assert patch_of(answered)
    assert patch_of(answered_again) == []
    # What holds the two calls together, seen on this API server: not the uid of the review, but the object's
    # managedFields, which the API server writes before admission and again for every object.
    assert first["uid"] != second["uid"]
    assert first["object"]["metadata"]["managedFields"] == second["object"]["metadata"]["managedFields"]
    assert first["object"]["metadata"].get("name") == second["object"]["metadata"].get("name")
    assert label(second["object"]) == label(stored)
    for role, kinds in {"Launcher": ["containers", "initContainers"], "Worker": ["containers"]}.items():
        spec = template(stored, role)["spec"]
        for kind in kinds:
            names = [item["name"] for item in spec[kind]]
            assert names.count("mesh") == 1
            assert len(names) == len(set(names))
    if "generateName" in job["metadata"]:
        assert values_in_selectors(stored) == [label(stored)] * 2

"""Tests of updates of other kinds: the webhook restores its fields, and the API server accepts the update."""

import copy
import json
from typing import Any

import pytest

from contract import keys
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.bound import wait_count
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob
from tests.plane.ways import way
from webhook.engine.reading import find_groups, kind_of
from webhook.objects.tree import get
from webhook.rules.load import load_default

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOISY = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
ZONE = {"key": "zone", "operator": "NotIn", "values": ["far"]}
OWN_AFFINITY = {
    "podAntiAffinity": {REQUIRED: [NOISY]},
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NOISY}]
    },
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
}
"""Terms of a user in lists to which rules add terms. ``kubectl apply`` resets these lists to the file."""


def template_paths(job: Object) -> list[Any]:
    workload, *_ = (table := load_default()).workloads_of(kind_of(job))
    return [group.path for group in find_groups(table, workload, job)]


def templates(stored: Object) -> list[Any]:
    return [get(stored, path) for path in template_paths(stored)]


def with_own_affinity(job: Object, **spec: Any) -> Object:
    """Returns a copy of a job with the affinity of a user in each pod template."""
    job = copy.deepcopy(job)
    job["spec"].update(spec)
    for replicated_job in job["spec"].get("replicatedJobs", ()):
        # JobSet's webhook sets this default only at creation, and refuses updates without the field.
        replicated_job["template"]["spec"]["completionMode"] = "Indexed"
    for path in template_paths(job):
        get(job, path)["spec"]["affinity"] = copy.deepcopy(OWN_AFFINITY)
    return job


SUSPENDED = {"runPolicy": {"suspend": True}}
JOBS = {
    "a Job": with_own_affinity(job(4)),
    "a suspended Job": with_own_affinity(job(4), suspend=True),
    "a JobSet": with_own_affinity(jobset(2, 2)),
    "a suspended JobSet": with_own_affinity(jobset(2, 2), suspend=True),
    "a LeaderWorkerSet": with_own_affinity(leaderworkerset(1, 4)),
    "a suspended PyTorchJob": with_own_affinity(pytorchjob(3), **SUSPENDED),
    "a suspended MPIJob of v1": with_own_affinity(mpijob_v1(4), **SUSPENDED),
}


@way
@pytest.mark.parametrize("document", JOBS.values(), ids=JOBS.keys())
def test_a_file_that_is_applied_again_changes_no_template(
    document: Object, way: tuple[str, ...], namespace: Kubectl
) -> None:
    first = namespace.apply(document, *way)
    for template in templates(first):
        terms = template["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
        assert terms[0] == NOISY
    assert len(terms) > 1
    second = namespace.apply(document, *way)
    assert templates(second) == templates(first)


def test_a_refusal_by_kubernetes_does_not_mention_the_webhook(namespace: Kubectl) -> None:
    namespace.apply(job(4))
    other_image = job(4)
    other_image["spec"]["template"]["spec"]["containers"][0] = {"name": "x", "image": "example.invalid/other"}
    text = json.dumps(other_image)
    done = namespace.run("apply", "-f", "-", stdin=text, check=False)
    assert done.returncode
    assert "field is immutable" in done.stderr
    assert "webhook" not in done.stderr.partition("spec.template: Invalid value")[0]


@way
def test_a_suspended_pytorchjob_with_a_new_size_equals_a_new_job_and_starts(
    way: tuple[str, ...], namespace: Kubectl, servers: dict[str, str]
) -> None:
    small, large = (with_own_affinity(pytorchjob(workers), **SUSPENDED) for workers in (3, 7))
    fresh = namespace.apply(large, *way, "--dry-run=server")
    namespace.apply(small, *way)
    namespace.wait_for(lambda obj: obj.get("status", {}).get("conditions"), "pytorchjob", "train")
    resized = namespace.apply(large, *way)
    assert templates(resized) == templates(fresh)
    namespace.apply(with_own_affinity(pytorchjob(7), runPolicy={"suspend": False}), *way)
    pods = wait_count(namespace, 8)
    assert {pod["metadata"]["labels"][keys.BLOCK] for pod in pods} == {"0", "1"}
    assert len({servers[pod["spec"]["nodeName"]] for pod in pods}) == 2

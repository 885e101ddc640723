"""Updates of stored jobs of other kinds: what they take out is put back, and the API server accepts it."""

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
OWN = {
    "podAntiAffinity": {REQUIRED: [NOISY]},
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NOISY}]
    },
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
}
"""What a person has in the lists that rules add to: kubectl resets each to what the file says."""


def paths(made: Object) -> list[Any]:
    workload, *_ = (table := load_default()).workloads_of(kind_of(made))
    return [group.path for group in find_groups(table, workload, made)]


def templates(stored: Object) -> list[Any]:
    return [get(stored, path) for path in paths(stored)]


def written(made: Object, **spec: Any) -> Object:
    """Returns a job with lists of its own in every template."""
    made = copy.deepcopy(made)
    made["spec"].update(spec)
    for each in made["spec"].get("replicatedJobs", ()):
        # JobSet's webhook fills it in at creation only, and then refuses a file that does not say so.
        each["template"]["spec"]["completionMode"] = "Indexed"
    for path in paths(made):
        get(made, path)["spec"]["affinity"] = copy.deepcopy(OWN)
    return made


SUSPENDED = {"runPolicy": {"suspend": True}}
JOBS = {
    "a Job": written(job(4)),
    "a suspended Job": written(job(4), suspend=True),
    "a JobSet": written(jobset(2, 2)),
    "a suspended JobSet": written(jobset(2, 2), suspend=True),
    "a LeaderWorkerSet": written(leaderworkerset(1, 4)),
    "a suspended PyTorchJob": written(pytorchjob(3), **SUSPENDED),
    "a suspended MPIJob of v1": written(mpijob_v1(4), **SUSPENDED),
}


@way
@pytest.mark.parametrize("made", JOBS.values(), ids=JOBS.keys())
def test_a_file_that_is_applied_again_changes_no_template(
    made: Object, way: tuple[str, ...], namespace: Kubectl
) -> None:
    first = namespace.apply(made, *way)
    for template in templates(first):
        terms = template["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
        assert terms[0] == NOISY
    assert len(terms) > 1
    again = namespace.apply(made, *way)
    assert templates(again) == templates(first)


def test_what_kubernetes_refuses_it_refuses_in_its_own_words(namespace: Kubectl) -> None:
    namespace.apply(job(4))
    changed = job(4)
    changed["spec"]["template"]["spec"]["containers"][0] = {"name": "x", "image": "example.invalid/other"}
    text = json.dumps(changed)
    done = namespace.run("apply", "-f", "-", stdin=text, check=False)
    assert done.returncode
    assert "field is immutable" in done.stderr
    assert "webhook" not in done.stderr.partition("spec.template: Invalid value")[0]


@way
def test_a_suspended_pytorchjob_of_a_new_size_is_as_if_it_were_created_so_and_starts(
    way: tuple[str, ...], namespace: Kubectl, servers: dict[str, str]
) -> None:
    small, large = (written(pytorchjob(workers), **SUSPENDED) for workers in (3, 7))
    fresh = namespace.apply(large, *way, "--dry-run=server")
    namespace.apply(small, *way)
    namespace.wait_for(lambda obj: obj.get("status", {}).get("conditions"), "pytorchjob", "train")
    resized = namespace.apply(large, *way)
    assert templates(resized) == templates(fresh)
    namespace.apply(written(pytorchjob(7), runPolicy={"suspend": False}), *way)
    pods = wait_count(namespace, 8)
    assert {pod["metadata"]["labels"][keys.BLOCK] for pod in pods} == {"0", "1"}
    assert len({servers[pod["spec"]["nodeName"]] for pod in pods}) == 2

"""The guard, with which all tests of this folder run: which templates of these kinds it permits."""

import copy
from collections.abc import Iterator

import pytest

from contract import keys
from contract.keys import GATE, PLACE
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from tests.helpers import requested
from tests.plane.guard import people
from tests.plane.kinds.jobs import CONTAINER, jobset, labelled_set, leaderworkerset, mpijob_v1, pytorchjob
from tests.t9k import SHAPES, t9k_mpijob
from webhook.engine.evaluate import evaluate
from webhook.engine.reading import find_groups, kind_of
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

RESOURCES = (
    *("jobsets.jobset.x-k8s.io", "leaderworkersets.leaderworkerset.x-k8s.io"),
    *("mpijobs.batch.tensorstack.dev", "mpijobs.kubeflow.org", "pytorchjobs.kubeflow.org"),
)
MADE = [jobset(2, 2), leaderworkerset(1, 4), mpijob_v1(4), pytorchjob(3), *map(t9k_mpijob, SHAPES)]
"""An object of each kind whose controller has a binding."""


@pytest.fixture
def ada(plane: ControlPlane) -> Iterator[Kubectl]:
    """A person who may make all kinds, in a namespace where the webhook computes nothing."""
    admin, name = plane.kubectl, "kinds-guard"
    inside = admin.create_namespace(name, {keys.INJECT: "disabled"})
    admin.run("create", "clusterrole", name, "--verb=create,update", f"--resource={','.join(RESOURCES)}")
    admin.run("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={people.ADA}")
    yield inside.acting_as(people.ADA)
    for kind in ("clusterrolebinding", "clusterrole"):
        admin.delete(kind, name)


def saying(made: Object, **said: Object) -> Object:
    """Returns an object whose last pod template has these labels or annotations, or more of a spec."""
    rows = (table := load_default()).workloads_of(kind_of(made))
    *_, path = (group.path for row in rows for group in find_groups(table, row, made))
    copied = copy.deepcopy(get(made, path))
    for key, value in said.items():
        where = copied["spec"] if key == "schedulingGates" else copied.setdefault("metadata", {})
        where[key] = value
    changed: Object = put(made, path, copied)
    return changed


def test_copied_templates_have_only_what_the_webhook_could_have_written(ada: Kubectl) -> None:
    claims: list[Object] = [
        {"labels": {keys.JOB: "team-b.train"}},
        {"annotations": {PLACE: "placer=me workers=4 size=4 unit=example.com/rack index=name"}},
        {"schedulingGates": [{"name": GATE}]},
    ]
    forged = [saying(made, **claim) for made in MADE for claim in claims]
    forged.append(labelled_set(f"{ada.namespace}.x"))
    refused = people.tries(ada, together(*forged), "create", "--dry-run=server")
    people.assert_refused(
        refused,
        "of a pod template is not what the webhook computes for kinds-guard.train_JobSet.jobset.x-k8s.io",
    )
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-kinds'") == len(forged)
    requests = (requested(made, ada.namespace) for made in MADE)
    computed = [str(evaluate(load_default(), request).facts["job"]) for request in requests]
    honest = [saying(made, labels={keys.JOB: each}) for made, each in zip(MADE, computed, strict=True)]
    people.assert_done(people.tries(ada, together(*honest), "create", "--dry-run=server"))


def test_annotations_that_the_webhook_computes_for_a_job_are_admitted(namespace: Kubectl) -> None:
    ada = namespace.acting_as(people.ADA)
    people.assert_done(people.tries(ada, people.plain_job({"containers": [CONTAINER]})))
    metadata = namespace.get_json("job", "plain")["spec"]["template"]["metadata"]
    assert metadata["labels"][keys.JOB] == f"{ada.namespace}.plain_Job.batch"
    assert metadata["annotations"][PLACE].startswith("placer=affinity workers=1 ")

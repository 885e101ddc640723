"""Tests of which pod templates of other kinds the guard permits."""

import copy
from collections.abc import Iterator

import pytest

from contract import keys
from contract.keys import GATE, PLACEMENT
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl, Object
from tests.helpers import request_for
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
JOBS = [jobset(2, 2), leaderworkerset(1, 4), mpijob_v1(4), pytorchjob(3), *map(t9k_mpijob, SHAPES)]
"""A job of each kind whose pod templates the guard's policy for the value ``kinds`` checks."""


@pytest.fixture
def ada(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl of a user who may create all kinds, in a namespace that is opted out."""
    admin, name = plane.kubectl, "kinds-guard"
    inside = admin.create_namespace(name, {keys.INJECT: "disabled"})
    admin.run("create", "clusterrole", name, "--verb=create,update", f"--resource={','.join(RESOURCES)}")
    admin.run("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={people.ADA}")
    yield inside.acting_as(people.ADA)
    for kind in ("clusterrolebinding", "clusterrole"):
        admin.delete(kind, name)


def change_template(job: Object, **fields: Object) -> Object:
    """Returns a job whose last pod template has other labels, annotations or scheduling gates."""
    rows = (table := load_default()).workloads_of(kind_of(job))
    *_, path = (group.path for row in rows for group in find_groups(table, row, job))
    template = copy.deepcopy(get(job, path))
    for key, value in fields.items():
        parent = template["spec"] if key == "schedulingGates" else template.setdefault("metadata", {})
        parent[key] = value
    changed_job: Object = put(job, path, template)
    return changed_job


def test_the_guard_permits_only_job_labels_and_annotations_that_the_webhook_computes(ada: Kubectl) -> None:
    forgeries: list[Object] = [
        {"labels": {keys.JOB: "team-b.train"}},
        {"annotations": {PLACEMENT: "placer=me workers=4 size=4 unit=example.com/rack index=name"}},
        {"schedulingGates": [{"name": GATE}]},
    ]
    forged = [change_template(job, **forgery) for job in JOBS for forgery in forgeries]
    forged.append(labelled_set(f"{ada.namespace}.x"))
    refused = people.send(ada, list_object(*forged), "create", "--dry-run=server")
    people.assert_refused(
        refused,
        "of a pod template is not what the webhook computes for kinds-guard.train_JobSet.jobset.x-k8s.io",
    )
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-kinds'") == len(forged)
    requests = (request_for(job, ada.namespace) for job in JOBS)
    job_labels = [str(evaluate(load_default(), request).facts["job"]) for request in requests]
    labelled_jobs = [
        change_template(job, labels={keys.JOB: label}) for job, label in zip(JOBS, job_labels, strict=True)
    ]
    people.assert_done(people.send(ada, list_object(*labelled_jobs), "create", "--dry-run=server"))


def test_annotations_that_the_webhook_computes_for_a_job_are_accepted(namespace: Kubectl) -> None:
    ada = namespace.acting_as(people.ADA)
    people.assert_done(people.send(ada, people.plain_job({"containers": [CONTAINER]})))
    metadata = namespace.get_json("job", "plain")["spec"]["template"]["metadata"]
    assert metadata["labels"][keys.JOB] == f"{ada.namespace}.plain_Job.batch"
    assert metadata["annotations"][PLACEMENT].startswith("placer=affinity workers=1 ")

"""Who does what in the tests of the guard, and with which rights; nobody here is an administrator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.jobs import ROLE, template
from tests.helpers import mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.cluster.kubectl import Kubectl, Object

COMPONENTS = Path(__file__).resolve().parents[3] / "manifests" / "components"
ADA = "ada"
OPERATOR = "system:serviceaccount:mpi-operator:mpi-operator"
STRANGER = "system:serviceaccount:elsewhere:mpi-operator"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
PLACEMENT = "system:serviceaccount:ultraserver-webhook:ultraserver-webhook-placement"
NODE = "system:node:ip-172-32-10-1"
NOWHERE = {"nodeSelector": {"no": "such-node"}}
CRONJOBS = "system:serviceaccount:kube-system:cronjob-controller"

# The rights that each has beside what Kubernetes itself gives them: verbs and resources.
RIGHTS = {
    "guard-jobs": ("*", "mpijobs.kubeflow.org,mpijobs.kubeflow.org/status", (ADA, KUEUE)),
    "guard-pods": (
        "create,get,list,patch,update,delete",
        "pods,pods/status,pods/ephemeralcontainers,pods/resize",
        (ADA, STRANGER, PLACEMENT, NODE),
    ),
}


def give_rights(kubectl: Kubectl) -> None:
    """Binds everybody to what they may do; the guard's own roles are not among it."""
    for name, (verbs, resources, users) in RIGHTS.items():
        kubectl.run("create", "clusterrole", name, f"--verb={verbs}", f"--resource={resources}")
        kubectl.run(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", *map("--user={}".format, users)
        )
    kubectl.run("create", "clusterrolebinding", "guard-edit", "--clusterrole=edit", f"--user={ADA}")


def take_rights(kubectl: Kubectl) -> None:
    """Takes back what ``give_rights`` gave."""
    kubectl.run("delete", "clusterrolebinding", *RIGHTS, "guard-edit")
    kubectl.run("delete", "clusterrole", *RIGHTS)


def pod(name: str = "bare", labels: dict[str, str] | None = None) -> Object:
    """A Pod that nobody's operator made."""
    containers = [{"name": "main", "image": "example.invalid/main"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": containers, **NOWHERE},
    }


WORKER = pod(labels={ROLE: "worker"})


def tries(inside: Kubectl, document: Object, *verb: str) -> CompletedProcess[str]:
    """Has kubectl send an object, whatever comes of it."""
    return inside.run(*(verb or ("create",)), "-f", "-", stdin=json.dumps(document), check=False)


def patches(inside: Kubectl, what: str, patch: object, *args: str) -> CompletedProcess[str]:
    """``kubectl patch KIND/NAME``: a list is a JSON patch, a map a merge patch."""
    kind = "json" if isinstance(patch, list) else "merge"
    return inside.run("patch", what, f"--type={kind}", "-p", json.dumps(patch), *args, check=False)


def assert_refused(done: CompletedProcess[str], *said: str) -> None:
    """Asserts that the guard, and nothing else, said no; with these words among others."""
    assert done.returncode == 1, done.stdout
    assert "ValidatingAdmissionPolicy 'ultraserver-webhook-guard-" in done.stderr, done.stderr
    for words in said:
        assert words in done.stderr


def assert_done(done: CompletedProcess[str]) -> None:
    """Asserts that it was done, without a word against it."""
    assert (done.returncode, done.stderr) == (0, "")


def unplaceable(workers: int = 4, **metadata: object) -> Object:
    """A job whose Pods fit no node: they can be deleted although no kubelet is there to end them."""
    job = mpijob(workers, worker_spec=NOWHERE, launcher_spec=NOWHERE)
    job["metadata"] |= metadata
    return job


def started(job: Object) -> bool:
    """Whether the job's pods were made: until then the webhook puts back what an update takes out."""
    return "startTime" in job.get("status", {})


def labelled_job(label: str, **metadata: object) -> Object:
    """A job that brings along a job label."""
    job = unplaceable(**metadata)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: label}}
    return job

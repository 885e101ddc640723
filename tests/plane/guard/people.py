"""The users of the guard's tests, their rights, and their requests. No user is a cluster administrator."""

import contextlib
import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

from contract import keys
from contract.keys import GATE, JOB, PLACEMENT
from testbed import chart
from testbed.experiment.attacks import repelling
from testbed.mpijob import mpijob
from testbed.plane import webhook
from testbed.plane.jobs import ROLE, list_object, template, to_json
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.waiting import until

COMPONENT = "app.kubernetes.io/component"
ADA = "ada"
WEAK = "weak"
"""A user who may create Pods and nothing else."""
OPERATOR = "system:serviceaccount:mpi-operator:mpi-operator"
UNBOUND_OPERATOR = "system:serviceaccount:elsewhere:mpi-operator"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
PLACEMENT_ACCOUNT = "system:serviceaccount:ultraserver-webhook:ultraserver-placement"
NODE = "system:node:ip-172-32-10-1"
NOWHERE = {"nodeSelector": {"no": "such-node", "node.kubernetes.io/instance-type": "trn2u.48xlarge"}}
GATES = {"schedulingGates": [{"name": GATE}]}
PLACED = {PLACEMENT: "placer=gate workers=2 size=2 unit=topology.kubernetes.io/zone index=name", JOB: "a.b"}
"""The annotations of a Pod that whole-job admission reads. With these, a user would hold a whole zone."""
TABLE = """\
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
families:
  - name: trn2u
    units: [{label: example.com/rack, nodes: 18}, {label: example.com/row, nodes: 50}]
    shapes:
      - {name: rack, workers: 18, nodeConfig: 18, apart: required}
      - {name: racks, workers: multiple of 18, nodeConfig: 18, apart: required}
      - {name: row, workers: 50, nodeConfig: 50, apart: required}
  - name: chips
    instanceTypes: [chip.8x]
    wholeNode: {example.com/chip: 8}
    shapes: [{name: one, workers: multiple of 1, nodeConfig: 1}]
rules:
  - name: zones
    reason: A key of a rule is not a unit.
    match: {role: worker}
    add:
      spec:
        topologySpreadConstraints:
          - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
"""
"""A table with units of its own. Only the labels of its units are unit labels, not the key of its rule."""
CRONJOBS = "system:serviceaccount:kube-system:cronjob-controller"

# Further rights of the users: verbs, resources, users.
RIGHTS = {
    "guard-jobs": ("*", "mpijobs.kubeflow.org,mpijobs.kubeflow.org/status", (ADA, KUEUE)),
    "guard-weak": ("create", "pods", (WEAK,)),
    "guard-pods": (
        "create,get,list,patch,update,delete",
        "pods,pods/status,pods/ephemeralcontainers,pods/resize,pods/binding,bindings",
        (ADA, UNBOUND_OPERATOR, PLACEMENT_ACCOUNT, NODE, OPERATOR),
    ),
}


def give_rights(kubectl: Kubectl) -> None:
    """Gives each user their rights. No user gets a role of the guard."""
    for name, (verbs, resources, users) in RIGHTS.items():
        kubectl.run("create", "clusterrole", name, f"--verb={verbs}", f"--resource={resources}")
        kubectl.run(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", *map("--user={}".format, users)
        )
    kubectl.run("create", "clusterrolebinding", "guard-edit", "--clusterrole=edit", f"--user={ADA}")


def take_rights(kubectl: Kubectl) -> None:
    """Deletes the roles and bindings of ``give_rights``."""
    kubectl.run("delete", "clusterrolebinding", *RIGHTS, "guard-edit")
    kubectl.run("delete", "clusterrole", *RIGHTS)


@contextlib.contextmanager
def guarding(
    kubectl: Kubectl, probe: Kubectl, *forged: Object, values: Object | None = None
) -> Iterator[None]:
    """Installs the guard and the rights of all users, and waits until the guard refuses forged objects.

    Args:
        kubectl: Kubectl of an administrator.
        probe: Kubectl for a namespace in which the guard must refuse the forged objects.
        forged: The forged objects, or none for the default of `wait_refusal`.
        values: The values of the chart that differ from the default.
    """
    give_rights(kubectl)
    values = {"table": TABLE, **(values or {})}
    table = [obj for obj in chart.objects(values) if obj["kind"] in {"Namespace", "ConfigMap"}]
    kubectl.run("apply", "-f", "-", stdin=to_json(list_object(*table)))
    guard = guard_objects(values)
    kubectl.run("apply", "-f", "-", stdin=to_json(list_object(*guard)))
    wait_refusal(probe, *forged)
    yield
    kubectl.run("delete", "-f", "-", stdin=to_json(list_object(*guard)))
    # The ConfigMap stays, because API servers notice late that it exists again. It is emptied, because the
    # plugin must not read its table.
    rules = ("configmap", "ultraserver-webhook-rules", "--type=merge")
    kubectl.in_namespace("ultraserver-webhook").run("patch", *rules, "-p", '{"data": null}')
    take_rights(kubectl)


def guard_objects(values: Object | None = None) -> list[Object]:
    """Returns the objects of the guard in an installation with these values, or with the default values."""
    return [item for item in chart.objects(values) if item["metadata"]["labels"].get(COMPONENT) == "guard"]


def pod(name: str = "bare", labels: dict[str, str] | None = None, **fields: Any) -> Object:
    """Returns a Pod that no operator created, with labels, ``annotations`` and more fields of its spec."""
    containers = [{"name": "main", "image": "example.invalid/main"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, "annotations": fields.pop("annotations", {})},
        "spec": {"containers": containers, **NOWHERE, **fields},
    }


WORKER = pod(labels={ROLE: "worker"})
REPELLING = pod(affinity=repelling({"namespaceSelector": {}}))


def plain_job(spec: Object | None = None, **annotations: str) -> Object:
    """Returns a Job of a user, with annotations on its pod template and more fields of the pod spec."""
    container = {"name": "main", "image": "example.invalid/main"}
    pods = {"restartPolicy": "Never", "containers": [container], **NOWHERE, **(spec or {})}
    template = {"metadata": {"annotations": annotations}, "spec": pods}
    job = {"template": template, "suspend": True}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": job}


def send(inside: Kubectl, document: Object, *verb: str) -> CompletedProcess[str]:
    """Sends an object with kubectl, and returns the result, which may be a refusal."""
    return inside.run(*(verb or ("create",)), "-f", "-", stdin=json.dumps(document), check=False)


def is_refused(inside: Kubectl, document: Object) -> bool:
    """Returns whether the guard refuses an object in a dry run, without a kubectl process."""
    try:
        inside.create(document, "--dry-run=server")
    except KubectlError as error:
        return "ValidatingAdmissionPolicy" in error.stderr
    return False


def wait_refusal(inside: Kubectl, *forged: Object) -> None:
    """Waits until the guard refuses these objects in a namespace, by default an object for each policy."""
    ada, forged = inside.acting_as(ADA), forged or (WORKER, REPELLING, labelled_job("another.job"))
    until(lambda: all(is_refused(ada, document) for document in forged), "refusals by the guard")


def send_patch(inside: Kubectl, name: str, patch: object, *args: str) -> CompletedProcess[str]:
    """Runs ``kubectl patch KIND/NAME``. A list is sent as a JSON patch, and a map as a merge patch."""
    kind = "json" if isinstance(patch, list) else "merge"
    return inside.run("patch", name, f"--type={kind}", "-p", json.dumps(patch), *args, check=False)


def assert_refused(done: CompletedProcess[str], *texts: str) -> None:
    """Asserts that the guard refused the request, with a message that contains these texts."""
    assert done.returncode == 1, done.stdout
    assert "ValidatingAdmissionPolicy 'ultraserver-webhook-guard-" in done.stderr, done.stderr
    for part in texts:
        assert part in done.stderr


def assert_done(done: CompletedProcess[str]) -> None:
    """Asserts that the request succeeded without a warning."""
    assert (done.returncode, done.stderr) == (0, "")


def unschedulable_job(workers: int = 4, **metadata: object) -> Object:
    """Returns a job whose Pods fit no node, so that the API server deletes them at once without a kubelet."""
    job = mpijob(workers, worker_spec=NOWHERE, launcher_spec=NOWHERE)
    job["metadata"] |= metadata
    return job


def is_started(job: Object) -> bool:
    """Returns whether the job has started. Until then, the webhook restores fields that an update removes."""
    return "startTime" in job.get("status", {})


def marked_job(
    document: Object, /, role: str = "Worker", *, gate: bool = False, **annotations: str
) -> Object:
    """Adds annotations, and optionally the gate, to a pod template of a job, and returns the job."""
    pod_template = template(document, role)
    pod_template.setdefault("metadata", {}).setdefault("annotations", {}).update(
        {f"{keys.PREFIX}{name.replace('_', '-')}": value for name, value in annotations.items()}
    )
    pod_template["spec"] |= GATES if gate else {}
    return document


def labelled_job(label: str, **metadata: object) -> Object:
    """Returns a job whose worker template already has a job label."""
    job = unschedulable_job(**metadata)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: label}}
    return job


def assert_marks_refused(inside: Kubectl, documents: list[Object]) -> str:
    """Asserts that the guard refuses all these objects because of forged marks; returns the messages."""
    refused = send(inside, list_object(*documents), "create", "--dry-run=server")
    assert_refused(refused, "sets how the pods are placed", "Remove it from the file.")
    assert refused.stderr.count("ValidatingAdmissionPolicy") == len(documents), refused.stderr
    return refused.stderr


def metadata_patch(role: str, metadata: Object) -> Object:
    """Returns a merge patch for the metadata of a pod template."""
    return {"spec": {"mpiReplicaSpecs": {role: {"template": {"metadata": metadata}}}}}


def with_workers(patch: Object, workers: int) -> Object:
    """Returns a merge patch of the worker template that also changes the number of workers."""
    worker = {**patch["spec"]["mpiReplicaSpecs"]["Worker"], "replicas": workers}
    return {"spec": {"mpiReplicaSpecs": {"Worker": worker}}}


@contextlib.contextmanager
def without_webhook(admin: Kubectl, inside: Kubectl) -> Iterator[None]:
    """Stops calls of the webhook for new jobs, as if it were down with ``failurePolicy: Ignore``."""
    configuration = f"mutatingwebhookconfiguration/{webhook.NAME}"
    path = "/webhooks/0/namespaceSelector/matchLabels"
    select_none = [{"op": "add", "path": path, "value": {"asked": "nowhere"}}]
    assert send_patch(admin, configuration, select_none).returncode == 0
    try:
        until(lambda: "nodeSelector" not in worker_spec(inside), "a job that the webhook does not change")
        yield
    finally:
        assert send_patch(admin, configuration, [{"op": "remove", "path": path}]).returncode == 0
        until(lambda: "affinity" in worker_spec(inside), "a job that the webhook changes")


def worker_spec(inside: Kubectl) -> dict[str, object]:
    """Returns the pod spec of the workers of a new job, from a dry run."""
    spec: dict[str, object] = template(inside.create(mpijob(4), "--dry-run=server"), "Worker")["spec"]
    return spec

"""Who does what in the tests of the guard, and with which rights; no one here is an administrator."""

import contextlib
import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

from contract import keys
from contract.keys import GATE, JOB, PLACE
from testbed import chart
from testbed.experiment.attacks import repelling
from testbed.mpijob import mpijob
from testbed.plane import webhook
from testbed.plane.jobs import ROLE, template, text, together
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.waiting import until

OF = "app.kubernetes.io/component"
ADA = "ada"
WEAK = "weak"
"""A user who may create Pods and nothing else."""
OPERATOR = "system:serviceaccount:mpi-operator:mpi-operator"
OTHER = "system:serviceaccount:elsewhere:mpi-operator"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
PLACEMENT = "system:serviceaccount:ultraserver-webhook:ultraserver-placement"
NODE = "system:node:ip-172-32-10-1"
NOWHERE = {"nodeSelector": {"no": "such-node", "node.kubernetes.io/instance-type": "trn2u.48xlarge"}}
GATES = {"schedulingGates": [{"name": GATE}]}
PLACED = {PLACE: "placer=gate workers=2 size=2 unit=topology.kubernetes.io/zone index=name", JOB: "a.b"}
"""What whole-job admission reads from a pod, as a person would write it to hold a zone."""
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
"""A table with units of its own: the labels of these, and no other."""
CRONJOBS = "system:serviceaccount:kube-system:cronjob-controller"

# The rights of each in addition to those from Kubernetes: verbs and resources.
RIGHTS = {
    "guard-jobs": ("*", "mpijobs.kubeflow.org,mpijobs.kubeflow.org/status", (ADA, KUEUE)),
    "guard-weak": ("create", "pods", (WEAK,)),
    "guard-pods": (
        "create,get,list,patch,update,delete",
        "pods,pods/status,pods/ephemeralcontainers,pods/resize,pods/binding,bindings",
        (ADA, OTHER, PLACEMENT, NODE, OPERATOR),
    ),
}


def give_rights(kubectl: Kubectl) -> None:
    """Binds each user to their roles, except the guard's own."""
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


@contextlib.contextmanager
def guarding(
    kubectl: Kubectl, probe: Kubectl, *forged: Object, values: Object | None = None
) -> Iterator[None]:
    """Installs the guard and everyone's rights, and yields once `wait_refusal` has returned.

    Args:
        kubectl: an administrator's.
        probe: for a namespace where it is waited for.
        forged: what it has to refuse there.
        values: of the chart, other than the default.
    """
    give_rights(kubectl)
    values = {"table": TABLE, **(values or {})}
    made = chart.objects(values)
    table = [obj for obj in made if obj["kind"] in {"Namespace", "ConfigMap"}]
    kubectl.run("apply", "-f", "-", stdin=text(together(*table)))
    guard = of_guard(values)
    kubectl.run("apply", "-f", "-", stdin=text(together(*guard)))
    wait_refusal(probe, *forged)
    yield
    kubectl.run("delete", "-f", "-", stdin=text(together(*guard)))
    # It stays, for API servers find one that is created again late; but the plugin must not read the table.
    rules = ("configmap", "ultraserver-webhook-rules", "--type=merge")
    kubectl.in_namespace("ultraserver-webhook").run("patch", *rules, "-p", '{"data": null}')
    take_rights(kubectl)


def of_guard(values: Object | None = None) -> list[Object]:
    """Returns what of an installation with these values is the guard; of the default without."""
    return [item for item in chart.objects(values) if item["metadata"]["labels"].get(OF) == "guard"]


def pod(name: str = "bare", labels: dict[str, str] | None = None, **marks: Any) -> Object:
    """Returns a Pod that no one's operator made: with labels, ``annotations`` and more of its spec."""
    containers = [{"name": "main", "image": "example.invalid/main"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, "annotations": marks.pop("annotations", {})},
        "spec": {"containers": containers, **NOWHERE, **marks},
    }


WORKER = pod(labels={ROLE: "worker"})
REPELLING = pod(affinity=repelling({"namespaceSelector": {}}))


def plain_job(spec: Object | None = None, **annotations: str) -> Object:
    """Returns a Job of a person's own, with annotations of its template and more of its pods' spec."""
    container = {"name": "main", "image": "example.invalid/main"}
    pods = {"restartPolicy": "Never", "containers": [container], **NOWHERE, **(spec or {})}
    template = {"metadata": {"annotations": annotations}, "spec": pods}
    job = {"template": template, "suspend": True}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": job}


def tries(inside: Kubectl, document: Object, *verb: str) -> CompletedProcess[str]:
    """Sends an object with kubectl, with any result."""
    return inside.run(*(verb or ("create",)), "-f", "-", stdin=json.dumps(document), check=False)


def is_refused(inside: Kubectl, document: Object) -> bool:
    """Returns whether the guard would refuse an object, asked without kubectl."""
    try:
        inside.create(document, "--dry-run=server")
    except KubectlError as error:
        return "ValidatingAdmissionPolicy" in error.stderr
    return False


def wait_refusal(inside: Kubectl, *forged: Object) -> None:
    """Waits until all of this is refused in a namespace: by itself an object for each of the policies."""
    ada, forged = inside.acting_as(ADA), forged or (WORKER, REPELLING, labelled_job("another.job"))
    until(lambda: all(is_refused(ada, each) for each in forged), "refusals by the guard")


def patches(inside: Kubectl, what: str, patch: object, *args: str) -> CompletedProcess[str]:
    """Returns ``kubectl patch KIND/NAME``: a list is a JSON patch, a map a merge patch."""
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
    """Returns a job whose Pods fit no node: they can be deleted although no kubelet is there to end them."""
    job = mpijob(workers, worker_spec=NOWHERE, launcher_spec=NOWHERE)
    job["metadata"] |= metadata
    return job


def started(job: Object) -> bool:
    """Returns whether the job's pods were made: until then the webhook puts back what an update takes out."""
    return "startTime" in job.get("status", {})


def marked_job(
    document: Object, /, role: str = "Worker", *, gate: bool = False, **annotations: str
) -> Object:
    """Returns a job that brings along what says how its pods are placed."""
    pod_template = template(document, role)
    pod_template.setdefault("metadata", {}).setdefault("annotations", {}).update(
        {f"{keys.PREFIX}{name.replace('_', '-')}": value for name, value in annotations.items()}
    )
    pod_template["spec"] |= GATES if gate else {}
    return document


def labelled_job(label: str, **metadata: object) -> Object:
    """Returns a job that brings along a job label."""
    job = unplaceable(**metadata)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: label}}
    return job


def refused_marks(inside: Kubectl, documents: list[Object]) -> str:
    """Returns what is said when the guard, and nothing else, refuses all of these."""
    refused = tries(inside, together(*documents), "create", "--dry-run=server")
    assert_refused(refused, "sets how the pods are placed", "Remove it from the file.")
    assert refused.stderr.count("ValidatingAdmissionPolicy") == len(documents), refused.stderr
    return refused.stderr


def merged(role: str, metadata: Object) -> Object:
    """Returns a merge patch of the metadata of a pod template."""
    return {"spec": {"mpiReplicaSpecs": {role: {"template": {"metadata": metadata}}}}}


def resized_too(patch: Object, workers: int) -> Object:
    """Returns a merge patch of the worker template that changes the number of workers as well."""
    worker = {**patch["spec"]["mpiReplicaSpecs"]["Worker"], "replicas": workers}
    return {"spec": {"mpiReplicaSpecs": {"Worker": worker}}}


@contextlib.contextmanager
def not_asked(admin: Kubectl, inside: Kubectl) -> Iterator[None]:
    """Disables the webhook for new jobs, as if it were down with ``failurePolicy: Ignore``."""
    configuration = f"mutatingwebhookconfiguration/{webhook.NAME}"
    place = "/webhooks/0/namespaceSelector/matchLabels"
    narrow = [{"op": "add", "path": place, "value": {"asked": "nowhere"}}]
    assert patches(admin, configuration, narrow).returncode == 0
    try:
        until(lambda: "nodeSelector" not in placed(inside), "a job that the webhook does not see")
        yield
    finally:
        assert patches(admin, configuration, [{"op": "remove", "path": place}]).returncode == 0
        until(lambda: "affinity" in placed(inside), "a job that the webhook sees")


def placed(inside: Kubectl) -> dict[str, object]:
    job = mpijob(4)
    annotations: dict[str, object] = template(inside.create(job, "--dry-run=server"), "Worker")["spec"]
    return annotations

"""Tests of the guard on Pods: only operators create the workers of a job, or change the job of a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from contract import keys
from contract.keys import GATE, LOOSE, NEURON, OPENED, SERVER_2, SERVER_4
from testbed.experiment.attacks import repelling
from testbed.plane import jobs
from testbed.plane.jobs import JOB_NAME, ROLE
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import REPOSITORY
from testbed.waiting import until
from tests.plane.guard import people
from tests.plane.guard.people import assert_done, assert_refused, pod, send, send_patch

WORKER = "pod/train-worker-0"
INDEX = "training.kubeflow.org/replica-index"
BINDING_PATHS = ["pods/{}/binding", "bindings"]
FORGED = {ROLE: "worker", keys.JOB: "team-b.victim"}


def test_the_operator_creates_workers_and_the_job_controller_creates_launchers(running_job: Kubectl) -> None:
    def has_all_pods(pods: Object) -> bool:
        roles = sorted(item["metadata"]["labels"][ROLE] for item in pods["items"])
        return roles == ["launcher", "worker", "worker", "worker", "worker"]

    running_job.wait_for(has_all_pods, "pods")
    running_job.run("delete", WORKER, "--force", "--grace-period=0")
    running_job.wait_for(has_all_pods, "pods")
    assert running_job.get_json(WORKER)["metadata"]["labels"][keys.JOB] == "guard-running.train"


@pytest.mark.parametrize(
    "labels",
    [{ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {JOB_NAME: "victim", keys.BLOCK: "0"}],
    ids=["role", "job", "block"],
)
def test_a_bare_pod_with_a_label_of_workers_is_refused_in_any_namespace(
    labels: dict[str, str], ada: Kubectl, plain_namespace: Kubectl
) -> None:
    generated = pod(labels=labels)
    generated["metadata"] |= {"name": None, "generateName": "bare-"}
    for kubectl in (ada, plain_namespace.acting_as(people.ADA)):
        refused = send(kubectl, jobs.list_object(pod(labels=labels), generated))
        assert_refused(refused, "metadata.labels[", "only operators", f"not {people.ADA}", "create an MPIJob")
        assert refused.stderr.count("ValidatingAdmissionPolicy") == 2
        assert_refused(send(kubectl, pod(labels=labels), "apply", "--server-side"), "metadata.labels[")
        assert not kubectl.get_json("pods")["items"]


@pytest.mark.parametrize("user", [people.WEAK, people.ADA])
def test_a_bare_pod_with_a_placement_annotation_is_refused(user: str, ada: Kubectl) -> None:
    forged = [pod(annotations={key: value}) for key, value in people.PLACED.items()]
    fields = (
        *(f"metadata.annotations[{key}] sets" for key in people.PLACED),
        f"spec.schedulingGates[{GATE}]",
    )
    refused = send(ada.acting_as(user), jobs.list_object(*forged, pod(**people.GATES)))
    assert_refused(refused, *fields, "only operators", "create an MPIJob")
    assert refused.stderr.count("ValidatingAdmissionPolicy") == len(fields)
    assert not ada.get_json("pods")["items"]
    own_gate = pod(annotations={"note": "a"}, schedulingGates=[{"name": "example.com/mine"}])
    assert_done(send(ada.acting_as(user), own_gate))


def test_a_user_with_all_rights_in_a_namespace_is_not_an_operator(ada: Kubectl, namespace: Kubectl) -> None:
    namespace.run("create", "role", "all", "--verb=*", "--resource=*.*")
    namespace.run("create", "rolebinding", "all", "--role=all", "--user=eve")
    eve = ada.acting_as("eve")
    assert_done(send(eve, pod()))
    forged = (people.WORKER, pod(labels={keys.JOB: "team-b.victim"}), pod(annotations=people.PLACED))
    assert send(eve, jobs.list_object(*forged)).stderr.count("not eve") == 3
    assert_refused(send_patch(eve, "pod/bare", {"metadata": {"labels": FORGED}}), "not eve")
    assert_refused(send(eve, template_owners({keys.JOB: "team-b.victim"})[-1]), "not eve")
    assert_refused(send_binding(eve, "bare", {"labels": FORGED}), "not eve")
    for path in BINDING_PATHS:
        assert_refused(send_binding(eve, "bare", {}, path), "without the scheduler", "not eve")
    assert_done(send(ada, pod("other")))
    assert send_binding(ada, "other", {}).returncode == 0


ALL_NAMESPACES, NAMESPACE_NAME = {"namespaceSelector": {}}, "kubernetes.io/metadata.name"
HOSTNAME, DEVICE = "kubernetes.io/hostname", {"requests": {NEURON: "1"}, "limits": {NEURON: "1"}}


PLACEMENT_OF_TWO = f"placer=gate workers=2 size=2 unit={SERVER_2} index=labels/{INDEX}"
NOT_OWN_JOB = {"key": keys.JOB, "operator": "NotIn", "values": ["team-b.victim"]}
OLD_LABELS = (
    "mpi-job-role",
    "mpi-job-name",
    "mpi_job_name",
    "mpi_role_type",
    "job-role",
    "pytorch-replica-type",
)
"""Labels without a domain on workers: of older versions of mpi-operator, and of other operators."""
CLAIMS = {"resourceClaims": [{"name": "all", "resourceClaimTemplateName": "us-4-node-config"}]}
CHIPS, OTHER_DEVICES = (
    {part: {name: "8"} for part in ("requests", "limits")} for name in ("example.com/chip", "example.com/x")
)
"""Requests for the devices of a family in the table, and for devices of no family."""
HAS_JOB = {"key": keys.JOB, "operator": "Exists"}
WORKERS = {"matchLabels": {ROLE: "worker"}, "matchExpressions": [NOT_OWN_JOB]}
LOOSE_AFFINITY = yaml.safe_load(
    (REPOSITORY / "manifests/chart/rules/20-pods.yaml").read_text(encoding="utf-8")
)["rules"][0]["add"]["spec"]["affinity"]


def job_worker(  # noqa: PLR0913 - the properties that the guard checks
    *,
    name: str,
    resources: Object = DEVICE,
    unit: str = SERVER_4,
    key: str = SERVER_4,
    selector: Object = WORKERS,
    job: str = "team-b.victim",
) -> Object:
    """Returns a worker with the anti-affinity term that the webhook computes for the job ``team-b.victim``.

    Each argument changes one property of the worker or the term.
    """
    worker = repelling_pod(key, resources=resources, name=name, **selector)
    placement = f"placer=gate workers=4 size=4 unit={unit} index=labels/{INDEX}"
    worker["metadata"] |= {"labels": FORGED | {keys.JOB: job}, "annotations": {keys.PLACEMENT: placement}}
    return worker


def repelling_pod(
    key: str = HOSTNAME, *, resources: Object | None = None, name: str = "bare", **selector: Any
) -> Object:
    """Returns a Pod with anti-affinity against the selected Pods of all namespaces."""
    repeller = pod(name, affinity=repelling(ALL_NAMESPACES | {"labelSelector": selector}, key=key))
    repeller["spec"]["containers"][0]["resources"] = resources or {}
    return repeller


def expressions(key: str, operator: str = "In") -> list[Object]:
    """Returns the ``matchExpressions`` of a selector with one key."""
    return [{"key": key, "operator": operator} | ({"values": ["a"]} if operator.endswith("In") else {})]


def test_a_pod_cannot_keep_other_namespaces_off_nodes_that_it_does_not_use(
    ada: Kubectl,
) -> None:
    """This applies also to an operator, which copies the term from a template of a user."""
    own = {"namespaces": [ada.namespace]}
    affinities = [
        repelling(ALL_NAMESPACES),
        repelling(own, {"namespaces": ["team-b"]}),
        repelling({"namespaces": [ada.namespace, "team-b"]}),
        repelling(own | {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "team-b"}}}),
        repelling(*[{}] * 17),
        repelling(ALL_NAMESPACES, key="kubernetes.io/os"),
        repelling(ALL_NAMESPACES, key="example.com/rac"),
    ]
    # The kubelet of the named node starts this Pod even if no plugin offers the device.
    with_node_name = repelling_pod(SERVER_4, resources=DEVICE)
    with_node_name["spec"] |= {"nodeName": "ip-172-32-10-1"}
    claim_for_nothing = repelling_pod()
    claim_for_nothing["spec"]["resourceClaims"] = [{"name": "all", "resourceClaimName": "nothing"}]
    pods = [
        repelling_pod(SERVER_4, matchExpressions=expressions(keys.JOB, "Exists")),
        repelling_pod(SERVER_2, matchLabels={"app": "mine"}),
        repelling_pod("example.com/rack", matchLabels={ROLE: "worker"}),
        repelling_pod(),
        repelling_pod(matchLabels={JOB_NAME: "train"}),
        *(repelling_pod(matchExpressions=expressions(key)) for key in OLD_LABELS),
        repelling_pod(
            matchLabels={ROLE: "worker"}, resources={"requests": {NEURON: "0"}, "limits": {NEURON: "0"}}
        ),
        repelling_pod(matchExpressions=expressions("app", "Exists")),
        repelling_pod(matchLabels={"app": "mine"}),
        repelling_pod(matchExpressions=expressions("app.kubernetes.io/name")),
        claim_for_nothing,
        repelling_pod(
            matchExpressions=[*expressions("app", "NotIn"), *expressions("batch.kubernetes.io/job-name")]
        ),
        repelling_pod(SERVER_4, resources=DEVICE),
        repelling_pod("example.com/row", resources=DEVICE),
        repelling_pod(resources=OTHER_DEVICES),
        pod(affinity=LOOSE_AFFINITY, initContainers=[{"name": "i", "image": "i", "resources": DEVICE}]),
        with_node_name,
    ]
    pods += [pod(affinity=affinity) for affinity in affinities]
    for kubectl in (ada.acting_as(people.WEAK), ada.acting_as(people.OPERATOR)):
        refused = send(kubectl, jobs.list_object(*pods))
        assert_refused(
            refused, "value of topology.kubernetes.io/zone", "Remove namespaceS", f"not {kubectl.user}"
        )
        assert_refused(refused, f"same value of {HOSTNAME}.", f"same value of {SERVER_4}.")
        assert refused.stderr.count("ValidatingAdmissionPolicy") == len(pods)
    # A worker of a job may only have the term that the webhook computes for the unit of its placement
    # annotation, and only if it uses devices.
    of_claims, first = job_worker(name="of-claims", resources={}), job_worker(name="first", resources={})
    of_claims["spec"] |= CLAIMS  # the guard ignores claims of a worker without the gate
    first["metadata"]["labels"] |= {INDEX: "0"}
    of_job = [*(pod(affinity=repelling(*terms)) for terms in ([ALL_NAMESPACES], [{}] * 17)), with_node_name]
    for worker in of_job:
        worker["metadata"]["labels"] = {keys.JOB: "team-b.victim"}
    of_job += [
        job_worker(name="idle", resources={}),
        of_claims,
        first,
        job_worker(name="single", unit=HOSTNAME),
        job_worker(name="all-pods", selector={}),
        job_worker(name="another", job="team-b.another"),
        job_worker(name="unlabelled", selector={"matchExpressions": [NOT_OWN_JOB]}),
    ]
    refused = send(ada.acting_as(people.OPERATOR), jobs.list_object(*of_job))
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-pods'") == len(of_job)


def test_anti_affinity_in_the_own_namespace_or_of_a_pod_that_uses_devices_is_permitted(ada: Kubectl) -> None:
    own = {"namespaces": [ada.namespace]}
    affinities = [
        repelling(*[{}] * 16),
        repelling(own, own | {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: ada.namespace}}}),
    ]
    pods = [pod(f"p-{number}", affinity=affinity) for number, affinity in enumerate(affinities)]
    pods.append(repelling_pod(matchLabels={ROLE: "worker"}, resources=DEVICE, name="node"))
    assert_done(send(ada, jobs.list_object(*pods)))
    launcher = job_worker(name="launcher", resources={})
    launcher["metadata"]["labels"] |= {INDEX: "0", ROLE: "launcher"}
    of_job = [
        job_worker(name="worker"),
        job_worker(name="labelled", selector={"matchExpressions": [HAS_JOB, NOT_OWN_JOB]}),
        job_worker(name="row", unit="example.com/row", key="example.com/row"),
        job_worker(name="chips", unit="example.com/row", key="example.com/row", resources=CHIPS),
        launcher,
    ]
    claims = job_worker(name="claims", resources={})
    claims["spec"] |= CLAIMS | people.GATES
    assert_done(send(ada.acting_as(people.OPERATOR), jobs.list_object(*of_job, claims)))


def labelled_worker(name: str, resources: Object | None = None, **spec: Any) -> Object:
    """Returns a worker with a job label, as mpi-operator creates it from the template of a stored job."""
    worker = pod(name, labels=FORGED, **spec)
    worker["spec"]["containers"][0]["resources"] = resources or {}
    return worker


def test_a_worker_without_devices_may_not_have_the_job_label(ada: Kubectl) -> None:
    """Such workers of a job would keep all other jobs off UltraServers that the workers do not use."""
    number_0 = labelled_worker("leader")
    number_0["metadata"]["labels"] = FORGED | {"leaderworkerset.sigs.k8s.io/worker-index": "0", INDEX: "0"}
    term = job_worker(name="term", resources={})  # refused although it has the label of a leader
    term["metadata"]["labels"] |= number_0["metadata"]["labels"]
    term["spec"] |= people.GATES
    idle = [
        labelled_worker("idle"),
        labelled_worker("zero", {"requests": {NEURON: "0"}, "limits": {NEURON: "0"}}),
        labelled_worker("here", DEVICE, nodeName="ip-172-32-10-1"),
        labelled_worker("claims", **CLAIMS),
        number_0,
        term,
        # Jobs of other kinds have anti-affinity against each Pod with a job label.
        pod("other-kind", {keys.JOB: "team-b.train_Job.batch"}),
    ]
    refused = send(ada.acting_as(people.OPERATOR), jobs.list_object(*idle))
    assert_refused(refused, "requests no devices, or names its node", f"not {people.OPERATOR}")
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-pods'") == len(idle)
    waits = [labelled_worker("waits", **people.GATES), labelled_worker("claims", **CLAIMS, **people.GATES)]
    waits.append(pod("other-claims", {keys.JOB: "team-b.train_Job.batch"}, **CLAIMS))
    assert_done(
        send(ada.acting_as(people.OPERATOR), jobs.list_object(labelled_worker("asks", DEVICE), *waits))
    )


def send_binding(
    inside: Kubectl, name: str, metadata: Object, path: str = BINDING_PATHS[0]
) -> CompletedProcess[str]:
    """Binds a Pod to a node that does not exist, through one of the two resources for Bindings."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": inside.namespace, **metadata},
        "target": target,
    }
    full_path = f"/api/v1/namespaces/{inside.namespace}/{path.format(name)}"
    return inside.run("create", "--raw", full_path, "-f", "-", stdin=json.dumps(binding), check=False)


@pytest.mark.parametrize("path", BINDING_PATHS)
def test_a_binding_cannot_write_our_labels_and_annotations_to_a_pod(path: str, ada: Kubectl) -> None:
    unscheduled = {"schedulerName": "absent"}
    assert_done(send(ada, jobs.list_object(pod(**unscheduled), pod("other", **unscheduled))))
    labels = dict.fromkeys([*FORGED, keys.BLOCK, LOOSE, JOB_NAME, INDEX], "x")
    annotations = dict.fromkeys(
        [*people.PLACED, OPENED, keys.ADDED, keys.ADDED_TO_POD, keys.INIT_SCRIPT], "x"
    )
    for metadata in ({"labels": labels}, {"annotations": annotations}):
        ((kind, values),) = metadata.items()
        fields = (f"metadata.{kind}[{key}]" for key in values)
        assert_refused(
            send_binding(ada, "bare", metadata, path), *fields, "of a Binding", f"not {people.ADA}"
        )
    permitted = {"labels": {"team": "a"}, "annotations": {"example.com/devices": "0,1"}}
    assert_done(send_binding(ada, "bare", permitted, path))
    obj = ada.get_json("pod", "bare")
    assert obj["spec"]["nodeName"] == "none"
    assert obj["metadata"]["annotations"] == permitted["annotations"]
    operator = ada.acting_as(people.OPERATOR)
    refused = send_binding(operator, "other", {"annotations": {OPENED: "2026-11-21T12:00:00Z"}}, path)
    assert_refused(refused, "is written by whole-job admission only", f"not by {people.OPERATOR}")
    assert_done(send_binding(operator, "other", {"labels": FORGED}, path))
    ada.run("delete", "pods", "--all", "--force", "--grace-period=0")


def test_an_operator_without_a_binding_is_refused_with_the_remedy(ada: Kubectl) -> None:
    refused = send(ada.acting_as(people.UNBOUND_OPERATOR), people.WORKER)
    assert_refused(
        refused,
        f"not {people.UNBOUND_OPERATOR}",
        "bound to the ClusterRole ultraserver-webhook-operator",
    )


@pytest.mark.parametrize("subresource", [(), ("--subresource=status",)], ids=["pod", "status"])
def test_a_stored_pod_cannot_become_a_worker_or_a_pod_of_another_job(
    subresource: tuple[str, ...], ada: Kubectl, running_job: Kubectl
) -> None:
    ada.create(pod())
    for labels in ({ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {keys.BLOCK: "0"}):
        refused = send_patch(ada, "pod/bare", {"metadata": {"labels": labels}}, *subresource)
        assert_refused(refused, f"metadata.labels[{next(iter(labels))}]", "only operators may change it")
    for key, value in ((ROLE, None), (JOB_NAME, "other"), (keys.JOB, "team-b.victim"), (INDEX, "7")):
        refused = send_patch(running_job, WORKER, {"metadata": {"labels": {key: value}}}, *subresource)
        assert_refused(refused, f"metadata.labels[{key}]", "only operators may change it")
    no_labels = {"metadata": {"labels": None}}  # without labels, the Pod is not recognizable as a worker
    assert_refused(send_patch(running_job, WORKER, no_labels, *subresource), "only operators may change it")
    for inside, name in ((ada, "pod/bare"), (running_job, WORKER)):
        refused = send_patch(inside, name, {"metadata": {"annotations": people.PLACED}}, *subresource)
        assert_refused(refused, *(f"metadata.annotations[{key}]" for key in people.PLACED))
    forged = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-worker-0", "labels": FORGED}}
    assert_refused(send(running_job, forged, "apply", "--server-side", "--force-conflicts", *subresource))


@pytest.mark.parametrize("verb", ["merge", "strategic", "apply", "replace"])
@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_no_other_subresource_changes_labels_or_annotations(
    subresource: str, verb: str, ada: Kubectl, namespace: Kubectl
) -> None:
    """The guard does not check these subresources. So the API server itself must ignore the metadata."""
    bare = pod(schedulerName="absent")  # so that the scheduler does not change the Pod meanwhile
    bare["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    ada.create(bare)
    obj = namespace.get_json("pod", "bare")
    obj["metadata"] |= {"labels": FORGED, "annotations": people.PLACED}
    (container,) = obj["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = "2m"
    debugger = {"name": "debugger", "image": "example.invalid/debug"}
    spec = {"containers": [container]} if subresource == "resize" else {"ephemeralContainers": [debugger]}
    metadata = {"name": "bare"} | {key: obj["metadata"][key] for key in ("labels", "annotations")}
    option = f"--subresource={subresource}"
    if verb == "apply":
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        send(namespace, document, "apply", "--server-side", "--force-conflicts", option)
    elif verb == "replace":
        send(namespace, obj | {"spec": obj["spec"] | spec}, "replace", option)
    else:
        patch = json.dumps({"metadata": metadata, "spec": spec})
        namespace.run("patch", "pod/bare", option, f"--type={verb}", "-p", patch, check=False)
    after = namespace.get_json("pod", "bare")
    assert after["metadata"]["generation"] > 1, "the request changed nothing"
    assert not after["metadata"].get("labels")
    assert not after["metadata"].get("annotations")


def template_owners(labels: dict[str, str]) -> list[Object]:
    """Returns an object of each kind whose controller in Kubernetes creates Pods from a template."""
    owners = []
    for kind, api, fields in (
        ("Deployment", "apps/v1", {}),
        ("ReplicaSet", "apps/v1", {}),
        ("StatefulSet", "apps/v1", {"serviceName": "none"}),
        ("DaemonSet", "apps/v1", {}),
        ("ReplicationController", "v1", {}),
        ("Job", "batch/v1", {}),
    ):
        app = {"app": kind.lower()}
        template = {"metadata": {"labels": app | labels}, "spec": pod()["spec"]}
        spec = {**fields, "template": template, "selector": app if api == "v1" else {"matchLabels": app}}
        if kind == "DaemonSet":  # its controller creates a Pod for each selected node
            template["spec"]["nodeSelector"] = {}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            del spec["selector"]
        owners.append({"apiVersion": api, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec})
    return owners


@pytest.fixture
def owners_namespace(ada: Kubectl) -> Iterator[Kubectl]:
    """Kubectl of a user in a namespace whose Deployments and similar objects are deleted before its Pods."""
    yield ada
    ada.run("delete", "deployments,statefulsets,daemonsets,replicasets,rc", "--all", "--wait=false")


def kinds_without_right(events: Object) -> set[str]:
    """Returns the kinds whose controller may not create a Pod, because it is not an operator."""
    return {
        event["involvedObject"]["kind"] for event in events["items"] if "only operators" in event["message"]
    }


@pytest.mark.parametrize("labels", [{ROLE: "worker"}, {keys.JOB: "team-b.victim"}], ids=["role", "job"])
def test_a_controller_of_kubernetes_cannot_create_a_worker_from_a_template_of_a_user(
    labels: dict[str, str], owners_namespace: Kubectl
) -> None:
    owners = template_owners(labels)
    if keys.JOB in labels:
        assert_refused(
            send(owners_namespace, owners.pop()), "spec.template.metadata.labels[ultraserver-webhook.io/job]"
        )
    assert_done(send(owners_namespace, jobs.list_object(*owners)))
    kinds = {owner["kind"] for owner in owners} - {"Deployment"}
    owners_namespace.wait_for(lambda events: kinds_without_right(events) == kinds, "events", timeout=60)
    assert not owners_namespace.get_json("pods")["items"]


def test_the_guard_also_checks_the_jobs_of_a_cron_job(ada: Kubectl) -> None:
    *_, job = template_owners({keys.JOB: "team-b.victim"})
    refused = send(ada.acting_as(people.CRONJOBS), job)
    assert_refused(
        refused, "spec.template.metadata.labels[ultraserver-webhook.io/job]", f"not {people.CRONJOBS}"
    )


def test_pods_of_other_applications_are_ignored(owners_namespace: Kubectl) -> None:
    assert_done(
        send(
            owners_namespace,
            jobs.list_object(*template_owners({JOB_NAME: "other"}), pod(labels={ROLE: "launcher"})),
        )
    )
    apps = {value["metadata"]["name"] for value in template_owners({})}
    owners_namespace.wait_for(
        lambda pods: {item["metadata"]["labels"].get("app") for item in pods["items"]} >= apps,
        "pods",
        timeout=60,
    )
    assert_done(
        send_patch(owners_namespace, "pod/bare", {"metadata": {"labels": {"team": "a", ROLE: "master"}}})
    )


def test_a_user_cannot_remove_the_gate_but_whole_job_admission_can(ada: Kubectl) -> None:
    """Without the gate, a Pod would get a node before the workers of waiting jobs."""
    gates = {"schedulingGates": [{"name": GATE}, {"name": "example.com/mine"}]}
    assert_done(
        send(ada.acting_as(people.OPERATOR), pod(annotations={keys.PLACEMENT: PLACEMENT_OF_TWO}, **gates))
    )
    remove_other, remove_gate = (
        [{"op": "remove", "path": f"/spec/schedulingGates/{index}"}] for index in (1, 0)
    )
    assert_refused(
        send_patch(ada, "pod/bare", remove_gate), f"spec.schedulingGates[{GATE}] sets", f"not {people.ADA}"
    )
    assert_done(send_patch(ada, "pod/bare", remove_other))
    assert_done(send_patch(ada.acting_as(people.PLACEMENT_ACCOUNT), "pod/bare", remove_gate))


def test_kubelets_and_users_may_change_other_fields_of_workers(running_job: Kubectl) -> None:
    node = running_job.acting_as(people.NODE, "system:nodes")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert_done(send_patch(node, WORKER, ready, "--subresource=status"))
    assert_done(
        send_patch(
            running_job, WORKER, {"metadata": {"labels": {"team": "a"}, "finalizers": ["example.com/x"]}}
        )
    )
    assert_done(send_patch(running_job, WORKER, {"metadata": {"finalizers": None}}))


def test_an_administrator_may_create_a_worker(ada: Kubectl, namespace: Kubectl) -> None:
    del ada
    assert_done(send(namespace, people.WORKER))


def test_the_guard_value_warn_warns_and_refuses_nothing(guarded: Kubectl, ada: Kubectl, helm: None) -> None:
    assert helm is None
    warning_guard, refusing_guard = (people.guard_objects(values) for values in ({"guard": "warn"}, None))
    dry_run = ("create", "--dry-run=server")
    try:
        guarded.run("apply", "-f", "-", stdin=jobs.to_json(jobs.list_object(*warning_guard)))
        until(lambda: not people.is_refused(ada, people.WORKER), "the guard to refuse nothing")
        assert (
            "Warning: Validation failed for ValidatingAdmissionPolicy"
            in send(ada, people.WORKER, *dry_run).stderr
        )
    finally:
        guarded.run("apply", "-f", "-", stdin=jobs.to_json(jobs.list_object(*refusing_guard)))
        people.wait_refusal(guarded.in_namespace("guard-probe"))

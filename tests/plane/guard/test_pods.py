"""Pods that pass for a job's workers: only operators make them, and no other user changes whose they are."""

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
from tests.plane.guard.people import assert_done, assert_refused, patches, pod, tries

WORKER = "pod/train-worker-0"
INDEX = "training.kubeflow.org/replica-index"
DOORS = ["pods/{}/binding", "bindings"]
FORGED = {ROLE: "worker", keys.JOB: "team-b.victim"}


def test_the_operator_makes_workers_and_the_job_controller_launchers(running_job: Kubectl) -> None:
    def made(pods: Object) -> bool:
        roles = sorted(item["metadata"]["labels"][ROLE] for item in pods["items"])
        return roles == ["launcher", "worker", "worker", "worker", "worker"]

    running_job.wait_for(made, "pods")
    running_job.run("delete", WORKER, "--force", "--grace-period=0")
    running_job.wait_for(made, "pods")
    assert running_job.get_json(WORKER)["metadata"]["labels"][keys.JOB] == "guard-running.train"


@pytest.mark.parametrize(
    "labels",
    [{ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {JOB_NAME: "victim", keys.BLOCK: "0"}],
    ids=["role", "job", "block"],
)
def test_a_bare_pod_that_passes_for_a_worker_is_refused_in_any_namespace(
    labels: dict[str, str], ada: Kubectl, plain_namespace: Kubectl
) -> None:
    generated = pod(labels=labels)
    generated["metadata"] |= {"name": None, "generateName": "bare-"}
    for inside in (ada, plain_namespace.acting_as(people.ADA)):
        refused = tries(inside, jobs.together(pod(labels=labels), generated))
        assert_refused(refused, "metadata.labels[", "only operators", f"not {people.ADA}", "create an MPIJob")
        assert refused.stderr.count("ValidatingAdmissionPolicy") == 2
        assert_refused(tries(inside, pod(labels=labels), "apply", "--server-side"), "metadata.labels[")
        assert not inside.get_json("pods")["items"]


@pytest.mark.parametrize("who", [people.WEAK, people.ADA])
def test_a_bare_pod_with_a_placement_annotation_is_refused(who: str, ada: Kubectl) -> None:
    forged = [pod(annotations={key: value}) for key, value in people.PLACED.items()]
    marks = (*(f"metadata.annotations[{key}] sets" for key in people.PLACED), f"spec.schedulingGates[{GATE}]")
    refused = tries(ada.acting_as(who), jobs.together(*forged, pod(**people.GATES)))
    assert_refused(refused, *marks, "only operators", "create an MPIJob")
    assert refused.stderr.count("ValidatingAdmissionPolicy") == len(marks)
    assert not ada.get_json("pods")["items"]
    plain = pod(annotations={"note": "a"}, schedulingGates=[{"name": "example.com/mine"}])
    assert_done(tries(ada.acting_as(who), plain))


def test_all_rights_in_a_namespace_make_no_user_an_operator(ada: Kubectl, namespace: Kubectl) -> None:
    namespace.run("create", "role", "all", "--verb=*", "--resource=*.*")
    namespace.run("create", "rolebinding", "all", "--role=all", "--user=eve")
    eve = ada.acting_as("eve")
    assert_done(tries(eve, pod()))
    forged = (people.WORKER, pod(labels={keys.JOB: "team-b.victim"}), pod(annotations=people.PLACED))
    assert tries(eve, jobs.together(*forged)).stderr.count("not eve") == 3
    assert_refused(patches(eve, "pod/bare", {"metadata": {"labels": FORGED}}), "not eve")
    assert_refused(tries(eve, laundries({keys.JOB: "team-b.victim"})[-1]), "not eve")
    assert_refused(bound(eve, "bare", {"labels": FORGED}), "not eve")
    for door in DOORS:
        assert_refused(bound(eve, "bare", {}, door), "without the scheduler", "not eve")
    assert_done(tries(ada, pod("other")))
    assert bound(ada, "other", {}).returncode == 0


ANYWHERE, NAMED = {"namespaceSelector": {}}, "kubernetes.io/metadata.name"
HOST, DEVICE = "kubernetes.io/hostname", {"requests": {NEURON: "1"}, "limits": {NEURON: "1"}}


PLACE_OF_TWO = f"placer=gate workers=2 size=2 unit={SERVER_2} index=labels/{INDEX}"
NOT_OWN = {"key": keys.JOB, "operator": "NotIn", "values": ["team-b.victim"]}
OLD_LABELS = (
    "mpi-job-role",
    "mpi-job-name",
    "mpi_job_name",
    "mpi_role_type",
    "job-role",
    "pytorch-replica-type",
)
"""Labels of workers without a domain: mpi-operator's for `kubeflow.org/v1` and before, and others'."""
CLAIMS = {"resourceClaims": [{"name": "all", "resourceClaimTemplateName": "us-4-node-config"}]}
CHIPS, OTHERS = (
    {part: {name: "8"} for part in ("requests", "limits")} for name in ("example.com/chip", "example.com/x")
)
"""A resource of a family in the table, and one of none."""
IS_JOB = {"key": keys.JOB, "operator": "Exists"}
WORKERS = {"matchLabels": {ROLE: "worker"}, "matchExpressions": [NOT_OWN]}
LOOSE_ROW = yaml.safe_load((REPOSITORY / "manifests/chart/rules/20-pods.yaml").read_text(encoding="utf-8"))[
    "rules"
][0]["add"]["spec"]["affinity"]


def computed(  # noqa: PLR0913 - each is one thing that may be otherwise
    *,
    name: str,
    asks: Object = DEVICE,
    unit: str = SERVER_4,
    key: str = SERVER_4,
    selector: Object = WORKERS,
    job: str = "team-b.victim",
) -> Object:
    """Returns a worker of the job ``team-b.victim`` with a term as the webhook computes it."""
    made = selecting(key, asks=asks, name=name, **selector)
    place = f"placer=gate workers=4 size=4 unit={unit} index=labels/{INDEX}"
    made["metadata"] |= {"labels": FORGED | {keys.JOB: job}, "annotations": {keys.PLACE: place}}
    return made


def selecting(key: str = HOST, *, asks: Object | None = None, name: str = "bare", **selector: Any) -> Object:
    """Returns a Pod that keeps those off its node, in all namespaces, that are selected so."""
    made = pod(name, affinity=repelling(ANYWHERE | {"labelSelector": selector}, key=key))
    made["spec"]["containers"][0]["resources"] = asks or {}
    return made


def among(key: str, operator: str = "In") -> list[Object]:
    return [{"key": key, "operator": operator} | ({"values": ["a"]} if operator.endswith("In") else {})]


def test_no_pod_keeps_other_namespaces_off_nodes_that_it_does_not_use(
    ada: Kubectl,
) -> None:
    """An operator that has it from a template is also refused: one core closed an UltraServer."""
    own = {"namespaces": [ada.namespace]}
    far = [
        repelling(ANYWHERE),
        repelling(own, {"namespaces": ["team-b"]}),
        repelling({"namespaces": [ada.namespace, "team-b"]}),
        repelling(own | {"namespaceSelector": {"matchLabels": {NAMED: "team-b"}}}),
        repelling(*[{}] * 17),
        repelling(ANYWHERE, key="kubernetes.io/os"),
        repelling(ANYWHERE, key="example.com/rac"),
    ]
    here = selecting(SERVER_4, asks=DEVICE)  # a kubelet starts it also where no plugin offers that device
    here["spec"] |= {"nodeName": "ip-172-32-10-1"}
    claim_for_nothing = selecting()
    claim_for_nothing["spec"]["resourceClaims"] = [{"name": "all", "resourceClaimName": "nothing"}]
    near = [
        selecting(SERVER_4, matchExpressions=among(keys.JOB, "Exists")),
        selecting(SERVER_2, matchLabels={"app": "mine"}),
        selecting("example.com/rack", matchLabels={ROLE: "worker"}),
        selecting(),
        selecting(matchLabels={JOB_NAME: "train"}),
        *(selecting(matchExpressions=among(key)) for key in OLD_LABELS),
        selecting(matchLabels={ROLE: "worker"}, asks={"requests": {NEURON: "0"}, "limits": {NEURON: "0"}}),
        selecting(matchExpressions=among("app", "Exists")),
        selecting(matchLabels={"app": "mine"}),
        selecting(matchExpressions=among("app.kubernetes.io/name")),
        claim_for_nothing,
        selecting(matchExpressions=[*among("app", "NotIn"), *among("batch.kubernetes.io/job-name")]),
        selecting(SERVER_4, asks=DEVICE),
        selecting("example.com/row", asks=DEVICE),
        selecting(asks=OTHERS),
        pod(affinity=LOOSE_ROW, initContainers=[{"name": "i", "image": "i", "resources": DEVICE}]),
        here,
    ]
    made = [*(pod(affinity=each) for each in far), *near]
    for who in (ada.acting_as(people.WEAK), ada.acting_as(people.OPERATOR)):
        refused = tries(who, jobs.together(*made))
        assert_refused(
            refused, "value of topology.kubernetes.io/zone", "Remove namespaceS", f"not {who.user}"
        )
        assert_refused(refused, f"same value of {HOST}.", f"same value of {SERVER_4}.")
        assert refused.stderr.count("ValidatingAdmissionPolicy") == len(made)
    # Nor an admitted job's: only as the webhook computes it, for the unit of its place, and with devices.
    of_claims, first = computed(name="of-claims", asks={}), computed(name="first", asks={})
    of_claims["spec"] |= CLAIMS  # of an unknown kind, without a gate
    first["metadata"]["labels"] |= {INDEX: "0"}
    of_job = [*(pod(affinity=repelling(*terms)) for terms in ([ANYWHERE], [{}] * 17)), here]
    for each in of_job:
        each["metadata"]["labels"] = {keys.JOB: "team-b.victim"}
    of_job += [
        computed(name="idle", asks={}),
        of_claims,
        first,
        computed(name="single", unit=HOST),
        computed(name="all-pods", selector={}),
        computed(name="another", job="team-b.another"),
        computed(name="unlabelled", selector={"matchExpressions": [NOT_OWN]}),
    ]
    refused = tries(ada.acting_as(people.OPERATOR), jobs.together(*of_job))
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-pods'") == len(of_job)


def test_anti_affinity_of_ones_own_namespace_and_of_who_uses_a_unit_stays_allowed(ada: Kubectl) -> None:
    own = {"namespaces": [ada.namespace]}
    near = [
        repelling(*[{}] * 16),
        repelling(own, own | {"namespaceSelector": {"matchLabels": {NAMED: ada.namespace}}}),
    ]
    asks = [selecting(matchLabels={ROLE: "worker"}, asks=DEVICE, name="node")]
    made = [*(pod(f"p-{at}", affinity=each) for at, each in enumerate(near)), *asks]
    assert_done(tries(ada, jobs.together(*made)))
    launcher = computed(name="launcher", asks={})
    launcher["metadata"]["labels"] |= {INDEX: "0", ROLE: "launcher"}
    of_job = [
        computed(name="worker"),
        computed(name="labelled", selector={"matchExpressions": [IS_JOB, NOT_OWN]}),
        computed(name="row", unit="example.com/row", key="example.com/row"),
        computed(name="chips", unit="example.com/row", key="example.com/row", asks=CHIPS),
        launcher,
    ]
    claims = computed(name="claims", asks={})
    claims["spec"] |= CLAIMS | people.GATES
    assert_done(tries(ada.acting_as(people.OPERATOR), jobs.together(*of_job, claims)))


def labelled(name: str, asks: Object | None = None, **spec: Any) -> Object:
    """Returns a worker with a job label, as mpi-operator creates it from the template of a stored job."""
    made = pod(name, labels=FORGED, **spec)
    made["spec"]["containers"][0]["resources"] = asks or {}
    return made


def test_no_worker_without_devices_has_the_label_that_keeps_other_jobs_off(ada: Kubectl) -> None:
    """24 such workers of a stored job kept all other jobs off six UltraServers, and used nothing."""
    number_0 = labelled("leader")
    number_0["metadata"]["labels"] = FORGED | {"leaderworkerset.sigs.k8s.io/worker-index": "0", INDEX: "0"}
    term = computed(name="term", asks={})  # the term is the webhook's: the label of a leader does not help
    term["metadata"]["labels"] |= number_0["metadata"]["labels"]
    term["spec"] |= people.GATES
    idle = [
        labelled("idle"),
        labelled("zero", {"requests": {NEURON: "0"}, "limits": {NEURON: "0"}}),
        labelled("here", DEVICE, nodeName="ip-172-32-10-1"),
        labelled("claims", **CLAIMS),
        number_0,
        term,
        pod(
            "other-kind", {keys.JOB: "team-b.train_Job.batch"}
        ),  # jobs of other kinds select by the label alone
    ]
    refused = tries(ada.acting_as(people.OPERATOR), jobs.together(*idle))
    assert_refused(refused, "requests no devices, or names its node", f"not {people.OPERATOR}")
    assert refused.stderr.count("ValidatingAdmissionPolicy 'ultraserver-webhook-guard-pods'") == len(idle)
    waits = [labelled("waits", **people.GATES), labelled("claims", **CLAIMS, **people.GATES)]
    waits.append(pod("other-claims", {keys.JOB: "team-b.train_Job.batch"}, **CLAIMS))
    assert_done(tries(ada.acting_as(people.OPERATOR), jobs.together(labelled("asks", DEVICE), *waits)))


def bound(
    inside: Kubectl, name: str, metadata: Object, door: str = "pods/{}/binding"
) -> CompletedProcess[str]:
    """Has a Pod bound to a node that is not there, by either resource that does it."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": inside.namespace, **metadata},
        "target": target,
    }
    where = f"/api/v1/namespaces/{inside.namespace}/{door.format(name)}"
    return inside.run("create", "--raw", where, "-f", "-", stdin=json.dumps(binding), check=False)


@pytest.mark.parametrize("door", DOORS)
def test_a_binding_writes_nothing_of_ours_to_a_pod(door: str, ada: Kubectl) -> None:
    waiting = {"schedulerName": "absent"}
    assert_done(tries(ada, jobs.together(pod(**waiting), pod("other", **waiting))))
    labels = dict.fromkeys([*FORGED, keys.BLOCK, LOOSE, JOB_NAME, INDEX], "x")
    annotations = dict.fromkeys(
        [*people.PLACED, OPENED, keys.ADDED, keys.ADDED_TO_POD, keys.INIT_SCRIPT], "x"
    )
    for metadata in ({"labels": labels}, {"annotations": annotations}):
        ((kind, keyed),) = metadata.items()
        fields = (f"metadata.{kind}[{key}]" for key in keyed)
        assert_refused(bound(ada, "bare", metadata, door), *fields, "of a Binding", f"not {people.ADA}")
    theirs = {"labels": {"team": "a"}, "annotations": {"example.com/devices": "0,1"}}
    assert_done(bound(ada, "bare", theirs, door))
    obj = ada.get_json("pod", "bare")
    assert obj["spec"]["nodeName"] == "none"
    assert obj["metadata"]["annotations"] == theirs["annotations"]
    operator = ada.acting_as(people.OPERATOR)
    refused = bound(operator, "other", {"annotations": {OPENED: "2026-11-21T12:00:00Z"}}, door)
    assert_refused(refused, "is written by whole-job admission only", f"not by {people.OPERATOR}")
    assert_done(bound(operator, "other", {"labels": FORGED}, door))
    ada.run("delete", "pods", "--all", "--force", "--grace-period=0")


def test_an_operator_that_is_not_bound_is_refused_with_the_remedy(ada: Kubectl) -> None:
    refused = tries(ada.acting_as(people.OTHER), people.WORKER)
    assert_refused(refused, f"not {people.OTHER}", "bound to the ClusterRole ultraserver-webhook-operator")


@pytest.mark.parametrize("subresource", [(), ("--subresource=status",)], ids=["pod", "status"])
def test_a_pod_cannot_become_a_worker_or_another_jobs_afterwards(
    subresource: tuple[str, ...], ada: Kubectl, running_job: Kubectl
) -> None:
    ada.create(pod())
    for labels in ({ROLE: "worker"}, {keys.JOB: "team-b.victim"}, {keys.BLOCK: "0"}):
        refused = patches(ada, "pod/bare", {"metadata": {"labels": labels}}, *subresource)
        assert_refused(refused, f"metadata.labels[{next(iter(labels))}]", "only operators may change it")
    for key, value in ((ROLE, None), (JOB_NAME, "other"), (keys.JOB, "team-b.victim"), (INDEX, "7")):
        refused = patches(running_job, WORKER, {"metadata": {"labels": {key: value}}}, *subresource)
        assert_refused(refused, f"metadata.labels[{key}]", "only operators may change it")
    every = {"metadata": {"labels": None}}  # so that nothing says any more that it is a worker
    assert_refused(patches(running_job, WORKER, every, *subresource), "only operators may change it")
    for inside, name in ((ada, "pod/bare"), (running_job, WORKER)):
        refused = patches(inside, name, {"metadata": {"annotations": people.PLACED}}, *subresource)
        assert_refused(refused, *(f"metadata.annotations[{key}]" for key in people.PLACED))
    forged = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-worker-0", "labels": FORGED}}
    assert_refused(tries(running_job, forged, "apply", "--server-side", "--force-conflicts", *subresource))


@pytest.mark.parametrize("how", ["merge", "strategic", "apply", "replace"])
@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_no_other_subresource_changes_labels_or_annotations(
    subresource: str, how: str, ada: Kubectl, namespace: Kubectl
) -> None:
    """Seen without the guard's word: it is not asked about these, and an administrator is never refused."""
    bare = pod(schedulerName="absent")  # or its word about the Pod would be another version of it
    bare["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    ada.create(bare)
    obj = namespace.get_json("pod", "bare")
    obj["metadata"] |= {"labels": FORGED, "annotations": people.PLACED}
    (container,) = obj["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = "2m"
    debugger = {"name": "debugger", "image": "example.invalid/debug"}
    spec = {"containers": [container]} if subresource == "resize" else {"ephemeralContainers": [debugger]}
    names = {"name": "bare"} | {key: obj["metadata"][key] for key in ("labels", "annotations")}
    through = f"--subresource={subresource}"
    if how == "apply":
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": names, "spec": spec}
        tries(namespace, document, "apply", "--server-side", "--force-conflicts", through)
    elif how == "replace":
        tries(namespace, obj | {"spec": obj["spec"] | spec}, "replace", through)
    else:
        patch = json.dumps({"metadata": names, "spec": spec})
        namespace.run("patch", "pod/bare", through, f"--type={how}", "-p", patch, check=False)
    after = namespace.get_json("pod", "bare")
    assert after["metadata"]["generation"] > 1, "nothing was changed"
    assert not after["metadata"].get("labels")
    assert not after["metadata"].get("annotations")


def laundries(labels: dict[str, str]) -> list[Object]:
    """Returns objects from whose templates Kubernetes' own controllers make Pods, one of each kind."""
    made = []
    for kind, api, more in (
        ("Deployment", "apps/v1", {}),
        ("ReplicaSet", "apps/v1", {}),
        ("StatefulSet", "apps/v1", {"serviceName": "none"}),
        ("DaemonSet", "apps/v1", {}),
        ("ReplicationController", "v1", {}),
        ("Job", "batch/v1", {}),
    ):
        own = {"app": kind.lower()}
        template = {"metadata": {"labels": own | labels}, "spec": pod()["spec"]}
        spec = {**more, "template": template, "selector": own if api == "v1" else {"matchLabels": own}}
        if kind == "DaemonSet":  # a Pod for every node that it selects
            template["spec"]["nodeSelector"] = {}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            del spec["selector"]
        made.append({"apiVersion": api, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec})
    return made


@pytest.fixture
def laundry(ada: Kubectl) -> Iterator[Kubectl]:
    """Kubectl of a person in a namespace whose Deployments and the like are deleted before its Pods."""
    yield ada
    ada.run("delete", "deployments,statefulsets,daemonsets,replicasets,rc", "--all", "--wait=false")


def refused_kinds(events: Object) -> set[str]:
    """Returns the kinds whose controller was refused a Pod because it is not an operator."""
    return {
        event["involvedObject"]["kind"] for event in events["items"] if "only operators" in event["message"]
    }


@pytest.mark.parametrize("labels", [{ROLE: "worker"}, {keys.JOB: "team-b.victim"}], ids=["role", "job"])
def test_no_controller_makes_a_worker_from_a_persons_template(
    labels: dict[str, str], laundry: Kubectl
) -> None:
    made = laundries(labels)
    if keys.JOB in labels:
        assert_refused(
            tries(laundry, made.pop()), "spec.template.metadata.labels[ultraserver-webhook.io/job]"
        )
    assert_done(tries(laundry, jobs.together(*made)))
    kinds = {obj["kind"] for obj in made} - {"Deployment"}
    laundry.wait_for(lambda events: refused_kinds(events) == kinds, "events", timeout=60)
    assert not laundry.get_json("pods")["items"]


def test_a_cron_jobs_jobs_are_looked_at_as_well(ada: Kubectl) -> None:
    *_, job = laundries({keys.JOB: "team-b.victim"})
    refused = tries(ada.acting_as(people.CRONJOBS), job)
    assert_refused(
        refused, "spec.template.metadata.labels[ultraserver-webhook.io/job]", f"not {people.CRONJOBS}"
    )


def test_pods_of_other_applications_are_ignored(laundry: Kubectl) -> None:
    assert_done(
        tries(laundry, jobs.together(*laundries({JOB_NAME: "other"}), pod(labels={ROLE: "launcher"})))
    )
    apps = {value["metadata"]["name"] for value in laundries({})}
    laundry.wait_for(
        lambda pods: {one["metadata"]["labels"].get("app") for one in pods["items"]} >= apps,
        "pods",
        timeout=60,
    )
    assert_done(patches(laundry, "pod/bare", {"metadata": {"labels": {"team": "a", ROLE: "master"}}}))


def test_the_gate_is_taken_off_by_whole_job_admission_alone(ada: Kubectl) -> None:
    """Without the gate a Pod has nodes before those that wait."""
    gates = {"schedulingGates": [{"name": GATE}, {"name": "example.com/mine"}]}
    assert_done(tries(ada.acting_as(people.OPERATOR), pod(annotations={keys.PLACE: PLACE_OF_TWO}, **gates)))
    mine, own = ([{"op": "remove", "path": f"/spec/schedulingGates/{at}"}] for at in (1, 0))
    assert_refused(patches(ada, "pod/bare", own), f"spec.schedulingGates[{GATE}] sets", f"not {people.ADA}")
    assert_done(patches(ada, "pod/bare", mine))
    assert_done(patches(ada.acting_as(people.PLACEMENT), "pod/bare", own))


def test_nodes_and_people_do_their_work_on_workers(running_job: Kubectl) -> None:
    node = running_job.acting_as(people.NODE, "system:nodes")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert_done(patches(node, WORKER, ready, "--subresource=status"))
    assert_done(
        patches(running_job, WORKER, {"metadata": {"labels": {"team": "a"}, "finalizers": ["example.com/x"]}})
    )
    assert_done(patches(running_job, WORKER, {"metadata": {"finalizers": None}}))


def test_an_administrator_may_make_a_worker(ada: Kubectl, namespace: Kubectl) -> None:
    del ada
    assert_done(tries(namespace, people.WORKER))


def test_the_value_for_a_staged_rollout_warns_and_refuses_nothing(
    guarded: Kubectl, ada: Kubectl, helm: None
) -> None:
    assert helm is None
    warning, refusing = (people.of_guard(values) for values in ({"guard": "warn"}, None))
    dry = ("create", "--dry-run=server")
    try:
        guarded.run("apply", "-f", "-", stdin=jobs.text(jobs.together(*warning)))
        until(lambda: not people.is_refused(ada, people.WORKER), "the guard to refuse nothing")
        assert (
            "Warning: Validation failed for ValidatingAdmissionPolicy"
            in tries(ada, people.WORKER, *dry).stderr
        )
    finally:
        guarded.run("apply", "-f", "-", stdin=jobs.text(jobs.together(*refusing)))
        people.wait_refusal(guarded.in_namespace("guard-probe"))

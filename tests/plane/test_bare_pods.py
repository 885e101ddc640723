"""Tests of the chart's values ``pods`` and ``neuronScheduler`` on a real API server.

The webhook of these tests receives the objects of namespaces that are opted out of the session's webhook.
"""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from contract import keys
from testbed import chart
from testbed.mpijob import mpijob
from testbed.plane import nodes, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, KubectlError, Object

NAME = "bare-pods-test"
ROWS = ("20-pods.yaml", "30-neuron-scheduler.yaml")
NEURON = "aws.amazon.com/neuron"
ON_TRN1 = {"nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}}
BARE_PODS = f"bare-pods.{NAME}.io"
OPERATOR = {"training.kubeflow.org/operator-name": "mpi-operator"}


def pod(name: str = "x", limits: dict[str, Any] | None = None, **fields: Any) -> Object:
    """Returns a Pod with ``fields``: labels, annotations, or fields of its spec."""
    metadata = {"name": name, **{key: fields.pop(key) for key in ("labels", "annotations") if key in fields}}
    container = {"name": "c", "image": "example.invalid/train", "resources": {"limits": limits or {}}}
    spec = {"containers": [container], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def batch_job(name: str, devices: int) -> Object:
    template = {"spec": pod(limits={NEURON: devices}, restartPolicy="Never", **ON_TRN1)["spec"]}
    metadata, spec = {"name": name}, {"template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def webhook_for_pods(control_plane: ControlPlane, helm: None) -> Iterator[None]:
    """The webhook with the rows of both values, which receives the objects of opted-out namespaces."""
    assert helm is None
    folder = control_plane.folder / NAME
    folder.mkdir()
    rules = folder / "rules"
    rules.mkdir()
    for row in ROWS:
        shutil.copy(chart.RULES / row, rules)
    running = webhook.start(control_plane.programs, folder, rules, NAME)
    opted_out = {"matchLabels": {webhook.INJECT: "disabled"}}
    values = {"pods": True, "kinds": ["jobs.v1.batch"]}
    document = webhook.configuration(running, NAME, opted_out, values=values)
    unused = ("kinds-pods", "kinds-updates")
    document["webhooks"] = [hook for hook in document["webhooks"] if not hook["name"].startswith(unused)]
    inside = control_plane.kubectl.create_namespace(NAME, {webhook.INJECT: "disabled"})
    with webhook.register(inside, document):
        yield


@pytest.fixture
def my_scheduler(control_plane: ControlPlane) -> Iterator[None]:
    """A second kube-scheduler with the name ``my-scheduler``, as on EKS, but without Neuron's extension."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(control_plane.folder / "credentials" / "scheduler.kubeconfig")
        },
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "my-scheduler"}],
    }
    path = control_plane.folder / "my-scheduler.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [str(control_plane.tools / "kube-scheduler"), f"--config={path}", "--secure-port=0"]
    program = control_plane.programs.start("my-scheduler", command, cwd=control_plane.folder)
    yield
    control_plane.programs.stop(program)


@pytest.fixture
def namespace(webhook_for_pods: None, plain_namespace: Kubectl) -> Kubectl:
    del webhook_for_pods
    return plain_namespace


def test_a_pod_with_several_devices_gets_my_scheduler_unless_it_names_a_scheduler(namespace: Kubectl) -> None:
    """Before the call, the API server writes ``default-scheduler`` into a Pod that names no scheduler."""
    cases = {"several": (4, {}), "single": (1, {}), "named": (4, {"schedulerName": "volcano"})}
    result = {
        name: namespace.create(pod(name, {NEURON: number}, **fields))["spec"]["schedulerName"]
        for name, (number, fields) in cases.items()
    }
    assert result == {"several": "my-scheduler", "single": "default-scheduler", "named": "volcano"}


def test_the_webhook_handles_the_template_of_a_batch_job_like_a_pod(namespace: Kubectl) -> None:
    """The API server also writes ``default-scheduler`` into the template. It does not send the Job's Pods."""
    calls = webhook.call_count(namespace, BARE_PODS)
    with pytest.raises(KubectlError, match="does not support requests for device: 7"):
        namespace.create(batch_job("seven", 7))
    stored = namespace.create(batch_job("eight", 8))["spec"]["template"]["spec"]
    assert (stored["schedulerName"], stored["nodeSelector"]) == ("my-scheduler", ON_TRN1["nodeSelector"])
    assert "affinity" not in stored
    (created,) = namespace.wait_for(lambda obj: obj["items"], "pods", "-l", "job-name=eight")["items"]
    assert created["spec"]["schedulerName"] == "my-scheduler"
    assert webhook.call_count(namespace, BARE_PODS) == calls


PODS: dict[str, tuple[Object, bool]] = {
    "devices": (pod(limits={NEURON: 1}), True),
    "cores": (pod(limits={"aws.amazon.com/neuroncore": 1}), True),
    "GPUs": (pod(limits={"nvidia.com/gpu": 1}), True),
    "EFA": (pod(limits={"vpc.amazonaws.com/efa": 1}), True),
    "an init container": (pod(initContainers=pod(limits={NEURON: 1})["spec"]["containers"]), True),
    "only CPU": (pod(limits={"cpu": 1}), False),
    "opted out": (pod(limits={NEURON: 1}, annotations={keys.INJECT: "false"}), False),
    "a template that the webhook changed": (pod(limits={NEURON: 1}, annotations={keys.ADDED: "{}"}), False),
    "a Pod of mpi-operator": (pod(limits={NEURON: 1}, labels=OPERATOR), False),
    "a mirror Pod": (
        pod(limits={NEURON: 1}, annotations={"kubernetes.io/config.mirror": "x"}, nodeName="x"),
        False,
    ),
}
"""Pods, and whether the API server sends them to the webhook."""


def test_only_pods_that_request_devices_are_sent(namespace: Kubectl) -> None:
    is_sent = {}
    for case, (document, _) in PODS.items():
        before = webhook.call_count(namespace, BARE_PODS)
        # After the webhooks, the API server refuses a mirror Pod from any client except a kubelet.
        namespace.run("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(document), check=False)
        is_sent[case] = webhook.call_count(namespace, BARE_PODS) > before
    assert is_sent == {case: expected for case, (_, expected) in PODS.items()}


@pytest.mark.usefixtures("my_scheduler")
def test_my_scheduler_places_a_job_on_one_ultraserver(
    namespace: Kubectl, labels_by_node: dict[str, dict[str, str]]
) -> None:
    namespace.create(mpijob())
    selector = ("pods", "-l", "training.kubeflow.org/job-role=worker")
    bound_workers = namespace.wait_for(
        lambda obj: [bool(worker["spec"].get("nodeName")) for worker in obj["items"]] == [True] * 4, *selector
    )["items"]
    assert {worker["spec"]["schedulerName"] for worker in bound_workers} == {"my-scheduler"}
    assert (
        len({labels_by_node[worker["spec"]["nodeName"]][nodes.SERVER_ID_4] for worker in bound_workers}) == 1
    )

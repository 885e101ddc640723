"""The values pods and neuronScheduler on a real API server.

The webhook here is asked about namespaces that the other tests' webhook leaves out.
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


def pod(name: str = "x", asked: dict[str, Any] | None = None, **more: Any) -> Object:
    metadata = {"name": name, **{key: more.pop(key) for key in ("labels", "annotations") if key in more}}
    container = {"name": "c", "image": "example.invalid/train", "resources": {"limits": asked or {}}}
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def batch_job(name: str, devices: int) -> Object:
    template = {"spec": pod(asked={NEURON: devices}, restartPolicy="Never", **ON_TRN1)["spec"]}
    metadata, spec = {"name": name}, {"template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def asked(control_plane: ControlPlane, helm: None) -> Iterator[None]:
    """The webhook with their rows, asked about namespaces that are opted out."""
    assert helm is None
    folder = control_plane.folder / NAME
    folder.mkdir()
    rules = folder / "rules"
    rules.mkdir()
    for row in ROWS:
        shutil.copy(chart.RULES / row, rules)
    running = webhook.start(control_plane.programs, folder, rules, NAME)
    theirs = {"matchLabels": {webhook.INJECT: "disabled"}}
    values = {"pods": True, "kinds": ["jobs.v1.batch"]}
    document = webhook.configuration(running, NAME, theirs, values=values)
    beside = ("kinds-pods", "kinds-updates")
    document["webhooks"] = [hook for hook in document["webhooks"] if not hook["name"].startswith(beside)]
    inside = control_plane.kubectl.create_namespace(NAME, {webhook.INJECT: "disabled"})
    with webhook.registered(inside, document):
        yield


@pytest.fixture
def my_scheduler(control_plane: ControlPlane) -> Iterator[None]:
    """A second kube-scheduler of this name, as on EKS, but without the extension in it."""
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
def namespace(asked: None, plain_namespace: Kubectl) -> Kubectl:
    del asked
    return plain_namespace


def test_a_pod_with_several_devices_gets_the_scheduler_unless_it_names_one(namespace: Kubectl) -> None:
    """The API server has written ``default-scheduler`` into each of them before it asks."""
    cases = {"several": (4, {}), "one": (1, {}), "own": (4, {"schedulerName": "volcano"})}
    result = {
        name: namespace.create(pod(name, {NEURON: number}, **more))["spec"]["schedulerName"]
        for name, (number, more) in cases.items()
    }
    assert result == {"several": "my-scheduler", "one": "default-scheduler", "own": "volcano"}


def test_a_job_of_kubernetes_own_is_as_its_pods_would_be(namespace: Kubectl) -> None:
    """Into its template, too, the API server has written ``default-scheduler``; its Pods are not sent."""
    sent = webhook.call_count(namespace, BARE_PODS)
    with pytest.raises(KubectlError, match="does not support requests for device: 7"):
        namespace.create(batch_job("seven", 7))
    stored = namespace.create(batch_job("eight", 8))["spec"]["template"]["spec"]
    assert (stored["schedulerName"], stored["nodeSelector"]) == ("my-scheduler", ON_TRN1["nodeSelector"])
    assert "affinity" not in stored
    (made,) = namespace.wait_for(lambda obj: obj["items"], "pods", "-l", "job-name=eight")["items"]
    assert made["spec"]["schedulerName"] == "my-scheduler"
    assert webhook.call_count(namespace, BARE_PODS) == sent


MIX: dict[str, tuple[Object, bool]] = {
    "devices": (pod(asked={NEURON: 1}), True),
    "cores": (pod(asked={"aws.amazon.com/neuroncore": 1}), True),
    "GPUs": (pod(asked={"nvidia.com/gpu": 1}), True),
    "EFA": (pod(asked={"vpc.amazonaws.com/efa": 1}), True),
    "an init container": (pod(initContainers=pod(asked={NEURON: 1})["spec"]["containers"]), True),
    "neither": (pod(asked={"cpu": 1}), False),
    "opted out": (pod(asked={NEURON: 1}, annotations={keys.INJECT: "false"}), False),
    "of a changed template": (pod(asked={NEURON: 1}, annotations={keys.ADDED: "{}"}), False),
    "mpi-operator's": (pod(asked={NEURON: 1}, labels=OPERATOR), False),
    "a mirror Pod": (
        pod(asked={NEURON: 1}, annotations={"kubernetes.io/config.mirror": "x"}, nodeName="x"),
        False,
    ),
}


def test_only_pods_that_request_devices_are_sent(namespace: Kubectl) -> None:
    sent = {}
    for case, (each, _) in MIX.items():
        before = webhook.call_count(namespace, BARE_PODS)
        # A mirror Pod is refused to all but a kubelet, behind the webhooks.
        namespace.run("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(each), check=False)
        sent[case] = webhook.call_count(namespace, BARE_PODS) > before
    assert sent == {case: expected for case, (_, expected) in MIX.items()}


@pytest.mark.usefixtures("my_scheduler")
def test_the_other_scheduler_puts_a_job_on_one_ultraserver(
    namespace: Kubectl, control_plane_nodes: dict[str, dict[str, str]]
) -> None:
    namespace.create(mpijob())
    workers = ("pods", "-l", "training.kubeflow.org/job-role=worker")
    bound = namespace.wait_for(
        lambda obj: [bool(each["spec"].get("nodeName")) for each in obj["items"]] == [True] * 4, *workers
    )["items"]
    assert {each["spec"]["schedulerName"] for each in bound} == {"my-scheduler"}
    assert len({control_plane_nodes[each["spec"]["nodeName"]][nodes.SERVER_ID_4] for each in bound}) == 1

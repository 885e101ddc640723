"""Seed 004, HyperPod: what jobs and Pods that ask for GPUs get, and that it is nothing of Neuron's."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

from testbed.mpijob import LAUNCHER, WORKER
from tests.rules.tables import after, outcome, parsed, unrecorded, with_component
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

JOB = parsed(
    (Path(__file__).parent.parent / "data" / "seed-004" / "nccl-tests.yaml").read_text(encoding="utf-8")
)
TYPE = "node.kubernetes.io/instance-type"
HEALTH = "sagemaker.amazonaws.com/node-health-status"
PULL = "values: {imagePullSecret: regcred-nccl-test}\n"
GPU_TYPE = "values: {gpuInstanceType: ml.p5.48xlarge}\n"
HEALTHY = "rules: [{name: healthy-nodes, mode: enforce}]\n"
hyperpod = partial(with_component, "hyperpod")
SELECTOR = (*WORKER, "spec", "nodeSelector")


def without_selector() -> Any:
    job = copy.deepcopy(JOB)
    del job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"]
    return job


def test_the_job_of_the_document_is_unchanged() -> None:
    assert outcome(load_default(), JOB).operations == ()


def test_launcher_and_worker_get_the_pull_secret_and_nothing_else() -> None:
    stored = after(hyperpod(PULL), JOB)
    secrets = [{"name": "regcred-nccl-test"}]
    expected = JOB
    for role in (LAUNCHER, WORKER):
        expected = put(expected, (*role, "spec", "imagePullSecrets"), secrets)
    assert unrecorded(stored) == expected
    assert outcome(hyperpod(PULL), stored).operations == ()


def test_a_pull_secret_of_the_job_stays_and_an_equal_one_is_added_once() -> None:
    mine = [{"name": "mine"}, {"name": "regcred-nccl-test"}]
    job = put(JOB, (*WORKER, "spec", "imagePullSecrets"), mine)
    assert get(after(hyperpod(PULL), job), (*WORKER, "spec", "imagePullSecrets")) == mine


def test_gpus_without_a_choice_of_nodes_go_to_the_instance_type_of_the_cluster() -> None:
    stored = after(hyperpod(GPU_TYPE), without_selector())
    assert get(stored, SELECTOR) == {TYPE: "ml.p5.48xlarge"}
    assert get(stored, (*LAUNCHER, "spec", "nodeSelector")) is None
    assert outcome(hyperpod(GPU_TYPE), stored).operations == ()


def test_healthy_nodes_with_a_selection_of_the_job() -> None:
    assert get(after(hyperpod(HEALTHY), JOB), SELECTOR) == {TYPE: "ml.p5.48xlarge", HEALTH: "Schedulable"}


def test_huge_pages_alone_make_no_candidate() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "database"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"hugepages-2Mi": "1Gi"}}}]
        },
    }
    table = hyperpod("values: {gpuInstanceType: ml.p5.48xlarge}\n" + HEALTHY)
    assert outcome(table, pod).operations == ()

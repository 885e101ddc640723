"""Seed 004, HyperPod: what jobs and Pods that ask for GPUs get, and that it is nothing of Neuron's."""

from functools import partial
from pathlib import Path

from testbed.mpijob import LAUNCHER, WORKER
from tests.rules.tables import after, outcome, parsed, unrecorded, with_component
from webhook.objects.tree import drop, get, put
from webhook.rules.load import load_default

JOB = parsed(
    (Path(__file__).parent.parent / "data" / "seed-004" / "nccl-tests.yaml").read_text(encoding="utf-8")
)
TYPE = "node.kubernetes.io/instance-type"
PULL = "values: {imagePullSecret: regcred-nccl-test}\n"
GPU_TYPE = "values: {gpuInstanceType: ml.p5.48xlarge}\n"
hyperpod = partial(with_component, "hyperpod")
SELECTOR = (*WORKER, "spec", "nodeSelector")


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
    stored = after(hyperpod(GPU_TYPE), drop(JOB, SELECTOR))
    assert get(stored, SELECTOR) == {TYPE: "ml.p5.48xlarge"}
    assert get(stored, (*LAUNCHER, "spec", "nodeSelector")) is None
    assert outcome(hyperpod(GPU_TYPE), stored).operations == ()

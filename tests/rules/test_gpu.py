"""Tests that GPU jobs on HyperPod get the chart's values for GPUs, and nothing for Neuron devices."""

from functools import partial
from pathlib import Path

from testbed.mpijob import LAUNCHER, WORKER
from tests.rules.tables import mutate, outcome, parse_yaml, remove_records, table_with_component
from webhook.objects.tree import drop, get, put
from webhook.rules.load import load_default

JOB = parse_yaml(
    (Path(__file__).parent.parent / "data" / "seed-004" / "nccl-tests.yaml").read_text(encoding="utf-8")
)
TYPE = "node.kubernetes.io/instance-type"
PULL_VALUES = "values: {imagePullSecret: regcred-nccl-test}\n"
GPU_VALUES = "values: {gpuInstanceType: ml.p5.48xlarge}\n"
hyperpod_table = partial(table_with_component, "hyperpod")
SELECTOR = (*WORKER, "spec", "nodeSelector")


def test_the_job_of_the_hyperpod_document_is_unchanged() -> None:
    assert outcome(load_default(), JOB).operations == ()


def test_launcher_and_worker_get_the_pull_secret_and_nothing_else() -> None:
    stored = mutate(hyperpod_table(PULL_VALUES), JOB)
    secrets = [{"name": "regcred-nccl-test"}]
    expected = JOB
    for role in (LAUNCHER, WORKER):
        expected = put(expected, (*role, "spec", "imagePullSecrets"), secrets)
    assert remove_records(stored) == expected
    assert outcome(hyperpod_table(PULL_VALUES), stored).operations == ()


def test_pull_secrets_of_the_job_stay_and_the_same_pull_secret_is_not_added_again() -> None:
    secrets = [{"name": "mine"}, {"name": "regcred-nccl-test"}]
    job = put(JOB, (*WORKER, "spec", "imagePullSecrets"), secrets)
    assert get(mutate(hyperpod_table(PULL_VALUES), job), (*WORKER, "spec", "imagePullSecrets")) == secrets


def test_gpu_workers_without_a_node_selector_get_the_instance_type_of_the_value() -> None:
    stored = mutate(hyperpod_table(GPU_VALUES), drop(JOB, SELECTOR))
    assert get(stored, SELECTOR) == {TYPE: "ml.p5.48xlarge"}
    assert get(stored, (*LAUNCHER, "spec", "nodeSelector")) is None
    assert outcome(hyperpod_table(GPU_VALUES), stored).operations == ()

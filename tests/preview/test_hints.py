"""Tests of hints about kinds and fields that are probably misspelt."""

import copy
import json
from typing import Any

import pytest
from click.testing import CliRunner

from common.pointers import field_name
from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from webhook.cli import main
from webhook.documents import dump_yaml, expand_lists, read_documents
from webhook.objects.tree import Json, get
from webhook.preview import messages
from webhook.preview.hints import find_hints
from webhook.rules.load import load_default

TABLE = load_default()
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"paralellism": 4}}}]},
}


def messages_of(obj: Json) -> list[str]:
    """Returns the messages of all hints about an object."""
    return [text for _, text in find_hints(TABLE, obj)]


def with_renamed_key(path: tuple[str | int, ...], old: str, new: str) -> Json:
    """Returns a job in which a key of the map at a path is renamed."""
    obj = copy.deepcopy(mpijob())
    fields = get(obj, path)
    fields[new] = fields.pop(old)
    return obj


WORKER = ("spec", "mpiReplicaSpecs", "Worker")
FIELDS = [
    ((), "spec", "sepc"),
    ((), "metadata", "Metadata"),
    (("spec",), "mpiReplicaSpecs", "mpiReplicaSpec"),
    (("spec", "mpiReplicaSpecs"), "Worker", "worker"),
    (("spec", "mpiReplicaSpecs"), "Launcher", "Luancher"),
    (WORKER, "replicas", "replcas"),
    (WORKER, "template", "templates"),
    ((*WORKER, "template", "spec"), "containers", "container"),
    ((*WORKER, "template", "spec", "containers", 0), "resources", "ressources"),
]


@pytest.mark.parametrize(("path", "old", "new"), FIELDS, ids=[new for _, _, new in FIELDS])
def test_the_hint_about_a_misspelt_field_has_the_right_name(
    path: tuple[str | int, ...], old: str, new: str
) -> None:
    """Protects a pipeline from passing a job with a field that the API server or the webhook ignores."""
    field = field_name((*path, new))
    assert messages_of(with_renamed_key(path, old, new)) == [messages.unknown_field(field, old)]


def test_a_misspelt_field_in_a_list_element_gets_a_hint() -> None:
    field = "spec.replicatedJobs[0].template.spec.paralellism"
    assert messages_of(JOBSET) == [messages.unknown_field(field, "parallelism")]


KINDS = {
    "kubeflow.org/v2beta1/MPIjob": "kubeflow.org/v2beta1/MPIJob",
    "kubeflow.org/v2beta/MPIJob": "kubeflow.org/v2beta1/MPIJob",
    "kubeflow.org/v1/PyTorchJobs": "kubeflow.org/v1/PyTorchJob",
    "batch/v1/job": "batch/v1/Job",
    "batch/v1/MPIJob": "kubeflow.org/v2beta1/MPIJob",
    "v1/MPIJob": "kubeflow.org/v2beta1/MPIJob",
    **dict.fromkeys(
        ["v1/ConfigMap", "v1/PodTemplate", "batch/v1/CronJob", "batch/v1/Job", "kubeflow.org/v1/TFJob"], None
    ),
    **dict.fromkeys(["batch.volcano.sh/v1alpha1/Job", "trainer.kubeflow.org/v1alpha1/TrainJob"], None),
}


@pytest.mark.parametrize(("kind", "similar"), KINDS.items(), ids=KINDS)
def test_only_a_kind_that_resembles_a_kind_of_the_table_gets_a_hint(kind: str, similar: Any) -> None:
    """Protects jobs whose kind has the wrong case from being ignored, and other kinds from false hints."""
    version, _, name = kind.rpartition("/")
    expected = [messages.unknown_kind(kind, similar)] if similar else []
    assert messages_of({"apiVersion": version, "kind": name}) == expected


def test_an_object_without_apiversion_gets_a_hint_about_a_similar_key() -> None:
    """Protects users who write `apiversion`: no rule matches an object without `apiVersion`."""
    (hint,) = messages_of({"kind": "Pod", "apiversion": "v1"})
    assert "it has no apiVersion; did you mean 'apiVersion' for 'apiversion'?" in hint


def test_an_unknown_field_next_to_the_known_field_gets_no_hint() -> None:
    """Protects jobs with fields that only resemble known fields, such as the fields of a newer operator."""
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replica"] = 1
    assert messages_of(job) == []
    elastic = {"elasticPolicy": {"minReplicas": 1}}
    assert messages_of({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": elastic}) == []


def test_the_examples_and_test_data_of_this_repository_get_no_hints() -> None:
    files = [*REPOSITORY.glob("examples/**/*.yaml"), *REPOSITORY.glob("tests/data/*/*.yaml")]
    documents = [item for file in files for item in read_documents(file.read_bytes(), str(file))]
    hints = [(item.source, text) for item in expand_lists(documents) for text in messages_of(item.value)]
    assert len(documents) > 4
    assert hints == []


def test_a_hint_changes_no_exit_status_and_is_not_a_warning() -> None:
    """Protects pipelines from failing because of a wrong hint."""
    text = dump_yaml(with_renamed_key(WORKER, "replicas", "replcas"))
    result = CliRunner().invoke(main, ["preview", "-o", "json"], input=text)
    assert result.exit_code == 0
    (item,) = json.loads(result.stdout)["items"]
    assert (item["warnings"], len(item["hints"])) == ([], 1)

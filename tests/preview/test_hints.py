"""Kinds, fields and files that were probably meant otherwise, with the nearest name; and no others."""

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
    """Returns the messages of all hints."""
    return [text for _, text in find_hints(TABLE, obj)]


def misspelt(path: tuple[str | int, ...], old: str, new: str) -> Json:
    """Returns a job with another name for a key."""
    obj = copy.deepcopy(mpijob())
    there = get(obj, path)
    there[new] = there.pop(old)
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
def test_a_misspelt_field_is_named_with_the_right_one(
    path: tuple[str | int, ...], old: str, new: str
) -> None:
    """Protects what a pipeline would else pass: a field that the API server or the webhook never looks at."""
    field = field_name((*path, new))
    assert messages_of(misspelt(path, old, new)) == [messages.unknown_field(field, old)]


def test_fields_in_lists_are_looked_at() -> None:
    """Protects fields below lists, to whose elements a row's path leads."""
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


@pytest.mark.parametrize(("kind", "near"), KINDS.items(), ids=KINDS)
def test_a_kind_is_named_with_the_nearest_of_the_table_and_another_kind_is_not(kind: str, near: Any) -> None:
    """Protects kinds that differ by case from being passed over, and real other kinds from being accused."""
    version, _, name = kind.rpartition("/")
    expected = [messages.unknown_kind(kind, near)] if near else []
    assert messages_of({"apiVersion": version, "kind": name}) == expected


def test_what_is_no_object_is_named_with_the_key_that_was_meant() -> None:
    """Protects people who write `apiversion`: no rule looks at such an object."""
    (hint,) = messages_of({"kind": "Pod", "apiversion": "v1"})
    assert "it has no apiVersion; did you mean 'apiVersion' for 'apiversion'?" in hint


def test_a_name_that_is_there_in_its_right_form_too_is_no_misspelling() -> None:
    """Protects jobs with fields that only look like known ones, such as those of a newer operator."""
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replica"] = 1
    assert messages_of(job) == []
    elastic = {"elasticPolicy": {"minReplicas": 1}}
    assert messages_of({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": elastic}) == []


def test_documents_of_this_repository_have_none() -> None:
    """Protects people from false warnings."""
    files = [*REPOSITORY.glob("examples/**/*.yaml"), *REPOSITORY.glob("tests/data/*/*.yaml")]
    documents = [each for file in files for each in read_documents(file.read_bytes(), str(file))]
    entries = [(each.source, text) for each in expand_lists(documents) for text in messages_of(each.value)]
    assert len(documents) > 4
    assert entries == []


def test_hints_change_no_status_and_are_no_warnings() -> None:
    """Protects programs: a hint may be wrong, so it decides nothing."""
    text = dump_yaml(misspelt(WORKER, "replicas", "replcas"))
    result = CliRunner().invoke(main, ["preview", "-o", "json"], input=text)
    assert result.exit_code == 0
    (item,) = json.loads(result.stdout)["items"]
    assert (item["warnings"], len(item["hints"])) == ([], 1)

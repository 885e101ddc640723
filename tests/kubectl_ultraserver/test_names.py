"""Tests that the plugin finds the pods of a job by each form of the job's name."""

from typing import Any

import pytest

from contract.keys import JOB
from kubectl_ultraserver.names import JobReference, is_pod_of, job_of, parse_reference

MPI = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/operator-name": "mpi-operator"}


def pod(labels: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": "p", "labels": labels, **more}}


def controlled_by(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("train", ""),
        ("mpijob/train", "mpijob"),
        ("MPIJobs/train", "mpijob"),
        ("mpijobs.kubeflow.org/train", "mpijob"),
        ("mpijob.v2beta1.kubeflow.org/train", "mpijob"),
        ("jobset/train", "jobset"),
    ],
)
def test_a_job_is_named_as_kubectl_names_objects(text: str, kind: str) -> None:
    assert parse_reference(text) == JobReference(kind, "train")


@pytest.mark.parametrize("text", ["", "/train", "mpijob/", "a/b/c", "s/x"])
def test_an_invalid_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example train or mpijob/train"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("obj", "reference", "belongs"),
    [
        (pod({"training.kubeflow.org/job-name": "train"}), "train", True),
        (pod(MPI), "mpijob/train", True),
        (pod(MPI), "jobset/train", False),
        (
            pod({"jobset.sigs.k8s.io/jobset-name": "train"}, **controlled_by("Job", "train-w-0")),
            "train",
            True,
        ),
        (pod({}, **controlled_by("JobSet", "train")), "jobset/train", True),
        (pod({}, **controlled_by("JobSet", "train")), "mpijob/train", False),
        (pod({JOB: "team.train"}), "train", True),
        (pod({JOB: "team.train"}), "anything/train", True),
        (pod({}, annotations={JOB: "team.train"}), "train", True),
        (pod({JOB: "team.trained"}), "train", False),
        (pod({}), "train", False),
        (pod({}, annotations=None, ownerReferences=None), "train", False),
    ],
)
def test_pods_belong_to_jobs_by_label_owner_or_job_label(
    obj: dict[str, Any],
    reference: str,
    belongs: bool,  # noqa: FBT001
) -> None:
    assert is_pod_of(obj, parse_reference(reference)) == belongs
    if belongs:
        assert job_of(obj) == "train" or "Job" in str(obj)

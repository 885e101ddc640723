"""Tests of the job label: its value is unique, has at most 63 characters, and is not the user's choice."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import mpijob
from webhook.engine import Request, evaluate
from webhook.engine.identity import first_uid, job_id
from webhook.engine.messages import message
from webhook.rules.load import load_default

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
NAMESPACES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,120}[a-z0-9])?", fullmatch=True)
TABLE = load_default()


KINDS = st.sampled_from(
    ["kubeflow.org/v2beta1/MPIJob", "batch.tensorstack.dev/v1beta1/MPIJob", "batch/v1/Job", "v1/Pod"]
)


def value_for(namespace: str, name: str, kind: str = "kubeflow.org/v2beta1/MPIJob") -> str:
    version, _, kind = kind.rpartition("/")
    return job_id(Request({"apiVersion": version, "kind": kind}, namespace), name, "", "")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("kubeflow.org/v2beta1/MPIJob", "team-a.train"),
        ("kubeflow.org/v1/MPIJob", "team-a.train"),  # the same object in another API version
        ("batch/v1/Job", "team-a.train_Job.batch"),
        ("batch.tensorstack.dev/v1beta1/MPIJob", "team-a.train_MPIJob.batch.tensorstack.dev"),
        ("v1/Pod", "team-a.train_Pod"),
    ],
)
def test_the_value_for_a_short_name_has_namespace_name_and_the_kind_except_for_mpijobs(
    kind: str, value: str
) -> None:
    assert value_for("team-a", "train", kind) == value


@given(NAMESPACES, NAMES, KINDS)
def test_every_value_is_a_valid_label_value(namespace: str, name: str, kind: str) -> None:
    assert LABEL_VALUE.fullmatch(value_for(namespace, name, kind))


JOBS = st.tuples(NAMESPACES, NAMES, KINDS)


@given(JOBS, st.one_of(JOBS, KINDS))
def test_two_jobs_never_share_a_value(
    job: tuple[str, str, str], other_job: tuple[str, str, str] | str
) -> None:
    other_job = (*job[:2], other_job) if isinstance(other_job, str) else other_job
    assert (value_for(*job) == value_for(*other_job)) == (job == other_job)


def test_the_value_for_a_long_name_has_a_hash() -> None:
    value = value_for("team", "a" * 100)
    assert "_" in value
    assert value != value_for("team", "a" * 101)
    assert len(value) <= 63


@pytest.mark.parametrize("prefix", ["train-", "x" * 200, "", "UPPER_case!"])
def test_a_job_without_a_name_has_a_label_value_too(prefix: str) -> None:
    assert LABEL_VALUE.fullmatch(job_id(Request({}, "team", "uid"), "", prefix, "uid"))


def request_without_name(
    uid: str, time: str = "2026-01-01T00:00:00Z", user: str = "me", namespace: str = "team"
) -> Request:
    fields = [{"manager": "kubectl", "time": time}]
    return Request({"metadata": {"generateName": "g-", "managedFields": fields}}, namespace, uid, user)


def test_the_second_review_of_an_object_uses_the_uid_of_the_first_review() -> None:
    label = job_id(request_without_name("first"), "", "g-", "first")
    assert first_uid(request_without_name("second"), "g-", "first", label) == "first"


COPIED_REQUEST = request_without_name("first")
COPIED_REQUEST.object["metadata"]["managedFields"][0]["fieldsV1"] = {"f:metadata": {f"f:{keys.ADDED}": {}}}
COPIES = {
    "created at another time": request_without_name("second", time="2026-01-01T00:00:01Z"),
    "created by another user": request_without_name("second", user="other"),
    "created in another namespace": request_without_name("second", namespace="other"),
    "sent with the record": replace(COPIED_REQUEST, uid="second"),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_the_uid_of_a_copied_record_is_not_used(copy: Request) -> None:
    label = job_id(request_without_name("first"), "", "g-", "first")
    assert first_uid(copy, "g-", "first", label) == "second"


def test_a_job_label_of_the_user_is_replaced_with_a_warning() -> None:
    job = mpijob(4, name="thief")
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {keys.JOB: "default.victim"}}
    outcome = evaluate(TABLE, Request(job, "default", "uid"))
    after = outcome.after["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert after["labels"][keys.JOB] == "default.thief"
    path = "spec.mpiReplicaSpecs.Worker.template.metadata.labels[ultraserver-webhook.io/job]"
    assert outcome.warnings == (message("own-key", "replaced", path, '"default.victim"'),)

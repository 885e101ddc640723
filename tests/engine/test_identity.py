"""The job label's value: unique in the cluster, at most 63 characters, never the user's to choose."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import mpijob
from webhook.engine import Request, evaluate
from webhook.engine.identity import first_uid, job_id
from webhook.rules.load import load_default

LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
NAMESPACES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,120}[a-z0-9])?", fullmatch=True)
TABLE = load_default()


KINDS = st.sampled_from(
    ["kubeflow.org/v2beta1/MPIJob", "batch.tensorstack.dev/v1beta1/MPIJob", "batch/v1/Job", "v1/Pod"]
)


def named(namespace: str, name: str, kind: str = "kubeflow.org/v2beta1/MPIJob") -> str:
    version, _, kind = kind.rpartition("/")
    return job_id(Request({"apiVersion": version, "kind": kind}, namespace), name, "", "")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("kubeflow.org/v2beta1/MPIJob", "team-a.train"),
        ("kubeflow.org/v1/MPIJob", "team-a.train"),  # the same object, if one asks for the other version
        ("batch/v1/Job", "team-a.train_Job.batch"),
        ("batch.tensorstack.dev/v1beta1/MPIJob", "team-a.train_MPIJob.batch.tensorstack.dev"),
        ("v1/Pod", "team-a.train_Pod"),
    ],
)
def test_a_short_name_can_be_parsed_and_has_the_kind_except_of_mpijobs(kind: str, value: str) -> None:
    assert named("team-a", "train", kind) == value


@given(NAMESPACES, NAMES, KINDS)
def test_every_value_is_a_label_value(namespace: str, name: str, kind: str) -> None:
    assert LABEL.fullmatch(named(namespace, name, kind))


JOBS = st.tuples(NAMESPACES, NAMES, KINDS)


@given(JOBS, st.one_of(JOBS, KINDS))
def test_two_jobs_never_share_a_value(one: tuple[str, str, str], other: tuple[str, str, str] | str) -> None:
    other = (*one[:2], other) if isinstance(other, str) else other
    assert (named(*one) == named(*other)) == (one == other)


def test_no_name_looks_like_a_hashed_one() -> None:
    hashed = named("team", "a" * 100)
    assert "_" in hashed
    assert hashed != named("team", "a" * 101)
    assert len(hashed) <= 63


@pytest.mark.parametrize("prefix", ["train-", "x" * 200, "", "UPPER_case!"])
def test_a_job_without_a_name_has_a_label_value_too(prefix: str) -> None:
    assert LABEL.fullmatch(job_id(Request({}, "team", "uid"), "", prefix, "uid"))


def unnamed(
    uid: str, time: str = "2026-01-01T00:00:00Z", user: str = "me", namespace: str = "team"
) -> Request:
    fields = [{"manager": "kubectl", "time": time}]
    return Request({"metadata": {"generateName": "g-", "managedFields": fields}}, namespace, uid, user)


def test_a_second_call_for_the_same_object_finds_the_first_uid() -> None:
    label = job_id(unnamed("first"), "", "g-", "first")
    assert first_uid(unnamed("second"), "g-", "first", label) == "first"


COPIED = unnamed("first")
COPIED.object["metadata"]["managedFields"][0]["fieldsV1"] = {"f:metadata": {f"f:{keys.ADDED}": {}}}
COPIES = {
    "created at another time": unnamed("second", time="2026-01-01T00:00:01Z"),
    "created by another user": unnamed("second", user="other"),
    "created in another namespace": unnamed("second", namespace="other"),
    "sent with the record in it": replace(COPIED, uid="second"),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_record_that_was_copied_does_not_count(copy: Request) -> None:
    label = job_id(unnamed("first"), "", "g-", "first")
    assert first_uid(copy, "g-", "first", label) == "second"


def test_a_label_that_the_user_set_is_replaced_and_the_user_warned() -> None:
    job = mpijob(4, name="thief")
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {keys.JOB: "default.victim"}}
    outcome = evaluate(TABLE, Request(job, "default", "uid"))
    after = outcome.after["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert after["labels"][keys.JOB] == "default.thief"
    place = "spec.mpiReplicaSpecs.Worker.template.metadata.labels[ultraserver-webhook.io/job]"
    assert outcome.warnings == (
        f'replaced your value: {place} is "default.victim", and only the webhook may set it: remove it',
    )

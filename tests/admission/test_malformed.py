"""Tests of bodies that are not reviews, and of unusual reviews: no body causes an internal error."""

import json
from typing import Any

import pytest
from werkzeug.test import Client

from contract import keys
from testbed.mpijob import WORKER, mpijob
from tests.admission.reviews import UID, apply_patch, check_answer, response, review, send
from webhook.engine import Request
from webhook.engine.identity import job_id
from webhook.objects.tree import digest, get, put

REVIEW = review(mpijob())


def _changed(*path: str, to: Any) -> Any:
    return put(REVIEW, path, to)


def _without(*path: str) -> Any:
    parent = REVIEW
    *parents, last = path
    for key in parents:
        parent = parent[key]
    return put(REVIEW, parents, {key: value for key, value in parent.items() if key != last})


EXPECTED = "expected an admission.k8s.io/v1 AdmissionReview, got "
NO_REQUEST = "/request is missing or not a map: there is no request to answer"
NO_UID = "/request/uid is empty: the answer must repeat it"
NO_OBJECT = "/request/object is missing or not a map: there is no object to evaluate"

MALFORMED: dict[str, tuple[Any, str]] = {
    "a list": ([], EXPECTED + "list"),
    "null": (None, EXPECTED + "NoneType"),
    "an empty map": ({}, EXPECTED + "None None"),
    "v1beta1": (
        _changed("apiVersion", to="admission.k8s.io/v1beta1"),
        EXPECTED + "admission.k8s.io/v1beta1 AdmissionReview",
    ),
    "another kind": (_changed("kind", to="ConversionReview"), EXPECTED + "admission.k8s.io/v1 Conv"),
    "a kind that is not a string": (
        _changed("kind", to=["AdmissionReview"]),
        EXPECTED + "admission.k8s.io/v1 [",
    ),
    "no request": (_without("request"), NO_REQUEST),
    "a request that is null": (_changed("request", to=None), NO_REQUEST),
    "a request that is a list": (_changed("request", to=[1]), NO_REQUEST),
    "a response and no request": ({**_without("request"), "response": {"uid": "u"}}, NO_REQUEST),
    "no uid": (_without("request", "uid"), NO_UID),
    "an empty uid": (_changed("request", "uid", to=""), NO_UID),
    "a uid that is a number": (_changed("request", "uid", to=7), "/request/uid must be text, not int"),
    "an operation that is a list": (
        _changed("request", "operation", to=["CREATE"]),
        "/request/operation must be text, not list",
    ),
    "a namespace that is a number": (
        _changed("request", "namespace", to=7),
        "/request/namespace must be text, not int",
    ),
    "a name that is a map": (_changed("request", "name", to={}), "/request/name must be text, not dict"),
    "a subresource that is true": (
        _changed("request", "subResource", to=True),
        "/request/subResource must be text, not bool",
    ),
    "a user name that is a number": (
        _changed("request", "userInfo", "username", to=7),
        "/request/userInfo/username must be text, not int",
    ),
    "no object at CREATE": (_without("request", "object"), NO_OBJECT),
    "a null object at CREATE": (_changed("request", "object", to=None), NO_OBJECT),
    "a list for an object at CREATE": (_changed("request", "object", to=[{}]), NO_OBJECT),
}


@pytest.mark.parametrize(("body", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_a_body_that_is_not_a_review_is_answered_with_400_with_the_reason(
    client: Client, body: Any, reason: str
) -> None:
    answer = send(client, body)
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(reason)


TEXT = json.dumps(REVIEW)

NOT_JSON: dict[str, bytes] = {
    "an empty body": b"",
    "white space": b" \n",
    "text": b"hello",
    "truncated JSON": TEXT.encode()[:-1],
    "text after the JSON": TEXT.encode() + b"{}",
    "NaN": TEXT.replace('"replicas": 4', '"replicas": NaN').encode(),
    "a number beyond any float": TEXT.replace('"replicas": 4', '"replicas": 1e999').encode(),
    "Latin-1": TEXT.replace('"name": "train"', '"name": "tr\xe4in"').encode("latin-1"),
    "UTF-16": TEXT.encode("utf-16"),
    "a byte order mark": TEXT.encode("utf-8-sig"),
    "a lone surrogate, escaped": TEXT.replace('"train"', '"\\ud800"').encode(),
    "a lone surrogate, encoded": TEXT.replace('"train"', '"\ud800"').encode("utf-8", "surrogatepass"),
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_a_body_that_is_not_json_is_answered_with_400_with_the_reason(client: Client, body: bytes) -> None:
    answer = send(client, body)
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith("the body is not JSON: ")


@pytest.mark.parametrize("digits", ["9" * 30, "1" + "0" * 300, "18446744073709551616"])
def test_a_number_of_workers_beyond_64_bits_is_denied(client: Client, digits: str) -> None:
    answer = send(client, TEXT.replace('"replicas": 4', f'"replicas": {digits}'))
    admission_response = check_answer(answer)
    assert admission_response["allowed"] is False
    assert admission_response["status"]["message"].startswith(
        "the number of workers must be a whole number, 0 or more: spec."
    )


def test_the_last_value_of_a_duplicate_key_is_used(client: Client) -> None:
    twice = TEXT.replace('"replicas": 4', '"replicas": 4, "replicas": 2')
    assert check_answer(send(client, twice))["auditAnnotations"]["shape"] == "two-node"
    assert check_answer(send(client, TEXT))["auditAnnotations"]["shape"] == "four-node"


def _nested(levels: int, place: tuple[str, ...]) -> str:
    text = json.dumps(review(put(mpijob(), place, "HERE")))
    return text.replace('"HERE"', "[" * levels + "]" * levels)


PLACES: dict[str, tuple[str, ...]] = {
    "kind": ("kind",),
    "annotations": ("metadata", "annotations"),
    "opt-in": ("metadata", "annotations", "ultraserver-webhook.io/inject"),
    "ssh directory": ("spec", "sshAuthMountPath"),
    "replicas": ("spec", "mpiReplicaSpecs", "Worker", "replicas"),
    "template": WORKER,
    "labels": (*WORKER, "metadata", "labels"),
    "affinity": (*WORKER, "spec", "affinity"),
    "node selector": (*WORKER, "spec", "nodeSelector"),
    "an unknown field": (*WORKER, "spec", "mine"),
}


@pytest.mark.parametrize("levels", [500, 1100, 100_000])
def test_a_body_that_is_nested_too_deeply_is_answered_with_400(client: Client, levels: int) -> None:
    answer = send(client, _nested(levels, WORKER))
    assert answer.status_code == 400
    assert "error" in answer.get_json()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_field_with_the_maximum_nesting_is_answered(client: Client, place: tuple[str, ...]) -> None:
    levels = 254 - 2 - len(place)  # 254 is the maximum; the review and its request are two levels
    check_answer(send(client, _nested(levels, place)))
    assert send(client, _nested(levels + 1, place)).status_code == 400


def test_a_review_without_user_and_name_is_answered(client: Client) -> None:
    admission_response = response(
        client, mpijob(generate_name="gen-"), userInfo=None, name=None, subResource=None
    )
    assert admission_response["allowed"] is True
    assert "patch" in admission_response


def test_a_uid_of_any_length_and_letters_is_repeated_in_the_answer(client: Client) -> None:
    for uid in (UID, "x" * 10_000, "\u2028\x00\U0001f680"):
        assert response(client, mpijob(), uid=uid)["uid"] == uid


def test_a_null_node_selector_term_is_kept(client: Client) -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, None]
    place = (
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    job = put(mpijob(), (*WORKER, "spec", *place), terms)
    result = get(apply_patch(job, response(client, job)), (*WORKER, "spec", *place))
    assert sorted(len(term["matchExpressions"]) if term else 0 for term in result) == [0, 3]


def test_a_forged_record_with_a_lone_surrogate_is_answered(client: Client) -> None:
    uid = "\ud800"
    label = job_id(Request(mpijob(generate_name="g-"), "default", UID, "ada"), "", "g-", uid)
    added = {"/metadata/labels/ultraserver-webhook.io~1job": digest(label)}
    job = put(mpijob(generate_name="g-"), (*WORKER, "metadata", "labels", keys.JOB), label)
    record = json.dumps({"uid": uid, "added": added})
    response(client, put(job, (*WORKER, "metadata", "annotations", keys.ADDED), record))

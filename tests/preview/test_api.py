"""The API of previews: what a query and a form ask for, what is refused and how, and its description."""

import json
from io import BytesIO
from typing import Any

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from werkzeug.test import Client, TestResponse

from testbed.mpijob import mpijob
from tests.helpers import TableOf, load_text
from tests.rules.tables import EXTENDS
from webhook import limits
from webhook.app import create_app
from webhook.documents import dump_yaml
from webhook.preview import messages
from webhook.preview.formats import FORMATS
from webhook.preview.views import TYPES, preview_blueprint
from webhook.rules.source import TableSource

JOB = dump_yaml(mpijob())
APP = create_app(preview_blueprint(TableSource(placement=True)))


@pytest.fixture(scope="module")
def app() -> Flask:
    return APP


@pytest.fixture
def client(app: Flask) -> Client:
    return Client(app)


def post(client: Client, query: str = "", body: Any = JOB, **how: Any) -> TestResponse:
    return client.post(f"/v1/preview?{query}", data=body, **how)


@pytest.mark.parametrize(
    ("query", "code", "parts"),
    [
        (
            "pod=true",
            "unknown-parameter",
            ("'pod'", "did you mean 'pods'?", "namespace, default-namespace, format, all-rules, pods, time"),
        ),
        ("pods=yes", "invalid-parameter", ("pods", "'yes'", "true, false")),
        ("all-rules=1", "invalid-parameter", ("all-rules", "'1'", "true, false")),
        ("format=xml", "invalid-parameter", ("format", "'xml'", ", ".join(FORMATS))),
        ("namespace=", "invalid-parameter", ("namespace", "''", "1 to 63 characters")),
        ("namespace=Ml", "invalid-parameter", ("namespace", "'Ml'", "a-z, 0-9 and '-'")),
        ("namespace=ml%0A", "invalid-parameter", (r"ml\\n",)),
        ("namespace=-ml", "invalid-parameter", ("'-ml'",)),
        ("namespace=" + "m" * 64, "invalid-parameter", ("…",)),
        ("pods=true&pods=true", "repeated-parameter", ("pods is given 2 times",)),
        ("time=tomorrow", "invalid-parameter", ("time", "'tomorrow'", "RFC 3339")),
        ("time=2026-02-30T12:00:00Z", "invalid-parameter", ("time", "RFC 3339")),
        ("pods=true&format=patch", "invalid-parameter", ("format patch has no Pods",)),
    ],
)
def test_a_query_that_is_wrong_is_400_with_the_parameter_the_value_and_what_is_allowed(
    client: Client, query: str, code: str, parts: tuple[str, ...]
) -> None:
    answer = post(client, query)
    body = answer.get_json()
    assert (answer.status_code, body["code"], sorted(body)) == (400, code, ["code", "error"])
    assert all(part in body["error"] for part in parts), body["error"]


def test_the_longest_namespace_is_taken(client: Client) -> None:
    name = "m" * 63
    (shown,) = post(client, f"namespace={name}").get_json()["items"]
    assert shown["object"]["namespace"] == name


def test_the_format_of_the_query_counts_more_than_accept(client: Client) -> None:
    answer = post(client, "format=diff", headers={"Accept": "text/html"})
    assert answer.mimetype == "text/x-diff"
    assert answer.get_data(as_text=True).startswith("request:1: MPIJob default/train\n  placed: ")


def test_the_pods_of_a_job_are_shown_if_the_query_asks(client: Client) -> None:
    (requested,), (other,) = (
        post(client, query).get_json()["items"] for query in ("pods=true", "pods=false")
    )
    assert [pods["group"] for pods in requested["pods"]] == ["launcher", "worker"]
    assert other["pods"] is None


def test_policies_are_those_of_the_time_that_is_asked_for() -> None:
    """Protects people who ask why a job was left alone whose exemption has ended since."""
    rows = f"{EXTENDS}policies: [{{mode: off, reason: They move., until: 2026-11-21T12:00:00Z}}]"
    client = Client(create_app(preview_blueprint(TableOf(load_text(rows, "own.yaml")))))
    for query, policy in (
        ("", None),
        ("time=2026-11-21T11:59:59Z", "They move."),
        ("time=2026-11-21T12:00:00Z", None),
    ):
        (shown,) = post(client, query).get_json()["items"]
        assert (shown["policy"], bool(shown["patch"])) == (policy, not policy)


def test_more_pods_than_can_be_looked_at_in_time_are_refused(client: Client) -> None:
    """Together: many jobs do not evade it."""
    half = dump_yaml(mpijob(limits.PREVIEW_PODS // 2))
    answer = post(client, "pods=true", f"{half}---\n{half}")
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(f"request:{half.count(chr(10)) + 2}:1: {messages.MANY_PODS}")


def test_a_form_has_the_stored_object_and_the_new_one(client: Client) -> None:
    """As a file (``curl -F old=@FILE``) and as a text (``curl -F 'old=<FILE'``)."""
    stored = dump_yaml(mpijob(annotations={"ultraserver-webhook.io/mode": "off"}))
    for old in ((_file(stored), "old.yaml"), stored):
        answer = post(client, body={"object": (_file(JOB), "job.yaml"), "old": old})
        (shown,) = answer.get_json()["items"]
        assert (shown["operation"], shown["source"]["file"]) == ("UPDATE", "object")
    (shown,) = post(client, body={"object": (_file(JOB), "job.yaml")}).get_json()["items"]
    assert shown["operation"] == "CREATE"


def _file(text: str) -> Any:
    return BytesIO(text.encode())


def test_an_update_of_what_is_not_stored_names_the_part(client: Client) -> None:
    other = dump_yaml(mpijob(name="other"))
    answer = post(client, body={"object": JOB, "old": other}, content_type="multipart/form-data")
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith("object:1:1: it would update ")
    answer = post(client, body={"object": JOB, "old": "a: ["}, content_type="multipart/form-data")
    assert answer.get_json()["error"].startswith("old:2:1: ")


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ({"old": JOB}, "old"),
        ({"object": [JOB, JOB]}, "object, object"),
        ({"object": JOB, "new": JOB}, "object, new"),
    ],
)
def test_a_form_with_other_parts_is_400(client: Client, form: dict[str, Any], names: str) -> None:
    answer = post(client, body=form, content_type="multipart/form-data")
    body = answer.get_json()
    assert (answer.status_code, body["code"]) == (400, "invalid-form")
    assert f"the form has {names}; it must have object once" in body["error"]


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_a_form_that_cannot_be_read_is_400(client: Client, content_type: str) -> None:
    answer = post(client, content_type=content_type)
    body = answer.get_json()
    assert (answer.status_code, body["code"]) == (400, "invalid-form")
    assert "curl -F" in body["error"]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("Content-Disposition: form-data", "a part without a name"),
        ('Content-Disposition: form-data; name="a\u202eb"', r"a\u202eb"),
    ],
)
def test_a_part_is_named_as_far_as_it_can_be(client: Client, head: str, names: str) -> None:
    body = f"--x\r\n{head}\r\n\r\n{JOB}\r\n--x--\r\n"
    answer = post(client, body=body.encode(), content_type="multipart/form-data; boundary=x")
    assert (answer.status_code, answer.get_json()["code"]) == (400, "invalid-form")
    assert answer.get_json()["error"].startswith(f"the form has {names}; ")


def test_a_form_of_many_parts_is_400_before_all_are_read(client: Client) -> None:
    answer = post(client, body={"object": [JOB] * 4}, content_type="multipart/form-data")
    assert (answer.status_code, answer.get_json()["code"]) == (400, "invalid-form")


@pytest.mark.parametrize("first", ["", "# a comment\n"])
def test_a_body_that_curl_took_the_newlines_out_of_gets_the_hint(client: Client, first: str) -> None:
    """``curl -d @FILE``; also where the first line makes a comment of all."""
    curl = "application/x-www-form-urlencoded"
    joined = (first + JOB).replace("\n", "")
    answer = post(client, body=joined, content_type=curl)
    assert answer.status_code == 400
    assert answer.get_json()["error"].endswith("send the file with --data-binary @FILE")
    assert post(client, content_type=curl).status_code == 200
    assert post(client, body=json.dumps(mpijob()), content_type=curl).status_code == 200
    bodies = ("a: [\n", "\0 binary: a: b", "a: " + "[1," * 3000)
    for other in (
        post(client, body=joined),
        *(post(client, body=each, content_type=curl) for each in bodies),
    ):
        assert other.status_code == 400
        assert "--data-binary" not in other.get_json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        f"{JOB}---\n" * (limits.PREVIEW // (len(JOB) + 4)),
        json.dumps({"kind": "List", "items": [mpijob()] * 1500}),
        "a: [" + "[]," * (limits.PREVIEW // 3 - 10) + "]",
    ],
    ids=["jobs", "a List", "lists"],
)
def test_a_body_of_too_many_values_is_refused_while_it_is_read(client: Client, body: str) -> None:
    assert limits.PREVIEW * 0.6 < len(body) <= limits.PREVIEW
    answer = post(client, body=body)
    assert answer.status_code == 400
    assert "more than 7,500 maps" in answer.get_json()["error"]


def test_a_body_of_a_mebibyte_with_few_values_is_answered(client: Client) -> None:
    script = "  echo 'a: [b, c]'\n"
    text = f"kind: ConfigMap\ndata: |\n{script * (limits.PREVIEW // len(script) - 2)}"
    assert post(client, body=text).status_code == 200
    assert post(client, body=text + "#" * limits.PREVIEW).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("POST", "/v1//preview", 404, "not-found"),
        ("GET", "/v1/preview", 405, "method-not-allowed"),
        ("TRACE", "/v1/preview", 405, "method-not-allowed"),
    ],
)
def test_an_error_of_the_framework_is_in_our_words(
    client: Client, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert (answer.status_code, answer.get_json()["code"]) == (status, code)
    assert answer.get_json()["error"].startswith(("this path does not exist", "this path does not allow"))


def test_the_description_names_every_format_and_limit(client: Client) -> None:
    """Protects openapi.yaml, which is written by hand, from a format or a limit that changes in Python."""
    answer = client.get("/v1/openapi.json").get_json()["paths"]["/v1/preview"]["post"]
    (form,) = (each for each in answer["parameters"] if each["name"] == "format")
    assert form["schema"]["enum"] == [*FORMATS]
    assert {*answer["responses"]["200"]["content"]} == {*TYPES}
    assert f"{limits.PREVIEW_VALUES:,} values" in answer["responses"]["400"]["description"]
    assert limits.PREVIEW == 1024 * 1024, "as the description of 413 says"


DESCRIBED = schemathesis.openapi.from_wsgi("/v1/openapi.json", APP)["/v1/preview"]["POST"]


@given(case=DESCRIBED.as_strategy())
@settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_requests_made_from_the_description_get_the_described_answers(case: schemathesis.Case) -> None:
    """Status, media type and schema, and no 5xx; which documents are refused no schema can say."""
    case.validate_response(case.call(), excluded_checks=[positive_data_acceptance])

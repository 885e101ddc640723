"""Tests of POST /v1/preview: its parameters, its form, its errors and its OpenAPI description."""

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
from tests.helpers import FixedTableSource, load_text
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


def post(client: Client, query: str = "", body: Any = JOB, **options: Any) -> TestResponse:
    return client.post(f"/v1/preview?{query}", data=body, **options)


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
def test_a_wrong_query_is_400_with_the_parameter_its_value_and_the_allowed_values(
    client: Client, query: str, code: str, parts: tuple[str, ...]
) -> None:
    answer = post(client, query)
    body = answer.get_json()
    assert (answer.status_code, body["code"], sorted(body)) == (400, code, ["code", "error"])
    assert all(part in body["error"] for part in parts), body["error"]


def test_a_namespace_of_63_characters_is_accepted(client: Client) -> None:
    name = "m" * 63
    (item,) = post(client, f"namespace={name}").get_json()["items"]
    assert item["object"]["namespace"] == name


def test_the_format_parameter_has_precedence_over_the_accept_header(client: Client) -> None:
    answer = post(client, "format=diff", headers={"Accept": "text/html"})
    assert answer.mimetype == "text/x-diff"
    assert answer.get_data(as_text=True).startswith("request:1: MPIJob default/train\n  placed: ")


def test_the_answer_has_the_pods_of_a_job_only_if_the_query_requests_them(client: Client) -> None:
    (item_with_pods,), (item,) = (
        post(client, query).get_json()["items"] for query in ("pods=true", "pods=false")
    )
    assert [pods["group"] for pods in item_with_pods["pods"]] == ["launcher", "worker"]
    assert item["pods"] is None


def test_the_policy_is_the_policy_at_the_time_in_the_query() -> None:
    """Protects users who want to find out why a job was not placed during a policy that has ended."""
    rows = f"{EXTENDS}policies: [{{mode: off, reason: They move., until: 2026-11-21T12:00:00Z}}]"
    client = Client(create_app(preview_blueprint(FixedTableSource(load_text(rows, "own.yaml")))))
    for query, policy in (
        ("", None),
        ("time=2026-11-21T11:59:59Z", "They move."),
        ("time=2026-11-21T12:00:00Z", None),
    ):
        (item,) = post(client, query).get_json()["items"]
        assert (item["policy"], bool(item["patch"])) == (policy, not policy)


def test_jobs_with_too_many_pods_for_one_preview_are_refused(client: Client) -> None:
    """The limit is for all jobs together."""
    job = dump_yaml(mpijob(limits.PREVIEW_PODS // 2))
    answer = post(client, "pods=true", f"{job}---\n{job}")
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(f"request:{job.count(chr(10)) + 2}:1: {messages.MANY_PODS}")


def test_a_form_can_have_the_stored_object_and_the_new_object(client: Client) -> None:
    """The stored object is a file (``curl -F old=@FILE``) or a text (``curl -F 'old=<FILE'``)."""
    stored = dump_yaml(mpijob(annotations={"ultraserver-webhook.io/mode": "off"}))
    for old in ((_as_file(stored), "old.yaml"), stored):
        answer = post(client, body={"object": (_as_file(JOB), "job.yaml"), "old": old})
        (item,) = answer.get_json()["items"]
        assert (item["operation"], item["source"]["file"]) == ("UPDATE", "object")
    (item,) = post(client, body={"object": (_as_file(JOB), "job.yaml")}).get_json()["items"]
    assert item["operation"] == "CREATE"


def _as_file(text: str) -> Any:
    return BytesIO(text.encode())


def test_an_error_about_a_form_has_the_name_of_the_part(client: Client) -> None:
    job = dump_yaml(mpijob(name="other"))
    answer = post(client, body={"object": JOB, "old": job}, content_type="multipart/form-data")
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
    assert body["error"] == messages.wrong_parts(names)


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_a_form_that_cannot_be_read_is_400(client: Client, content_type: str) -> None:
    answer = post(client, content_type=content_type)
    body = answer.get_json()
    assert (answer.status_code, body["code"]) == (400, "invalid-form")
    assert "curl -F" in body["error"]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("Content-Disposition: form-data", messages.UNNAMED_PART),
        ('Content-Disposition: form-data; name="a\u202eb"', r"a\u202eb"),
    ],
)
def test_an_error_about_a_part_without_a_printable_name_is_printable(
    client: Client, header: str, names: str
) -> None:
    body = f"--x\r\n{header}\r\n\r\n{JOB}\r\n--x--\r\n"
    answer = post(client, body=body.encode(), content_type="multipart/form-data; boundary=x")
    assert (answer.status_code, answer.get_json()["code"]) == (400, "invalid-form")
    assert answer.get_json()["error"] == messages.wrong_parts(names)


def test_a_form_of_many_parts_is_400_before_all_are_read(client: Client) -> None:
    answer = post(client, body={"object": [JOB] * 4}, content_type="multipart/form-data")
    assert (answer.status_code, answer.get_json()["code"]) == (400, "invalid-form")


@pytest.mark.parametrize("first", ["", "# a comment\n"])
def test_a_body_without_the_newlines_that_curl_removed_gets_a_hint(client: Client, first: str) -> None:
    """``curl -d @FILE`` removes them. If the first line is a comment, the whole body becomes a comment."""
    curl = "application/x-www-form-urlencoded"
    joined = (first + JOB).replace("\n", "")
    answer = post(client, body=joined, content_type=curl)
    assert answer.status_code == 400
    assert answer.get_json()["error"].endswith("send the file with --data-binary @FILE")
    assert post(client, content_type=curl).status_code == 200
    assert post(client, body=json.dumps(mpijob()), content_type=curl).status_code == 200
    bodies = ("a: [\n", "\0 binary: a: b", "a: " + "[1," * 3000)
    for answer in (
        post(client, body=joined),
        *(post(client, body=body, content_type=curl) for body in bodies),
    ):
        assert answer.status_code == 400
        assert "--data-binary" not in answer.get_json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        f"{JOB}---\n" * (limits.PREVIEW // (len(JOB) + 4)),
        json.dumps({"kind": "List", "items": [mpijob()] * 1500}),
        "a: [" + "[]," * (limits.PREVIEW // 3 - 10) + "]",
    ],
    ids=["jobs", "a List of jobs", "empty lists"],
)
def test_a_body_of_too_many_values_is_refused_while_it_is_read(client: Client, body: str) -> None:
    assert limits.PREVIEW * 0.6 < len(body) <= limits.PREVIEW
    answer = post(client, body=body)
    assert answer.status_code == 400
    assert "more than 7,500 maps" in answer.get_json()["error"]


def test_a_body_of_almost_a_mebibyte_with_few_values_is_answered(client: Client) -> None:
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
def test_an_error_of_the_framework_has_a_code_and_a_message_of_the_project(
    client: Client, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert (answer.status_code, answer.get_json()["code"]) == (status, code)
    assert answer.get_json()["error"].startswith(("this path does not exist", "this path does not allow"))


def test_the_openapi_description_has_every_format_and_limit(client: Client) -> None:
    """Protects openapi.yaml, which is written by hand, from a format or a limit that changes in Python."""
    answer = client.get("/v1/openapi.json").get_json()["paths"]["/v1/preview"]["post"]
    (parameter,) = (item for item in answer["parameters"] if item["name"] == "format")
    assert parameter["schema"]["enum"] == [*FORMATS]
    assert {*answer["responses"]["200"]["content"]} == {*TYPES}
    assert f"{limits.PREVIEW_VALUES:,} values" in answer["responses"]["400"]["description"]
    assert limits.PREVIEW == 1024 * 1024, "the description of status 413 has this limit"


OPERATION = schemathesis.openapi.from_wsgi("/v1/openapi.json", APP)["/v1/preview"]["POST"]


@given(case=OPERATION.as_strategy())
@settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_requests_that_match_the_openapi_description_get_answers_that_match_it(
    case: schemathesis.Case,
) -> None:
    """Checks status, media type and schema. The schema does not describe which documents are refused."""
    case.validate_response(case.call(), excluded_checks=[positive_data_acceptance])

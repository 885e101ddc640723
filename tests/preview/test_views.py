"""Tests of POST /v1/preview: which documents it reads, and the formats of its answers."""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from werkzeug.test import Client, TestResponse

from common.texts import WIDTH
from testbed.chart import REPOSITORY
from testbed.mpijob import mpijob
from webhook import limits
from webhook.app import create_app
from webhook.cli import main
from webhook.documents import dump_yaml, read_documents
from webhook.preview import messages
from webhook.preview.views import TYPES, preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource

FILES = [
    file
    for pattern in ("examples/**/*.yaml", "tests/data/*/*.yaml")
    for file in REPOSITORY.glob(pattern)
    if "{{" not in file.read_text("utf-8")  # a template gets an error instead of a preview
]
LABEL = "ultraserver-webhook.io/job"


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(create_app(preview_blueprint(TableSource(placement=True))))


def post_preview(client: Client, body: Any, accept: str | None = None, query: str = "") -> TestResponse:
    """Posts a body and returns the answer. A body that is neither bytes nor text is sent as JSON."""
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post(f"/v1/preview{query}", data=data, headers={"Accept": accept} if accept else {})


@pytest.mark.parametrize("serialize", [json.dumps, dump_yaml], ids=["JSON", "YAML"])
def test_a_document_is_read_as_json_or_yaml_with_any_content_type(client: Client, serialize: Any) -> None:
    for content_type in ("application/json", "application/yaml", "text/plain", None):
        answer = client.post("/v1/preview", data=serialize(mpijob()), content_type=content_type)
        (item,) = answer.get_json()["items"]
        assert (item["verdict"], item["job"]["shape"]) == ("placed", "four-node")


def test_a_client_that_accepts_anything_gets_json_with_everything(client: Client) -> None:
    for accept in (None, "*/*", "application/*"):
        answer = post_preview(client, mpijob(3), accept)
        assert answer.content_type == "application/json; charset=utf-8"
        (item,) = answer.get_json()["items"]
        assert item["source"] == {"file": "request", "line": 1}
        assert (item["verdict"], len(item["warnings"])) == ("placed", 1)
        assert item["table"] == load_installed().revision
        assert item["warnings"][0].startswith("3 nodes form no pairs")
        assert {"name": "native-gang", "state": "skipped"}.items() <= item["rules"][
            [row["name"] for row in item["rules"]].index("native-gang")
        ].items()


@pytest.mark.parametrize(
    ("accept", "output_format"),
    [
        ("application/yaml", "yaml"),
        ("text/x-diff", "diff"),
        ("application/json-patch+json", "patch"),
        ("text/plain", "why"),
    ],
)
def test_a_client_gets_the_accepted_format_with_the_text_of_the_command(
    client: Client, accept: str, output_format: str
) -> None:
    answer = post_preview(client, mpijob(), accept)
    assert answer.mimetype == accept
    output = CliRunner().invoke(main, ["preview", "-o", output_format], input=dump_yaml(mpijob())).stdout
    assert answer.get_data(as_text=True) == output.replace("<stdin>:1", "request:1")


def test_the_answer_has_the_format_that_the_client_prefers(client: Client) -> None:
    answer = post_preview(client, mpijob(), "text/html, application/yaml;q=0.5, text/x-diff;q=0.9")
    assert answer.mimetype == "text/x-diff"


def test_an_unknown_format_is_406_with_the_known_formats(client: Client) -> None:
    answer = post_preview(client, mpijob(), "text/html")
    assert answer.status_code == 406
    assert answer.get_json()["error"] == messages.other_types("text/html", ", ".join(TYPES))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_line_of_text_has_more_than_100_columns(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects users of the command and of the service. Every document has one sentence."""
    monkeypatch.chdir(REPOSITORY)
    output = CliRunner().invoke(main, ["preview", str(file.relative_to(REPOSITORY))]).output
    answer = post_preview(client, file.read_bytes(), "text/x-diff").get_data(as_text=True)
    for text in (output, answer):
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert len(re.findall("(?m)^  (placed|not placed|refused): ", text)) == len(
            read_documents(file.read_bytes())
        )


@pytest.mark.parametrize("kind", ["text/x-diff", "text/plain"])
def test_no_line_of_text_begins_with_a_command_of_a_pipeline(client: Client, kind: str) -> None:
    """Protects pipelines that print the answer: a folded line may begin with any word of the job."""
    job = mpijob(4)
    job["metadata"]["annotations"] = {"ultraserver-webhook.io/node-config": "::error::x " * 9}
    text = post_preview(client, dump_yaml(job), kind).get_data(as_text=True)
    assert "::error::x" in text
    assert not re.search(r"(?m)^\s*::", text)


def test_each_of_several_documents_has_its_line_in_the_answer(client: Client) -> None:
    text = "---\n".join(dump_yaml(mpijob(n, name=f"j{n}")) for n in (2, 4, 16))
    items = post_preview(client, text).get_json()["items"]
    assert [item["job"]["shape"] for item in items] == ["two-node", "four-node", "multi-node"]
    length = dump_yaml(mpijob()).count("\n") + 1
    assert [item["source"]["line"] for item in items] == [1 + i * length for i in range(3)]
    documents = read_documents(post_preview(client, text, "application/yaml").get_data())
    assert [document.value["metadata"]["name"] for document in documents] == ["j2", "j4", "j16"]


def test_the_namespace_of_the_query_applies_to_documents_without_a_namespace(client: Client) -> None:
    jobs = [mpijob(), mpijob(namespace="ml")]
    text = "---\n".join(map(dump_yaml, jobs))
    items = post_preview(client, text, query="?namespace=ml").get_json()["items"]
    assert [item["object"]["namespace"] for item in items] == ["ml", "ml"]
    assert [item["job"]["id"] for item in items] == ["ml.train", "ml.train"]
    assert post_preview(client, mpijob()).get_json()["items"][0]["job"]["id"] == "default.train"
    answer = post_preview(client, mpijob(namespace="own"), query="?namespace=ml")
    assert answer.status_code == 400
    assert messages.other_namespace("own", "ml") in answer.get_json()["error"]


def test_the_answer_has_all_rules_of_the_table_if_requested(client: Client) -> None:
    answers = [post_preview(client, mpijob(), query=query).get_json() for query in ("", "?all-rules=true")]
    some_rules, all_rules = (answer["items"][0]["rules"] for answer in answers)
    assert len(all_rules) == len(load_installed().rules) > len(some_rules)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "an empty text": (b"", messages.NO_OBJECTS),
    "invalid YAML": (b"a: 1\nb: [\n", "request:3:"),
    "not UTF-8": (b"a: 1\nb: \xff\n", "request:2:"),
    "a text": (b"\nhello\n", "request:2:1: a Kubernetes object is a map"),
    "lists that are nested too deep": (b"[" * 5000 + b"]" * 5000, "request:1:"),
    "an invalid second document": (dump_yaml({"kind": "x"}).encode() + b"---\n{\n", "request:"),
    "a List of numbers": (b"kind: List\nitems: [7]\n", "request:2:"),
}


@pytest.mark.parametrize(("body", "beginning"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_text_that_cannot_be_read_is_400_with_the_line(client: Client, body: bytes, beginning: str) -> None:
    answer = post_preview(client, body)
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(beginning)


def test_a_body_that_is_too_long_is_413(client: Client) -> None:
    answer = post_preview(client, b"#" * (limits.BODY + 1))
    assert answer.status_code == 413
    assert "error" in answer.get_json()


def test_an_application_of_previews_has_no_endpoint_of_the_webhook(client: Client) -> None:
    assert client.post("/mutate", json={}).status_code == 404
    assert client.get("/livez").get_json() == {"status": "ok"}
    assert client.get("/readyz").get_json() == {
        "status": "ok",
        "table": load_installed().revision,
        "version": version("ultraserver-webhook"),
    }
    assert client.get("/v1/preview").status_code == 405

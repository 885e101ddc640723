"""POST /preview: documents in, what the webhook would do out, in the form that the client accepts."""

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
    if "{{" not in file.read_text("utf-8")  # a template is refused, with its place in one line
]
LABEL = "ultraserver-webhook.io/job"


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(create_app(preview_blueprint(TableSource(placement=True))))


def ask(client: Client, body: Any, accept: str | None = None, query: str = "") -> TestResponse:
    """Returns the answer to a body: bytes and text as they are, anything else as JSON."""
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post(f"/v1/preview{query}", data=data, headers={"Accept": accept} if accept else {})


@pytest.mark.parametrize("form", [json.dumps, dump_yaml], ids=["JSON", "YAML"])
def test_a_document_is_read_as_json_or_yaml_for_any_content_type(client: Client, form: Any) -> None:
    for content_type in ("application/json", "application/yaml", "text/plain", None):
        answer = client.post("/v1/preview", data=form(mpijob()), content_type=content_type)
        (shown,) = answer.get_json()["items"]
        assert (shown["verdict"], shown["job"]["shape"]) == ("placed", "four-node")


def test_a_client_that_accepts_anything_gets_json_with_everything(client: Client) -> None:
    for accept in (None, "*/*", "application/*"):
        answer = ask(client, mpijob(3), accept)
        assert answer.content_type == "application/json; charset=utf-8"
        (shown,) = answer.get_json()["items"]
        assert shown["source"] == {"file": "request", "line": 1}
        assert (shown["verdict"], len(shown["warnings"])) == ("placed", 1)
        assert shown["table"] == load_installed().revision
        assert shown["warnings"][0].startswith("3 nodes form no pairs")
        assert {"name": "native-gang", "state": "skipped"}.items() <= shown["rules"][
            [row["name"] for row in shown["rules"]].index("native-gang")
        ].items()


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/yaml", "yaml"),
        ("text/x-diff", "diff"),
        ("application/json-patch+json", "patch"),
        ("text/plain", "why"),
    ],
)
def test_a_client_gets_the_form_that_it_accepts_as_the_command_prints_it(
    client: Client, accept: str, form: str
) -> None:
    answer = ask(client, mpijob(), accept)
    assert answer.mimetype == accept
    printed = CliRunner().invoke(main, ["preview", "-o", form], input=dump_yaml(mpijob())).stdout
    assert answer.get_data(as_text=True) == printed.replace("<stdin>:1", "request:1")


def test_the_form_that_the_client_likes_best_is_taken(client: Client) -> None:
    answer = ask(client, mpijob(), "text/html, application/yaml;q=0.5, text/x-diff;q=0.9")
    assert answer.mimetype == "text/x-diff"


def test_an_unknown_format_is_406_with_the_known_ones(client: Client) -> None:
    answer = ask(client, mpijob(), "text/html")
    assert answer.status_code == 406
    assert answer.get_json()["error"] == messages.other_types("text/html", ", ".join(TYPES))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_line_for_people_is_wider_than_100_columns(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects people from long lines, of the command as of ``make run``; every document has its sentence."""
    monkeypatch.chdir(REPOSITORY)
    printed = CliRunner().invoke(main, ["preview", str(file.relative_to(REPOSITORY))]).output
    served = ask(client, file.read_bytes(), "text/x-diff").get_data(as_text=True)
    for text in (printed, served):
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert len(re.findall("(?m)^  (placed|not placed|refused): ", text)) == len(
            read_documents(file.read_bytes())
        )


@pytest.mark.parametrize("kind", ["text/x-diff", "text/plain"])
def test_no_line_of_text_begins_with_a_command_of_a_pipeline(client: Client, kind: str) -> None:
    """Protects pipelines that print what curl gets: a folded line may begin with any word of the job's."""
    job = mpijob(4)
    job["metadata"]["annotations"] = {"ultraserver-webhook.io/node-config": "::error::x " * 9}
    text = ask(client, dump_yaml(job), kind).get_data(as_text=True)
    assert "::error::x" in text
    assert not re.search(r"(?m)^\s*::", text)


def test_many_documents_are_answered_each_with_its_line(client: Client) -> None:
    text = "---\n".join(dump_yaml(mpijob(n, name=f"j{n}")) for n in (2, 4, 16))
    shown = ask(client, text).get_json()["items"]
    assert [item["job"]["shape"] for item in shown] == ["two-node", "four-node", "multi-node"]
    length = dump_yaml(mpijob()).count("\n") + 1
    assert [item["source"]["line"] for item in shown] == [1 + i * length for i in range(3)]
    stored = read_documents(ask(client, text, "application/yaml").get_data())
    assert [document.value["metadata"]["name"] for document in stored] == ["j2", "j4", "j16"]


def test_the_namespace_of_the_query_is_for_documents_that_name_none(client: Client) -> None:
    both = [mpijob(), mpijob(namespace="ml")]
    text = "---\n".join(map(dump_yaml, both))
    shown = ask(client, text, query="?namespace=ml").get_json()["items"]
    assert [item["object"]["namespace"] for item in shown] == ["ml", "ml"]
    assert [item["job"]["id"] for item in shown] == ["ml.train", "ml.train"]
    assert ask(client, mpijob()).get_json()["items"][0]["job"]["id"] == "default.train"
    answer = ask(client, mpijob(namespace="own"), query="?namespace=ml")
    assert answer.status_code == 400
    assert messages.other_namespace("own", "ml") in answer.get_json()["error"]


def test_rules_for_other_objects_are_shown_if_requested(client: Client) -> None:
    """``?all-rules=true`` tells of every rule of the table, as ``--all-rules`` does."""
    plain, every = (ask(client, mpijob(), query=query).get_json() for query in ("", "?all-rules=true"))
    assert len(every["items"][0]["rules"]) == len(load_installed().rules) > len(plain["items"][0]["rules"])


BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", messages.NO_OBJECTS),
    "no YAML": (b"a: 1\nb: [\n", "request:3:"),
    "not UTF-8": (b"a: 1\nb: \xff\n", "request:2:"),
    "a text": (b"\nhello\n", "request:2:1: a Kubernetes object is a map"),
    "too deep": (b"[" * 5000 + b"]" * 5000, "request:1:"),
    "the second document": (dump_yaml({"kind": "x"}).encode() + b"---\n{\n", "request:"),
    "a List of no objects": (b"kind: List\nitems: [7]\n", "request:2:"),
}


@pytest.mark.parametrize(("body", "beginning"), BAD.values(), ids=BAD)
def test_a_text_that_cannot_be_read_is_400_with_the_line(client: Client, body: bytes, beginning: str) -> None:
    answer = ask(client, body)
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(beginning)


def test_more_than_a_body_may_have_is_413(client: Client) -> None:
    answer = ask(client, b"#" * (limits.BODY + 1))
    assert answer.status_code == 413
    assert "error" in answer.get_json()


def test_an_app_of_its_own_serves_the_preview_and_nothing_else(client: Client) -> None:
    assert client.post("/mutate", json={}).status_code == 404
    assert client.get("/livez").get_json() == {"status": "ok"}
    assert client.get("/readyz").get_json() == {
        "status": "ok",
        "table": load_installed().revision,
        "version": version("ultraserver-webhook"),
    }
    assert client.get("/v1/preview").status_code == 405

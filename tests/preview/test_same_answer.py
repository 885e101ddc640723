"""One engine behind every endpoint: /preview says what /mutate does, and the command line says it too."""

import base64
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from werkzeug.test import Client

from common.texts import MAX_MESSAGE_LENGTH
from tests.admission.anything import mpijobs
from tests.admission.reviews import current_state, review, send, well_formed
from tests.docs.blocks import REPOSITORY
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.cli import main
from webhook.documents import read_documents
from webhook.engine import Request, admit
from webhook.objects.tree import get
from webhook.preview.sentence import DryRun, JobVerdict, judge
from webhook.preview.views import preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource


def _client() -> Client:
    source = TableSource(placement=True)
    return Client(create_app(admission_blueprint(current_state(source)), preview_blueprint(source)))


BOTH = _client()
CASES = sorted((REPOSITORY / "tests" / "data" / "field").glob("0*.yaml"))
CASES += sorted((REPOSITORY / "tests" / "data" / "field").glob("1[0-6]*.yaml"))
TABLE = load_installed()


def _mutated(obj: Any, namespace: str) -> tuple[Any, ...]:
    inner = well_formed(send(BOTH, review(obj, namespace=namespace)))
    patch = json.loads(base64.b64decode(inner.get("patch", "W10=")))
    denials = "; ".join([] if inner["allowed"] else [inner["status"]["message"]])
    rules = [name for name in inner["auditAnnotations"].get("rules", "").split(",") if name]
    return inner["allowed"], patch, len(inner.get("warnings", ())), denials, rules


def _previewed(shown: Any) -> tuple[Any, ...]:
    denials = "; ".join(shown["denials"])
    fired = [row["name"] for row in shown["rules"] if row["state"] == "fired"]
    # A review says nothing of what the API server says itself.
    warnings = [text for text in shown["warnings"] if "the API server refuses " not in text]
    return shown["verdict"] != "refused", shown["patch"], len(warnings), denials, fired


def _settled(obj: Any) -> bool:
    """Returns whether the name identifies a job, and not the review's uid; and it has a kind."""
    texts = get(obj, ("metadata", "name")), get(obj, ("kind",))
    return (
        isinstance(obj, dict) and "items" not in obj and all(isinstance(each, str) and each for each in texts)
    )


def _exact(obj: Any) -> Any:
    """Returns the object with numbers that documents may have; others are refused only there."""
    if isinstance(obj, dict):
        return {key: _exact(value) for key, value in obj.items()}
    if isinstance(obj, list):
        return [_exact(value) for value in obj]
    return obj % 1000 if isinstance(obj, int | float) and not isinstance(obj, bool) else obj


JOBS = mpijobs().map(_exact).filter(_settled)


def _shown(text: str) -> Any:
    answer = BOTH.post("/v1/preview?namespace=default", data=text)
    assert answer.status_code == 200
    (shown,) = answer.get_json()["items"]
    return shown


@settings(max_examples=settings.default.max_examples // 5)
@given(JOBS)
def test_preview_agrees_with_mutate_for_the_same_object(obj: Any) -> None:
    text = json.dumps(obj)
    (document,) = read_documents(text)
    namespace = get(obj, ("metadata", "namespace"))
    there = namespace if isinstance(namespace, str) and namespace else "default"
    # kubectl's numbers: 4.0 is 4 before it gets to the API server.
    assert _previewed(_shown(text)) == _mutated(document.value, there)


@settings(max_examples=settings.default.max_examples // 20)
@given(JOBS)
def test_the_command_line_agrees_with_the_preview(obj: Any) -> None:
    text = json.dumps(obj)
    result = CliRunner().invoke(main, ["preview", "-o", "json"], input=text)
    assert json.loads(result.stdout)["items"] == [{**_shown(text), "source": {"file": "<stdin>", "line": 1}}]


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_a_public_case_has_the_same_sentence_in_every_output(path: Path) -> None:
    """Protects people who compare what a colleague saw on the page with what a command prints."""
    text = path.read_bytes()
    shown = {form: CliRunner().invoke(main, ["preview", "-o", form, str(path)]) for form in ("diff", "why")}
    texts = {form: result.stdout for form, result in shown.items()}
    texts |= {f"http {form}": BOTH.post(f"/v1/preview?format={form}", data=text).text for form in shown}
    texts["page"] = unescape(BOTH.post("/", data={"object": text.decode()}).text)
    texts = {form: " ".join(each.split()) for form, each in texts.items()}
    items = BOTH.post("/v1/preview", data=text).get_json()["items"]
    assert items
    for item in items:
        lacking = [form for form, each in texts.items() if item["sentence"] not in each]
        assert lacking == [], item["sentence"]


@given(JOBS)
def test_every_sentence_is_one_bounded_printable_line(obj: Any) -> None:
    (document,) = read_documents(json.dumps(obj))
    outcome = admit(TABLE, Request(obj, "default", explain=True))
    _, text, _ = judge(DryRun(TABLE, document, "default", obj, outcome))
    assert text.isprintable()
    assert len(text) <= MAX_MESSAGE_LENGTH
    assert text.startswith(tuple(f"{word}: " for word in JobVerdict))

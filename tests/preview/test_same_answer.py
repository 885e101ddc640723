"""Tests that `/v1/preview`, `/mutate` and the command `preview` give the same answer about an object."""

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
from tests.admission.reviews import check_answer, current_state, review, send
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


def _create_client() -> Client:
    source = TableSource(placement=True)
    return Client(create_app(admission_blueprint(current_state(source)), preview_blueprint(source)))


CLIENT = _create_client()
FIELD_FILES = sorted((REPOSITORY / "tests" / "data" / "field").glob("0*.yaml"))
FIELD_FILES += sorted((REPOSITORY / "tests" / "data" / "field").glob("1[0-6]*.yaml"))
TABLE = load_installed()


def _mutate_answer(obj: Any, namespace: str) -> tuple[Any, ...]:
    """Returns whether a review is allowed, its patch, the number of warnings, the denials, and the rules."""
    response = check_answer(send(CLIENT, review(obj, namespace=namespace)))
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    denials = "; ".join([] if response["allowed"] else [response["status"]["message"]])
    rules = [name for name in response["auditAnnotations"].get("rules", "").split(",") if name]
    return response["allowed"], patch, len(response.get("warnings", ())), denials, rules


def _preview_answer(item: Any) -> tuple[Any, ...]:
    """Returns the parts of a preview that `_mutate_answer` returns of a review."""
    denials = "; ".join(item["denials"])
    rules = [row["name"] for row in item["rules"] if row["state"] == "fired"]
    # Only a preview checks whether the API server will refuse the object.
    warnings = [text for text in item["warnings"] if "the API server refuses " not in text]
    return item["verdict"] != "refused", item["patch"], len(warnings), denials, rules


def _has_kind_and_name(obj: Any) -> bool:
    """Returns whether an object has a kind and a name, so that no answer about it contains a review's uid."""
    texts = get(obj, ("metadata", "name")), get(obj, ("kind",))
    return (
        isinstance(obj, dict) and "items" not in obj and all(isinstance(text, str) and text for text in texts)
    )


def _with_small_numbers(obj: Any) -> Any:
    """Returns the object with numbers below 1000, because the reader of documents refuses long numbers."""
    if isinstance(obj, dict):
        return {key: _with_small_numbers(value) for key, value in obj.items()}
    if isinstance(obj, list):
        return [_with_small_numbers(value) for value in obj]
    return obj % 1000 if isinstance(obj, int | float) and not isinstance(obj, bool) else obj


JOBS = mpijobs().map(_with_small_numbers).filter(_has_kind_and_name)


def _post_preview(text: str) -> Any:
    answer = CLIENT.post("/v1/preview?namespace=default", data=text)
    assert answer.status_code == 200
    (item,) = answer.get_json()["items"]
    return item


@settings(max_examples=settings.default.max_examples // 5)
@given(JOBS)
def test_preview_agrees_with_mutate_for_the_same_object(obj: Any) -> None:
    text = json.dumps(obj)
    (document,) = read_documents(text)
    namespace = get(obj, ("metadata", "namespace"))
    request_namespace = namespace if isinstance(namespace, str) and namespace else "default"
    # The review gets the parsed document, because kubectl also sends 4.0 as 4.
    assert _preview_answer(_post_preview(text)) == _mutate_answer(document.value, request_namespace)


@settings(max_examples=settings.default.max_examples // 20)
@given(JOBS)
def test_the_command_line_agrees_with_the_preview(obj: Any) -> None:
    text = json.dumps(obj)
    result = CliRunner().invoke(main, ["preview", "-o", "json"], input=text)
    assert json.loads(result.stdout)["items"] == [
        {**_post_preview(text), "source": {"file": "<stdin>", "line": 1}}
    ]


@pytest.mark.parametrize("path", FIELD_FILES, ids=[path.stem for path in FIELD_FILES])
def test_a_job_from_the_field_has_the_same_sentence_in_every_output(path: Path) -> None:
    """Protects users who compare the page with the output of the command."""
    text = path.read_bytes()
    results = {form: CliRunner().invoke(main, ["preview", "-o", form, str(path)]) for form in ("diff", "why")}
    texts = {form: result.stdout for form, result in results.items()}
    texts |= {f"http {form}": CLIENT.post(f"/v1/preview?format={form}", data=text).text for form in results}
    texts["page"] = unescape(CLIENT.post("/", data={"object": text.decode()}).text)
    texts = {form: " ".join(output.split()) for form, output in texts.items()}
    items = CLIENT.post("/v1/preview", data=text).get_json()["items"]
    assert items
    for item in items:
        forms_without_it = [form for form, output in texts.items() if item["sentence"] not in output]
        assert forms_without_it == [], item["sentence"]


@given(JOBS)
def test_every_sentence_is_one_printable_line_of_limited_length(obj: Any) -> None:
    (document,) = read_documents(json.dumps(obj))
    outcome = admit(TABLE, Request(obj, "default", explain=True))
    _, text, _ = judge(DryRun(TABLE, document, "default", obj, outcome))
    assert text.isprintable()
    assert len(text) <= MAX_MESSAGE_LENGTH
    assert text.startswith(tuple(f"{word}: " for word in JobVerdict))

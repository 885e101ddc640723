"""Tests of the HTTP endpoints: paths, methods, content types, limits, probes and internal errors."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from flask import Blueprint
from werkzeug.test import Client, TestResponse

from certs import development
from common.times import stamp
from testbed.mpijob import mpijob
from tests.admission.reviews import UID, check_answer, current_state, response, review, send
from webhook import limits
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.compose import load_changed
from webhook.engine import Outcome, Request
from webhook.messages import ERRORS
from webhook.rows.table import Table
from webhook.rules.load import load_default
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState
from webhook.work import BusyError, FailedError


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/json;charset=UTF-8",
    ],
)
def test_json_is_accepted_in_any_charset_and_case(client: Client, content_type: str) -> None:
    check_answer(send(client, review(mpijob()), content_type=content_type))


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/yaml", "application/x-www-form-urlencoded", "application/jsonx", None],
)
def test_another_content_type_is_answered_with_415_with_the_reason(
    client: Client, content_type: str | None
) -> None:
    answer = client.post("/mutate", data=json.dumps(review(mpijob())), content_type=content_type)
    assert answer.status_code == 415
    assert answer.get_json() == {
        "error": f"the content type must be application/json, not {content_type or 'missing'}",
        "code": "unsupported-media-type",
    }


def test_the_timeout_parameter_that_the_api_server_appends_to_the_path_is_ignored(client: Client) -> None:
    answer = client.post("/mutate?timeout=10s", json=review(mpijob()))
    assert "patch" in check_answer(answer)


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch", "options"])
def test_only_post_is_accepted(client: Client, method: str) -> None:
    """The list has OPTIONS because Flask would answer it by default."""
    answer = getattr(client, method)("/mutate")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
    assert answer.get_json() == {
        "error": "this path does not allow this method",
        "code": "method-not-allowed",
    }


@pytest.mark.parametrize("path", ["/validate", "/preview"])
def test_another_path_is_answered_with_404_as_json(client: Client, path: str) -> None:
    answer = client.post(path, json=review(mpijob()))
    assert answer.status_code == 404
    assert "error" in answer.get_json()


def _body_of_size(size: int) -> bytes:
    body = json.dumps(review(mpijob())).encode()
    return body + b" " * (size - len(body))


def test_a_body_of_exactly_3_mib_is_read(client: Client) -> None:
    assert limits.BODY == 3 * 1024 * 1024
    check_answer(send(client, _body_of_size(limits.BODY)))


def test_a_body_of_3_mib_and_one_byte_is_answered_with_413_with_the_reason(client: Client) -> None:
    answer = send(client, _body_of_size(limits.BODY + 1))
    assert answer.status_code == 413
    assert "error" in answer.get_json()


def test_livez_and_readyz_report_ok_and_readyz_names_the_table(client: Client) -> None:
    assert client.get("/livez").get_json() == {"status": "ok"}
    assert client.get("/readyz").get_json() == {
        "status": "ok",
        "table": load_default().revision,
        "certificate": stamp(current_state().tls.expires),
    }


@pytest.fixture
def broken_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the engine by a function that raises an error."""

    def evaluate(table: Table, request: Request) -> NoReturn:
        raise RuntimeError(f"secret detail of {table.revision} {request.uid}")

    monkeypatch.setattr("webhook.admission.handlers.evaluate", evaluate)


@pytest.mark.usefixtures("broken_engine")
def test_an_internal_error_is_a_well_formed_500_and_only_the_log_has_the_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = send(client, review(mpijob()))
    assert answer.status_code == 500
    admission_response = check_answer(answer)
    assert admission_response["allowed"] is False
    assert admission_response["status"]["code"] == 500
    assert UID in admission_response["status"]["message"]
    assert "secret" not in answer.get_data(as_text=True)
    assert "Traceback" not in answer.get_data(as_text=True)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.__dict__["uid"] == UID
    assert record.exc_info is not None


def test_a_patch_that_cannot_be_encoded_is_an_internal_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(_table: Table, request: Request) -> Outcome:
        return Outcome("r", "why", request.object, ({"op": "add", "path": "/x", "value": object()},))

    monkeypatch.setattr("webhook.admission.handlers.evaluate", evaluate)
    answer = send(client, review(mpijob()))
    assert answer.status_code == 500
    check_answer(answer)


def _only_record(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    (record,) = [record for record in caplog.records if record.name == "webhook.admission"]
    return {**record.__dict__, "text": record.getMessage()}


def test_each_review_is_logged_in_one_line_without_the_object(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    response(client, mpijob(annotations={"note": "private"}))
    log = _only_record(caplog)
    assert log["text"] == "allowed: MPIJob default/train: its workers ask for aws.amazon.com/neuron"
    assert (log["uid"], log["response"], log["object"]) == (UID, "allowed", "train")
    assert "ultraserver-nodes" in log["rules"]
    assert "private" not in repr(log)


def test_a_denial_is_logged_with_its_reason(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    response(client, mpijob(annotations={"ultraserver-webhook.io/inject": "maybe"}))
    assert 'use "true" to opt in' in _only_record(caplog)["denials"]


def test_a_bad_review_is_logged_with_its_reason(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    send(client, "{")
    assert _only_record(caplog)["reason"].startswith("the body is not JSON")


def _raising(error: Exception) -> Callable[..., NoReturn]:
    def work(*_: object) -> NoReturn:
        raise error

    return work


def _client_with_error(error: Exception) -> Client:
    """Returns a client of a server that cannot evaluate large reviews because of an error."""
    state = current_state()
    state.tables.work = _raising(error)
    return Client(create_app(admission_blueprint(state)))


def _send_large_review(client: Client) -> TestResponse:
    return send(client, review(mpijob(annotations={"note": "x" * limits.SHORT_REVIEW})))


def test_large_reviews_are_evaluated_in_another_process_and_small_reviews_are_not() -> None:
    sizes: list[int] = []
    state = current_state()

    def work(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
        sizes.append(size)
        return function(state.table, *arguments)

    state.tables.work = work
    client = Client(create_app(admission_blueprint(state)))
    assert "patch" in check_answer(send(client, review(mpijob())))
    assert sizes == []
    assert "patch" in check_answer(_send_large_review(client))
    assert len(sizes) == 1


def test_a_large_review_while_the_other_process_is_busy_is_answered_with_503_with_retry_after() -> None:
    answer = _send_large_review(_client_with_error(BusyError()))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.get_json() == {"error": ERRORS[503][1], "code": "service-unavailable"}


def test_a_large_review_that_fails_is_answered_with_500_and_the_log_has_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = _send_large_review(_client_with_error(FailedError("too long")))
    assert answer.status_code == 500
    assert "too long" in caplog.text


def test_an_unexpected_error_of_a_view_is_answered_with_500_as_json_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without an error handler, gunicorn would answer with HTML and close the connection."""
    blueprint = Blueprint("broken", __name__)
    blueprint.add_url_rule("/path", view_func=_raising(RuntimeError("a mistake")))
    answer = Client(create_app(blueprint)).get("/path")
    assert answer.status_code == 500
    assert "error" in answer.get_json()
    assert "a mistake" not in answer.text
    assert "RuntimeError: a mistake" in caplog.text


def test_readyz_reports_certificate_files_that_cannot_be_used(tmp_path: Path) -> None:
    development.make(tmp_path, ["localhost"], datetime.now(UTC))
    state = CurrentState(TableSource(), TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
    client = Client(create_app(admission_blueprint(state)))
    assert "problem" not in client.get("/readyz").get_json()
    (tmp_path / "tls.key").write_text("no key")
    state.refresh(partial(load_changed, state.tables.work))
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.get_json()["problem"].startswith("unusable certificate files: ")

"""Serves reviews and health checks.

The answers to a review are:

=============================================  ====  =====================================
a review of an object that is ignored           200  allowed, no patch
a job or Pod to which rules may apply           200  allowed, patch, possibly warnings
an invalid job                                  200  not allowed, with a status
a body that is not a review                     400  ``{"error": ..., "code": ...}``
another content type / too long / not POST      415 / 413 / 405
too much long work at one time                  503  with ``Retry-After``
long work with too little memory / time         413 / 500
an internal error, logged with the uid          500  not allowed; the failurePolicy decides
=============================================  ====  =====================================
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response, abort, request

from common.times import stamp
from webhook import limits, messages
from webhook.admission.answer import HANDLERS, Answer, answer
from webhook.metrics import Metrics
from webhook.state import CurrentState
from webhook.work import FailedError, TooLargeError

JSON: Final = "application/json"

EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""The time before the certificate's end in which the server is not ready. Several probes fit into this
time, so that the kubelet notices before the certificate ends."""


def admission_blueprint(state: CurrentState, metrics: Metrics | None = None) -> Blueprint:
    """Returns the blueprint for the API server and the kubelet: reviews, ``/livez`` and ``/readyz``.

    Args:
        state: The rule table and the certificate in use.
        metrics: The metrics that count the reviews. By default, these are new metrics.
    """
    blueprint = Blueprint("admission", __name__)
    metrics = metrics or Metrics(state)
    for name in HANDLERS:
        view = partial(respond, name, state, metrics)
        blueprint.add_url_rule(f"/{name}", name, view, methods=["POST"])
    blueprint.add_url_rule("/livez", "livez", lambda: {"status": "ok"})
    blueprint.add_url_rule("/readyz", "readyz", partial(ready, state))
    return blueprint


def ready(state: CurrentState) -> tuple[dict[str, Any], int]:
    """Returns the readiness and its HTTP status.

    Invalid files do not make the server unready, because the last valid table and certificate stay in use.
    The field ``problem`` then has the reason.
    """
    expires = state.tls.expires
    detail = {"status": "ok", "table": state.table.revision, "certificate": stamp(expires)}
    if expires - datetime.now(UTC) < EXPIRY_MARGIN:
        detail["status"] = messages.CERTIFICATE_ENDS
    problems = [
        messages.unusable_files(kind, problem) for kind, problem in state.problems().items() if problem
    ]
    if problems:
        detail["problem"] = "\n".join(problems)
    return detail, 200 if detail["status"] == "ok" else 503


def respond(endpoint: str, state: CurrentState, metrics: Metrics) -> Response:
    """Answers a review. Another process checks rule tables, and evaluates reviews longer than `SHORT_REVIEW`.

    Raises:
        BusyError, FailedError: See `webhook.work.Work`.
    """
    if request.mimetype != JSON:
        abort(415, messages.wrong_type(JSON, request.mimetype or "missing"))
    body = request.get_data(cache=False)
    try:
        if endpoint == "rules" or len(body) > limits.SHORT_REVIEW:
            result: Answer = state.tables.work(len(body), answer, endpoint, body)
        else:
            result = answer(state.table, endpoint, body)
    except FailedError as error:
        is_too_large = isinstance(error, TooLargeError)
        metrics.count_answer(endpoint, HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_too_large else 500)
        raise
    metrics.count_answer(endpoint, result.status, result.summary, result.shadow, result.seconds)
    if result.status == HTTPStatus.BAD_REQUEST:
        abort(400, result.body.decode())
    return Response(result.body, status=result.status, mimetype=JSON)

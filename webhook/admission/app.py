"""The Flask app that the API server calls: reviews in, reviews out, and whether it is well.

What an answer looks like:

=============================================  ====  =====================================
a review of something that is not ours          200  allowed, no patch
a candidate                                     200  allowed, patch, perhaps warnings
a job that cannot be                            200  not allowed, with a status
a body that is no review                        400  ``{"error": ...}``
another content type / too long / not POST      415 / 413 / 405
a mistake of our own                            500  a review that is not allowed; logged with the uid
=============================================  ====  =====================================
"""

import logging
import time
from typing import Final

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException

from webhook.admission.review import BadReviewError, Review, decode, encode, failure
from webhook.engine import Outcome, evaluate
from webhook.engine.table import Table

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes; etcd takes objects of 1.5 MiB, and a review holds at most two of one."""

JSON: Final = "application/json"

log = logging.getLogger("webhook.admission")


def create_app(table: Table) -> Flask:
    """The app of a table: ``POST /mutate``, ``GET /livez``, ``GET /readyz``.

    Args:
        table: the rules that reviews are evaluated by.
    """
    app = Flask("webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)

    @app.post("/mutate")
    def mutate() -> Response:
        return _mutate(table)

    @app.get("/livez")
    def livez() -> Response:
        return Response('{"status": "ok"}', mimetype=JSON)

    @app.get("/readyz")
    def readyz() -> Response:
        return Response(json.dumps({"status": "ok", "table": table.revision}), mimetype=JSON)

    return app


def http_error(error: HTTPException) -> Response:
    """Every refusal of HTTP's own as JSON, with the reason."""
    headers = {key: value for key, value in error.get_headers() if key.lower() == "allow"}
    return refusal(error.code or 500, error.description or error.name, headers)


def refusal(code: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal with a reason."""
    return Response(json.dumps({"error": reason}), status=code, mimetype=JSON, headers=headers)


def _mutate(table: Table) -> Response:
    if request.mimetype != JSON:
        return refusal(415, f"the content type must be {JSON}, not {request.mimetype or 'missing'}")
    try:
        review = decode(request.get_data(cache=False))
    except BadReviewError as error:
        log.warning("bad review", extra={"reason": str(error)})
        return refusal(400, str(error))
    started = time.perf_counter()
    try:
        outcome = evaluate(table, review.request) if review.concerns_us else None
        answer = encode(review.uid, outcome)
    except Exception:
        # Whatever it is, it is our mistake: the failurePolicy decides, and the log says where to look.
        log.exception("review failed", extra={"uid": review.uid, "kind": review.kind})
        message = f"internal error, see the log of ultraserver-webhook for uid {review.uid}"
        return Response(failure(review.uid, message), status=500, mimetype=JSON)
    _log(review, outcome, time.perf_counter() - started)
    return Response(answer, mimetype=JSON)


def _log(review: Review, outcome: Outcome | None, seconds: float) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {
        "uid": review.uid,
        "kind": review.kind,
        "namespace": review.request.namespace,
        "object": review.name,
        "verdict": str(outcome.verdict) if outcome else "not ours",
        "microseconds": round(seconds * 1e6),
    }
    if outcome:
        fields |= {"reason": outcome.reason, "rules": ",".join(outcome.fired()), "table": outcome.revision}
        fields |= {"denials": "; ".join(outcome.denials)} if outcome.denials else {}
    log.info("%(verdict)s: %(kind)s %(namespace)s/%(object)s", fields, extra=fields)

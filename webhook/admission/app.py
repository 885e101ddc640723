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
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException

from webhook.admission import judges
from webhook.admission.judges import Judge
from webhook.admission.review import BadReviewError, Review, decode, encode, failure
from webhook.engine import Outcome
from webhook.metrics import Metrics
from webhook.rules.source import TableSource

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes; etcd takes objects of 1.5 MiB, and a review holds at most two of one."""

JSON: Final = "application/json"

DOORS: Final[dict[str, Judge]] = {
    "/mutate": judges.mutate,
    "/verify": judges.verify,
    "/require": judges.require,
    "/rule-table": judges.rule_table,
}
"""Where the API server may send reviews, and what is decided there."""

EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""Before the certificate ends by this much the server is not ready; a probe asks every few seconds."""

log = logging.getLogger("webhook.admission")


def create_app(
    source: TableSource,
    metrics: Metrics | None = None,
    expires: Callable[[], datetime | None] = lambda: None,
) -> Flask:
    """The app that the API server and the kubelet call: the doors, ``/livez`` and ``/readyz``.

    Args:
        source: of the rule table.
        metrics: what counts reviews.
        expires: when the serving certificate ends, UTC; None where somebody else does TLS.
    """
    app = Flask("webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)
    doors = Doors(source, metrics or Metrics())
    for path, judge in DOORS.items():
        view = doors.view(path.strip("/"), judge)
        app.add_url_rule(path, path, view, methods=["POST"])
    app.add_url_rule("/livez", "livez", lambda: Response(json.dumps({"status": "ok"}), mimetype=JSON))
    app.add_url_rule("/readyz", "readyz", lambda: ready(source, expires()))
    return app


def ready(source: TableSource, expires: datetime | None) -> Response:
    """Whether to send reviews here; a table that could not be taken up is told, and no reason to stop."""
    status = source.status()
    detail = {"status": "ok", "table": status.revision}
    if status.problem:
        detail["problem"] = status.problem
    if expires is not None:
        detail["certificate"] = f"{expires:%Y-%m-%dT%H:%M:%SZ}"
        if expires - datetime.now(UTC) < EXPIRY_MARGIN:
            detail["status"] = "the serving certificate is about to end"
    return Response(json.dumps(detail), status=200 if detail["status"] == "ok" else 503, mimetype=JSON)


def http_error(error: HTTPException) -> Response:
    """Every refusal of HTTP's own as JSON, with the reason."""
    headers = {key: value for key, value in error.get_headers() if key.lower() == "allow"}
    return refusal(error.code or 500, error.description or error.name, headers)


def refusal(code: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal with a reason."""
    return Response(json.dumps({"error": reason}), status=code, mimetype=JSON, headers=headers)


class Doors:
    """Answers reviews: decode, judge, encode, count and log."""

    def __init__(self, source: TableSource, metrics: Metrics) -> None:
        """Takes what every door needs."""
        self._source, self._metrics = source, metrics

    def view(self, door: str, judge: Judge) -> Callable[[], Response]:
        """The Flask view of a door."""
        return lambda: self._answer(door, judge)

    def _answer(self, door: str, judge: Judge) -> Response:
        if request.mimetype != JSON:
            return refusal(415, f"the content type must be {JSON}, not {request.mimetype or 'missing'}")
        try:
            review = decode(request.get_data(cache=False))
        except BadReviewError as error:
            self._metrics.bad_request()
            log.warning("bad review: %s", error, extra={"door": door, "reason": str(error)})
            return refusal(400, str(error))
        started = time.perf_counter()
        try:
            outcome = judge(self._source.table(), review)
            answer = encode(review.uid, outcome)
        except Exception:
            # Whatever it is, it is our mistake: the failurePolicy decides, and the log says where to look.
            self._metrics.failed()
            log.exception(
                "review %s failed", review.uid, extra={"uid": review.uid, "kind": review.kind, "door": door}
            )
            message = f"internal error, see the log of ultraserver-webhook for uid {review.uid}"
            return Response(failure(review.uid, message), status=500, mimetype=JSON)
        seconds = time.perf_counter() - started
        self._metrics.reviewed(door, outcome, seconds)
        _log(door, review, outcome, seconds)
        return Response(answer, mimetype=JSON)


def _log(door: str, review: Review, outcome: Outcome | None, seconds: float) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {
        "uid": review.uid,
        "door": door,
        "kind": review.kind,
        "namespace": review.request.namespace,
        "object": review.name,
        "verdict": str(outcome.verdict) if outcome else "not ours",
        "microseconds": round(seconds * 1e6),
    }
    if outcome:
        fields |= {"reason": outcome.reason, "rules": ",".join(outcome.fired()), "table": outcome.revision}
        fields |= {"denials": "; ".join(outcome.denials)} if outcome.denials else {}
    text = "%(verdict)s: %(kind)s %(namespace)s/%(object)s: %(why)s"
    why = "; ".join(outcome.denials) or outcome.reason if outcome else "not a creation"
    log.info(text, {**fields, "why": why}, extra=fields)

"""The Flask app that the API server calls: reviews in, reviews out, and whether it is well.

What an answer looks like:

=============================================  ====  =====================================
a review of something that is ignored           200  allowed, no patch
a candidate                                     200  allowed, patch, perhaps warnings
a job that cannot be                            200  not allowed, with a status
a body that is no review                        400  ``{"error": ...}``
another content type / too long / not POST      415 / 413 / 405
too much long work at one time                  503  with ``Retry-After``
an internal error                               500  a review that is not allowed; logged with the uid
=============================================  ====  =====================================
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException

from webhook.admission.answer import HANDLERS, answer
from webhook.metrics import Metrics
from webhook.rules.source import TableSource
from webhook.work import BusyError, FailedError, TooLargeError, Work, here

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes; etcd takes objects of 1.5 MiB, and a review holds at most two of one."""

MAX_SHORT: Final = 64 * 1024
"""Bytes of a review that is evaluated where it arrives, in a few milliseconds."""

JSON: Final = "application/json"

EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""Before the certificate ends by this much the server is not ready; a probe asks every few seconds."""

log = logging.getLogger("webhook.admission")


@dataclass(frozen=True)
class Certificate:
    """What readiness tells of the serving certificate.

    Attributes:
        expires: when it ends, UTC.
        error: why its files, as they are now, cannot be used; empty when they are in use.
    """

    expires: datetime
    error: str = ""


def create_app(
    source: TableSource,
    metrics: Metrics | None = None,
    certificate: Callable[[], Any] = lambda: None,
    long_reviews: Work = here,
    checks: Work = here,
) -> Flask:
    """The app that the API server and the kubelet call: the endpoints, ``/livez`` and ``/readyz``.

    Args:
        source: of the rule table.
        metrics: what counts reviews.
        certificate: the serving `Certificate`, or what has its attributes; None where somebody else does TLS.
        long_reviews: does what is longer than `MAX_SHORT`.
        checks: checks rule tables.
    """
    app = Flask("webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)
    endpoints = Endpoints(source, metrics or Metrics(), long_reviews, checks)
    for name in HANDLERS:
        app.add_url_rule(f"/{name}", name, endpoints.view(name), methods=["POST"])
    app.add_url_rule("/livez", "livez", lambda: Response(json.dumps({"status": "ok"}), mimetype=JSON))
    app.add_url_rule("/readyz", "readyz", lambda: ready(source, certificate()))
    return app


def ready(source: TableSource, certificate: Certificate | None) -> Response:
    """Whether to send reviews here; files that cannot be used are told, and no reason to stop."""
    detail = {"status": "ok", "table": source.table().revision}
    problems = [source.status().problem]
    if certificate is not None:
        detail["certificate"] = f"{certificate.expires:%Y-%m-%dT%H:%M:%SZ}"
        problems.append(certificate.error and f"unusable certificate files: {certificate.error}")
        if certificate.expires - datetime.now(UTC) < EXPIRY_MARGIN:
            detail["status"] = "the serving certificate is about to end"
    if any(problems):
        detail["problem"] = "\n".join(filter(None, problems))
    return Response(json.dumps(detail), status=200 if detail["status"] == "ok" else 503, mimetype=JSON)


def http_error(error: HTTPException) -> Response:
    """Every refusal of HTTP's own as JSON, with the reason."""
    headers = {key: value for key, value in error.get_headers() if key.lower() == "allow"}
    return refusal(error.code or 500, error.description or error.name, headers)


def refusal(code: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal with a reason."""
    return Response(json.dumps({"error": reason}), status=code, mimetype=JSON, headers=headers)


def busy(error: BusyError) -> Response:
    """There is too much long work just now."""
    return refusal(503, str(error), {"Retry-After": "1"})


class Endpoints:
    """Answers reviews, short ones at once and long ones where they hold up nobody, and counts them."""

    def __init__(self, source: TableSource, metrics: Metrics, long_reviews: Work, checks: Work) -> None:
        """Takes what every endpoint needs."""
        self._source, self._metrics = source, metrics
        self._long_reviews, self._checks = long_reviews, checks

    def view(self, name: str) -> Callable[[], Response]:
        """The Flask view of an endpoint."""
        return lambda: self._answer(name)

    def _answer(self, name: str) -> Response:
        if request.mimetype != JSON:
            return refusal(415, f"the content type must be {JSON}, not {request.mimetype or 'missing'}")
        body = request.get_data(cache=False)
        work = here
        if name == "rule-table":
            work = self._checks
        elif len(body) > MAX_SHORT:
            work = self._long_reviews
        try:
            found = work(len(body), answer, self._source.table(), name, body)
        except BusyError as error:
            return busy(error)
        except TooLargeError as error:
            log.warning("refused a review of %d bytes: %s", len(body), error, extra={"endpoint": name})
            self._metrics.answered(name, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", (), 0.0)
            return refusal(413, f"the review is too large: {error}")
        except FailedError as error:
            self._metrics.failed()
            log.error("a review of %d bytes failed: %s", len(body), error, extra={"endpoint": name})  # noqa: TRY400
            return refusal(500, "the review could not be evaluated, see the log of ultraserver-webhook")
        self._metrics.answered(name, found.status, found.verdict, found.rules, found.seconds)
        if found.status == HTTPStatus.BAD_REQUEST:
            return refusal(400, found.body.decode())
        return Response(found.body, status=found.status, mimetype=JSON)

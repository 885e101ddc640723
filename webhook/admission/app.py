"""The Flask app that the API server calls: reviews in, reviews out, and whether it is well.

What an answer looks like:

=============================================  ====  =====================================
a review of something that is ignored           200  allowed, no patch
a candidate                                     200  allowed, patch, perhaps warnings
an invalid job                                  200  not allowed, with a status
a body that is no review                        400  ``{"error": ...}``
another content type / too long / not POST      415 / 413 / 405
too much long work at one time                  503  with ``Retry-After``
an internal error                               500  a review that is not allowed; logged with the uid
=============================================  ====  =====================================
"""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from flask import Flask, Response, json, request

from webhook import limits
from webhook.admission.answer import HANDLERS, answer
from webhook.endpoints import LIVEZ, READYZ, RULE_TABLE
from webhook.metrics import Metrics
from webhook.responses import new_app, refusal
from webhook.state import CurrentState
from webhook.work import FailedError, TooLargeError, Work, here

JSON: Final = "application/json"

EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""Before the certificate ends by this much the server is not ready; a probe asks every few seconds."""

log = logging.getLogger("webhook.admission")


def create_app(
    state: CurrentState, metrics: Metrics | None = None, long_reviews: Work = here, checks: Work = here
) -> Flask:
    """The app that the API server and the kubelet call: reviews, ``/livez`` and ``/readyz``.

    Args:
        state: the rule table and the certificate in use.
        metrics: what counts reviews.
        long_reviews: does what is longer than `limits.SHORT_REVIEW`.
        checks: checks rule tables.
    """
    app = new_app("webhook")
    reviews = Reviews(state, metrics or Metrics(), long_reviews, checks)
    for name in HANDLERS:
        app.add_url_rule(f"/{name}", name, partial(reviews.answer, name), methods=["POST"])
    app.add_url_rule(f"/{LIVEZ}", LIVEZ, lambda: Response(json.dumps({"status": "ok"}), mimetype=JSON))
    app.add_url_rule(f"/{READYZ}", READYZ, lambda: ready(state))
    return app


def ready(state: CurrentState) -> Response:
    """Whether to send reviews here; files that cannot be used are told, and no reason to stop."""
    detail = {"status": "ok", "table": state.table.revision}
    ends = state.certificate_ends
    if ends is not None:
        detail["certificate"] = f"{ends:%Y-%m-%dT%H:%M:%SZ}"
        if ends - datetime.now(UTC) < EXPIRY_MARGIN:
            detail["status"] = "the serving certificate is about to end"
    problems = [f"unusable {file} files: {problem}" for file, problem in state.problems().items() if problem]
    if problems:
        detail["problem"] = "\n".join(problems)
    return Response(json.dumps(detail), status=200 if detail["status"] == "ok" else 503, mimetype=JSON)


class Reviews:
    """Answers reviews, short ones at once and long ones where they hold up nobody, and counts them."""

    def __init__(self, state: CurrentState, metrics: Metrics, long_reviews: Work, checks: Work) -> None:
        """Takes what every endpoint needs."""
        self._state, self._metrics = state, metrics
        self._long_reviews, self._checks = long_reviews, checks

    def answer(self, name: str) -> Response:
        """The view of an endpoint.

        Raises:
            BusyError: if too much long work is waiting.
        """
        if request.mimetype != JSON:
            return refusal(415, f"the content type must be {JSON}, not {request.mimetype or 'missing'}")
        body = request.get_data(cache=False)
        work = here
        if name == RULE_TABLE:
            work = self._checks
        elif len(body) > limits.SHORT_REVIEW:
            work = self._long_reviews
        try:
            found = work(len(body), answer, self._state.table, name, body)
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

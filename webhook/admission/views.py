"""What the API server calls: reviews in, reviews out, and whether it is well.

What an answer looks like:

=============================================  ====  =====================================
a review of something that is ignored           200  allowed, no patch
a candidate                                     200  allowed, patch, perhaps warnings
an invalid job                                  200  not allowed, with a status
a body that is not a review                     400  ``{"error": ...}``
another content type / too long / not POST      415 / 413 / 405
too much long work at one time                  503  with ``Retry-After``
an internal error                               500  a review that is not allowed; logged with the uid
=============================================  ====  =====================================
"""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from werkzeug.wrappers import Response

from common.times import stamp
from webhook import limits
from webhook.admission.answer import HANDLERS, Answer, answer
from webhook.endpoints import LIVEZ, READYZ, RULE_TABLE
from webhook.metrics import Metrics
from webhook.responses import GET, POST, Request, Views, refusal
from webhook.state import CurrentState
from webhook.work import FailedError, TooLargeError, Work, inline

JSON: Final = "application/json"

EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""Before the certificate ends by this much the server is not ready; a probe asks every few seconds."""


def review_views(
    state: CurrentState, metrics: Metrics | None = None, long_reviews: Work = inline, checks: Work = inline
) -> Views:
    """What the API server and the kubelet call: reviews, ``/livez`` and ``/readyz``.

    Args:
        state: the rule table and the certificate in use.
        metrics: what counts reviews.
        long_reviews: does what is longer than `limits.SHORT_REVIEW`.
        checks: checks rule tables.
    """
    counted = metrics or Metrics(state)
    work = {**dict.fromkeys(HANDLERS, long_reviews), RULE_TABLE: checks}
    return {
        **{name: (POST, partial(respond, name, state, counted, work[name])) for name in HANDLERS},
        LIVEZ: (GET, lambda _: Response(json.dumps({"status": "ok"}), mimetype=JSON)),
        READYZ: (GET, lambda _: ready(state)),
    }


def ready(state: CurrentState) -> Response:
    """Whether to send reviews here; files that cannot be used are only reported."""
    ends = state.tls.expires
    detail = {"status": "ok", "table": state.table.revision, "certificate": stamp(ends)}
    if ends - datetime.now(UTC) < EXPIRY_MARGIN:
        detail["status"] = "the serving certificate is about to end"
    problems = [f"unusable {file} files: {problem}" for file, problem in state.problems().items() if problem]
    if problems:
        detail["problem"] = "\n".join(problems)
    return Response(json.dumps(detail), status=200 if detail["status"] == "ok" else 503, mimetype=JSON)


def respond(name: str, state: CurrentState, metrics: Metrics, long_work: Work, request: Request) -> Response:
    """The response of an endpoint: short reviews are answered at once, long ones where they hold up nobody.

    Raises:
        BusyError, FailedError: as `webhook.work.Work`.
    """
    if request.mimetype != JSON:
        return refusal(415, f"the content type must be {JSON}, not {request.mimetype or 'missing'}")
    body = request.get_data(cache=False)
    work = long_work if name == RULE_TABLE or len(body) > limits.SHORT_REVIEW else inline
    try:
        found: Answer = work(len(body), answer, state.table, name, body)
    except FailedError as error:
        too_large = isinstance(error, TooLargeError)
        metrics.answered(name, HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_large else 500)
        raise
    metrics.answered(name, found.status, found.done, found.shadow, found.seconds)
    if found.status == HTTPStatus.BAD_REQUEST:
        return refusal(400, found.body.decode())
    return Response(found.body, status=found.status, mimetype=JSON)

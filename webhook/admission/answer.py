"""Answers a review: decodes the body, calls the handler, encodes the outcome, and logs one line."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook import messages
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import BadReviewError, Review, decode, encode, failure, shadow_notes
from webhook.engine import Outcome
from webhook.engine.outcome import NO_SUMMARY, Summary
from webhook.rows.table import Table

HANDLERS: Final[Mapping[str, Handler]] = {
    "mutate": handlers.mutate,
    "launcher": handlers.mutate,  # a separate path: the registration for launchers always fails closed
    "verify": handlers.verify,
    "require": handlers.require,
    "rules": handlers.rule_table,
}
"""The handler of each endpoint that the API server calls, by name. The path of an endpoint is ``/NAME``."""

IGNORED: Final = "ignored"
"""The response for an object that the webhook ignores."""

log = logging.getLogger("webhook.admission")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the API server, and numbers for the metrics."""

    status: int  # the HTTP status
    body: bytes  # the response to the review as JSON; if the request is not a review, the reason as text
    summary: Summary = NO_SUMMARY  # a summary of the outcome
    shadow: Summary | None = None  # what shadow mode only reports, as in `Outcome.shadow`; or None
    seconds: float = 0.0  # the duration of the evaluation


def answer(table: Table, endpoint: str, body: bytes) -> Answer:
    """Returns the answer to the body of a request.

    For a body that is not a review, the status is 400. After an internal error, the status is 500, and the
    response does not allow the object.

    Args:
        table: The rule table.
        endpoint: A key of `HANDLERS`.
        body: The body of the request.

    Raises:
        MemoryError: The body needs too much memory to decode. No other error is raised.
    """
    try:
        review = decode(body, time.time())
    except BadReviewError as error:
        log.warning("bad review: %s", error, extra={"endpoint": endpoint, "reason": str(error)})
        return Answer(400, str(error).encode())
    started = time.perf_counter()
    try:
        outcome = HANDLERS[endpoint](table, review)
        encoded = encode(review.uid, outcome)
    except Exception:
        # Every error here is internal. The log has it, and the API server applies the failurePolicy.
        fields = {"uid": review.uid, "kind": review.kind, "endpoint": endpoint}
        log.exception("review %s failed", review.uid, extra=fields)
        return Answer(500, failure(review.uid, messages.review_failed(review.uid)))
    seconds = time.perf_counter() - started
    _log(endpoint, review, outcome, seconds)
    if outcome is None:
        return Answer(200, encoded, Summary(IGNORED), seconds=seconds)
    return Answer(200, encoded, outcome.summary, outcome.shadow, seconds)


def _log(endpoint: str, review: Review, outcome: Outcome | None, seconds: float) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {
        "uid": review.uid,
        "endpoint": endpoint,
        "kind": review.kind,
        "namespace": review.request.namespace,
        "object": review.name,
        "response": str(outcome.response) if outcome else IGNORED,
        "microseconds": round(seconds * 1e6),
    }
    if outcome:
        fields |= {"reason": outcome.reason, "rules": ",".join(outcome.fired()), "table": outcome.revision}
        fields |= {"denials": "; ".join(outcome.denials)} if outcome.denials else {}
        fields |= {"policy": outcome.facts["policy"]} if "policy" in outcome.facts else {}
        fields |= {f"shadow_{name}": text for name, text in shadow_notes(outcome).items()}
    line_format = "%(response)s: %(kind)s %(namespace)s/%(object)s: %(text)s"
    text = "; ".join(outcome.denials) or outcome.reason if outcome else "nothing to do"
    text += f"; would be refused: {fields['shadow_denials']}" if "shadow_denials" in fields else ""
    log.info(line_format, {**fields, "text": text}, extra=fields)

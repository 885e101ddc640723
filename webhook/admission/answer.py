"""Answers a review: bytes in, bytes out, one log line, and numbers for the metrics."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import BadReviewError, Review, decode, encode, failure, in_shadow
from webhook.engine import Outcome
from webhook.engine.outcome import NO_SUMMARY, Summary
from webhook.rows.table import Table

HANDLERS: Final[Mapping[str, Handler]] = {
    "mutate": handlers.mutate,
    "launcher": handlers.mutate,  # its own path, because the registration for launchers always fails closed
    "verify": handlers.verify,
    "require": handlers.require,
    "rules": handlers.rule_table,
}
"""The handler of each endpoint that the API server calls; its path is ``/NAME``."""

IGNORED: Final = "ignored"
"""Verdict of a review of an object that the webhook ignores."""

log = logging.getLogger("webhook.admission")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the API server, and numbers for the metrics.

    Attributes:
        status: The HTTP status.
        body: The review as JSON, or the reason as text if the request is not a review.
        done: A summary of the outcome.
        shadow: A summary of what shadow mode only reports; None without shadow mode.
        seconds: Duration of the evaluation.
    """

    status: int
    body: bytes
    done: Summary = NO_SUMMARY
    shadow: Summary | None = None
    seconds: float = 0.0


def answer(table: Table, endpoint: str, body: bytes) -> Answer:
    """Returns the answer to a request's body.

    Raises nothing: the status is 400 for a body that is not a review, and 500 for an internal error, with a
    review that is not allowed.

    Args:
        table: The rule table.
        endpoint: A key of `HANDLERS`.
        body: The request's body.
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
        # Any other error is internal: the failurePolicy decides, and the log has the details.
        fields = {"uid": review.uid, "kind": review.kind, "endpoint": endpoint}
        log.exception("review %s failed", review.uid, extra=fields)
        message = f"internal error, see the log of ultraserver-webhook for uid {review.uid}"
        return Answer(500, failure(review.uid, message))
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
        "verdict": str(outcome.verdict) if outcome else IGNORED,
        "microseconds": round(seconds * 1e6),
    }
    if outcome:
        fields |= {"reason": outcome.reason, "rules": ",".join(outcome.fired()), "table": outcome.revision}
        fields |= {"denials": "; ".join(outcome.denials)} if outcome.denials else {}
        fields |= {"policy": outcome.facts["policy"]} if "policy" in outcome.facts else {}
        fields |= {f"shadow_{name}": text for name, text in in_shadow(outcome).items()}
    text = "%(verdict)s: %(kind)s %(namespace)s/%(object)s: %(why)s"
    why = "; ".join(outcome.denials) or outcome.reason if outcome else "nothing to do"
    why += f"; would be refused: {fields['shadow_denials']}" if "shadow_denials" in fields else ""
    log.info(text, {**fields, "why": why}, extra=fields)

"""A review answered: bytes in, bytes out, one line of log, and what is to be counted."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook import endpoints
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import BadReviewError, Review, decode, encode, failure, in_shadow
from webhook.engine import Outcome
from webhook.engine.outcome import NOTHING, Summary
from webhook.rows.table import Table

HANDLERS: Final[Mapping[str, Handler]] = {
    endpoints.MUTATE: handlers.mutate,
    endpoints.LAUNCHER: handlers.mutate,
    endpoints.VERIFY: handlers.verify,
    endpoints.REQUIRE: handlers.require,
    endpoints.RULE_TABLE: handlers.rule_table,
}
"""What decides at each endpoint."""

IGNORED: Final = "ignored"
"""Verdict of a review that nothing here is to be done with."""

log = logging.getLogger("webhook.admission")


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the API server, and what the metrics are to know.

    Attributes:
        status: of HTTP.
        body: a review; where the request was none, the reason as text.
        done: what was done, in short.
        shadow: what was not done, because it is in shadow; None where that is nothing.
        seconds: that the evaluation took.
    """

    status: int
    body: bytes
    done: Summary = NOTHING
    shadow: Summary | None = None
    seconds: float = 0.0


def answer(table: Table, endpoint: str, body: bytes) -> Answer:
    """Answers the review of a request's body.

    Nothing is raised: a body that is not a review gives status 400, an internal error 500 with a review that
    is not allowed.

    Args:
        table: the rules.
        endpoint: a key of `HANDLERS`.
        body: of the request.
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
        # Whatever it is, it is an internal error: the failurePolicy decides, and the log says where to look.
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

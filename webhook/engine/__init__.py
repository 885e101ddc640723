"""Evaluates a table against an object: the pure core. Its README has the rules."""

from webhook.engine.evaluate import evaluate
from webhook.engine.outcome import Outcome, Request
from webhook.engine.updates import admit, update

__all__ = ["Outcome", "Request", "admit", "evaluate", "update"]

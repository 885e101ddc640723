"""Evaluates a rule table against an object, and does no I/O. README.md in this folder explains the steps."""

from webhook.engine.evaluate import evaluate
from webhook.engine.outcome import Outcome, Request
from webhook.engine.updates import admit, update

__all__ = ["Outcome", "Request", "admit", "evaluate", "update"]

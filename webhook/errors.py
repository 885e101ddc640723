"""Texts of HTTP errors from a view, Flask or gunicorn."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from webhook import limits

REASONS: Final[Mapping[int, str]] = {
    400: "the request cannot be read",
    403: "this request is not allowed",
    404: "there is nothing at this path",
    405: "this path does not take this method",
    413: f"a body may have {limits.BODY} bytes at most",
    414: "the path and its parameters are too long",
    417: "no expectation but 100-continue is met",
    431: "the head is too long, or has too many fields",
    500: "internal error, see the log of ultraserver-webhook",
    501: "give a Content-Length; other encodings of a body are not accepted",
}
"""Reasons of errors without their own."""


def reason_of(status: int) -> str:
    """Returns the reason of an error without its own."""
    return REASONS.get(status, HTTPStatus(status).phrase)


def code_of(status: int) -> str:
    """Returns the code of a status: its HTTP phrase, such as ``not-found``."""
    return re.sub(r"[^a-z]+", "-", HTTPStatus(status).phrase.lower())

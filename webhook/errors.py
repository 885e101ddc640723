"""Defines the texts and the codes of HTTP errors, which a view, Flask or gunicorn causes."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from webhook import limits

REASONS: Final[Mapping[int, str]] = {
    400: "the request cannot be read",
    403: "this request is not allowed",
    404: "this path does not exist",
    405: "this path does not allow this method",
    413: f"a body must have at most {limits.BODY} bytes",
    414: "the path and its parameters are too long",
    417: "the Expect header must be 100-continue",
    431: "the request header is too long, or has too many fields",
    500: "internal error, see the log of ultraserver-webhook",
    501: "send a Content-Length header; chunked bodies are not accepted",
}
"""The default text for each HTTP status."""


def reason_of(status: int) -> str:
    """Returns the text in `REASONS` for a status or, if `REASONS` has none, the HTTP phrase."""
    return REASONS.get(status, HTTPStatus(status).phrase)


def code_of(status: int) -> str:
    """Returns the code for a status: its HTTP phrase in lower case, such as ``not-found``."""
    return re.sub(r"[^a-z]+", "-", HTTPStatus(status).phrase.lower())

"""The texts of answers over HTTP that are not evaluations: errors, and the readiness.

Each HTTP status has a code. docs/reference.md lists the codes.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from webhook import limits

_NO_LENGTH: Final = "send a Content-Length header; chunked bodies are not accepted"

ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("bad-request", "the request cannot be read"),
    403: ("forbidden", "this request is not allowed"),
    404: ("not-found", "this path does not exist"),
    405: ("method-not-allowed", "this path does not allow this method"),
    406: ("not-acceptable", "no media type of the Accept header can be sent"),
    408: ("request-timeout", "the request did not arrive in time"),
    411: ("length-required", _NO_LENGTH),
    413: ("content-too-large", f"a body must have at most {limits.BODY} bytes"),
    414: ("uri-too-long", "the path and its parameters are too long"),
    415: ("unsupported-media-type", "this content type is not accepted"),
    417: ("expectation-failed", "the Expect header must be 100-continue"),
    431: ("request-header-fields-too-large", "the request header is too long, or has too many fields"),
    500: ("internal-server-error", "internal error, see the log of ultraserver-webhook"),
    501: ("not-implemented", _NO_LENGTH),
    503: ("service-unavailable", "too much work is waiting; try again"),
}
"""The code and the default text of an error, by HTTP status. The phrases of `HTTPStatus` depend on Python."""

# ---- Why a body is not a review (400) ----------------------------------------------------------------------

not_json: Final = "the body is not JSON: {}".format
TOO_DEEP: Final = "the body has more than 254 levels, unlike any Kubernetes object"
not_a_review: Final = "expected an {} {}, got {}".format
NO_REQUEST: Final = "/request is missing or not a map: there is no request to answer"
NO_UID: Final = "/request/uid is empty: the answer must repeat it"
NO_OBJECT: Final = "/request/object is missing or not a map: there is no object to evaluate"
not_text: Final = "{}/{} must be text, not {}".format

# ---- Other requests that are refused or fail ---------------------------------------------------------------

SMALL_PARTS: Final = "the request has too many small parts: send at least 256 bytes at a time"
short_body: Final = "the body ended after {} of {} bytes".format
too_large: Final = "the body is too large: {}".format
needs_memory: Final = "it takes more than {} MiB of memory to evaluate".format
too_slow: Final = "it took longer than {:.1f} s".format
wrong_type: Final = "the content type must be {}, not {}".format
NOT_EVALUATED: Final = "the body could not be evaluated, see the log of ultraserver-webhook"

# ---- The readiness -----------------------------------------------------------------------------------------

CERTIFICATE_ENDS: Final = "the serving certificate is about to end"
unusable_files: Final = "unusable {} files: {}".format


def reason_of(status: int) -> str:
    """Returns the default text for an HTTP status."""
    return ERRORS[status][1] if status in ERRORS else HTTPStatus(status).phrase


def code_of(status: int) -> str:
    """Returns the code for an HTTP status, such as ``not-found``."""
    return ERRORS[status][0] if status in ERRORS else f"http-{status}"

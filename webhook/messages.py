"""The texts of error responses, of reviews, of the readiness, and of the command line.

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
"""The code and the default text of an error, by HTTP status. Python's own texts differ by version."""

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

# ---- Reviews -----------------------------------------------------------------------------------------------

review_failed: Final = f"{ERRORS[500][1]} for uid {{}}".format
IS_TABLE: Final = "a ConfigMap with the files of a rule table"
OTHER_TERMS: Final = "the object has another job's terms"
NOT_MUTATED: Final = {False: ("created", "delete it and apply it"), True: ("sent", "apply it")}
"""What was done with an object without the webhook's changes, and the remedy: by whether it is refused."""

# ---- The readiness, and files that are not used ------------------------------------------------------------

CERTIFICATE_ENDS: Final = "the serving certificate is about to end"
unusable_files: Final = "unusable {} files: {}".format
not_checked: Final = "{} cannot be checked: {}".format
unusable: Final = "{} cannot be used: {}".format
unusable_pair: Final = "{} and {} cannot be used: {}".format
ENCRYPTED_KEY: Final = "the key is encrypted: write it without a password"
changed_while_read: Final = "{} changed while it was read".format
_IN_USE: Final = "and the certificate in use is valid"
not_valid_yet: Final = f"{{}} is not valid before {{}}, {_IN_USE}".format
expired: Final = f"{{}} expired on {{}}, {_IN_USE}".format

# ---- The command line --------------------------------------------------------------------------------------

MUST_PLACE_AND_OLD: Final = "--must-place is for new objects, and --old for updates: use one of them"
no_pods: Final = "-o {} has no Pods: use -o json".format
several_tables: Final = "use one table, not {}; the files of a directory are one table".format
_NO_DIRECTORY: Final = "--without-placement does not apply to a directory"
without_placement: Final = f"{_NO_DIRECTORY}: remove 30-placement.yaml from {{}}".format
wrong_table: Final = "{}\nthe rule table is wrong in {}".format
table_in_short: Final = "{}: {}, revision {}".format
not_a_row: Final = "{0} is a file and not the name of a row: write -f {0} to show this table".format
no_row: Final = "no row of the table is called {!r}{}".format
cases_not_run: Final = "{}\nthe cases cannot be run".format
junit_is_link: Final = "--junit {} is a link to {}: name a file".format
all_fired: Final = "every active rule of {} table fired".format
never_fired: Final = "never fired: {}".format


def reason_of(status: int) -> str:
    """Returns the default text for an HTTP status."""
    return ERRORS[status][1] if status in ERRORS else HTTPStatus(status).phrase


def code_of(status: int) -> str:
    """Returns the code for an HTTP status, such as ``not-found``."""
    return ERRORS[status][0] if status in ERRORS else f"http-{status}"

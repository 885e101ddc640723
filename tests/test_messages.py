"""Tests of the exact texts of HTTP errors, reviews, the readiness and the command line."""

from tests import texts
from tests.docs.tables import meanings
from webhook import messages

CONSTANTS = {
    "not_json": "the body is not JSON: {}",
    "TOO_DEEP": "the body has more than 254 levels, unlike any Kubernetes object",
    "not_a_review": "expected an {} {}, got {}",
    "NO_REQUEST": "/request is missing or not a map: there is no request to answer",
    "NO_UID": "/request/uid is empty: the answer must repeat it",
    "NO_OBJECT": "/request/object is missing or not a map: there is no object to evaluate",
    "not_text": "{}/{} must be text, not {}",
    "SMALL_PARTS": "the request has too many small parts: send at least 256 bytes at a time",
    "short_body": "the body ended after {} of {} bytes",
    "too_large": "the body is too large: {}",
    "needs_memory": "it takes more than {} MiB of memory to evaluate",
    "too_slow": "it took longer than {:.1f} s",
    "wrong_type": "the content type must be {}, not {}",
    "NOT_EVALUATED": "the body could not be evaluated, see the log of ultraserver-webhook",
    "review_failed": "internal error, see the log of ultraserver-webhook for uid {}",
    "IS_TABLE": "a ConfigMap with the files of a rule table",
    "OTHER_TERMS": "the object has another job's terms",
    "CERTIFICATE_ENDS": "the serving certificate is about to end",
    "unusable_files": "unusable {} files: {}",
    "not_checked": "{} cannot be checked: {}",
    "unusable": "{} cannot be used: {}",
    "unusable_pair": "{} and {} cannot be used: {}",
    "ENCRYPTED_KEY": "the key is encrypted: write it without a password",
    "changed_while_read": "{} changed while it was read",
    "not_valid_yet": "{} is not valid before {}, and the certificate in use is valid",
    "expired": "{} expired on {}, and the certificate in use is valid",
    "MUST_PLACE_AND_OLD": "--must-place is for new objects, and --old for updates: use one of them",
    "no_pods": "-o {} has no Pods: use -o json",
    "several_tables": "use one table, not {}; the files of a directory are one table",
    "without_placement": (
        "--without-placement does not apply to a directory: remove 30-placement.yaml from {}"
    ),
    "wrong_table": "{}\nthe rule table is wrong in {}",
    "table_in_short": "{}: {}, revision {}",
    "not_a_row": "{0} is a file and not the name of a row: write -f {0} to show this table",
    "no_row": "no row of the table is called {!r}{}",
    "cases_not_run": "{}\nthe cases cannot be run",
    "junit_is_link": "--junit {} is a link to {}: name a file",
    "all_fired": "every active rule of {} table fired",
    "never_fired": "never fired: {}",
}
"""The texts without parameters, and the templates."""

NO_LENGTH = "send a Content-Length header; chunked bodies are not accepted"

REASONS = {
    400: "the request cannot be read",
    403: "this request is not allowed",
    404: "this path does not exist",
    405: "this path does not allow this method",
    406: "no media type of the Accept header can be sent",
    408: "the request did not arrive in time",
    411: NO_LENGTH,
    413: "a body must have at most 3145728 bytes",
    414: "the path and its parameters are too long",
    415: "this content type is not accepted",
    417: "the Expect header must be 100-continue",
    431: "the request header is too long, or has too many fields",
    500: "internal error, see the log of ultraserver-webhook",
    501: NO_LENGTH,
    503: "too much work is waiting; try again",
}


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS


def test_the_texts_about_objects_without_the_changes_of_the_webhook() -> None:
    assert messages.NOT_MUTATED == {
        False: ("created", "delete it and apply it"),
        True: ("sent", "apply it"),
    }


def test_the_default_text_of_each_status() -> None:
    assert {status: messages.reason_of(status) for status in messages.ERRORS} == REASONS
    assert messages.reason_of(507) == "Insufficient Storage"


def test_the_reference_lists_each_code_with_its_status() -> None:
    codes = {
        code: text.partition(":")[0]
        for code, (text, _) in meanings()["http"].items()
        if not code.endswith(("-parameter", "-form"))
    }
    assert codes == {messages.code_of(status): str(status) for status in messages.ERRORS}

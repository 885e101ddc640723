"""Checks the invariants of the answer to a review, and counts the work of its evaluation."""

import base64
import hashlib
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jsonpatch
import orjson

from tests.attack.cases import Case
from tests.attack.live import review
from webhook.admission import handlers
from webhook.admission.review import BadReviewError, decode, encode
from webhook.engine import Outcome
from webhook.objects.tree import same
from webhook.rules.load import load_default

TABLE = load_default()

ANSWER_TIMES, ANSWER_BYTES = 4, 64 * 1024
"""The maximum size of an answer: this many times the review, and this many bytes for the added fields."""

CALLS_FLOOR, CALLS_PER_KB = 20_000, 4_000
HASHED_FLOOR, HASHED_PER_BYTE = 200_000, 64
"""The maximum work of an evaluation: function calls, and hashed bytes, which the calls do not show.

Each limit is about half a millisecond per KB if Python makes eight million calls a second and hashes 100 MB a
second. The worst known records cost 3,400 calls per KB, or 51 hashed bytes per byte.
"""


class BrokenError(AssertionError):
    """An invariant does not hold. The message describes the violation."""


@dataclass
class Work:
    """The work of an evaluation: function calls and hashed bytes."""

    calls: int = 0
    hashed: int = 0


def check(case: Case, *, counted: bool = False) -> str:
    """Answers a review and checks the answer; counts the work, too, if ``counted``.

    Returns:
        The result: ``bad``, ``denied``, ``untouched`` or ``mutated``.

    Raises:
        BrokenError: An invariant does not hold, or the webhook raises any other error than for a bad review.
    """
    try:
        return _check(case, counted=counted)
    except BrokenError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise BrokenError(f"raised {type(error).__name__} in {where.name}: {error}") from error


def _check(case: Case, *, counted: bool) -> str:
    body = review(case.obj, "first", **case.request)
    try:
        outcome, answer = _answer(handlers.mutate, body)
    except BadReviewError:
        return "bad"
    if counted:
        work(body)
    response = answer["response"]
    if not response["allowed"]:
        return "denied"
    operations = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    try:
        after = jsonpatch.apply_patch(orjson.loads(orjson.dumps(case.obj)), operations, in_place=True)
    except Exception as error:
        raise BrokenError(f"patch does not apply: {type(error).__name__}: {error}") from error
    if outcome is not None and not same(after, outcome.after):
        raise BrokenError("the patch gives another object than the engine")
    _check_again(review(after, "second", **case.request))
    return "mutated" if operations else "untouched"


def _check_again(body: bytes) -> None:
    """Checks that a mutated object is not mutated again, and that the checks after the mutation accept it."""
    again = _answer(handlers.mutate, body)[1]["response"]
    if not again["allowed"]:
        raise BrokenError(f"again: denied after a mutation: {again['status']['message'][:300]}")
    if "patch" in again:
        operations = orjson.loads(base64.b64decode(again["patch"]))
        raise BrokenError(
            f"again: {len(operations)} operations after a mutation, first {json.dumps(operations[0])[:300]}"
        )
    required = _answer(handlers.require, body)[1]["response"]
    if not required["allowed"]:
        raise BrokenError(f"require refuses a mutated object: {required['status']['message'][:300]}")
    verified = _answer(handlers.verify, body)[1]["response"]
    if verified.get("warnings"):
        raise BrokenError(f"verify warns of a mutated object: {verified['warnings'][0][:300]}")


def _answer(handler: handlers.Handler, body: bytes) -> tuple[Outcome | None, Any]:
    decoded = decode(body, 0)
    outcome = handler(TABLE, decoded)
    text = encode(decoded.uid, outcome)
    if len(text) > ANSWER_TIMES * len(body) + ANSWER_BYTES:
        raise BrokenError(f"size: the answer to {len(body)} bytes is {len(text)}")
    answer = orjson.loads(text)
    if answer["response"]["uid"] != decoded.uid:
        raise BrokenError("uid: the answer is to another review")
    return outcome, answer


def work(body: bytes) -> Work:
    """Returns the work of the evaluation of a review, which is the same on every machine.

    Raises:
        BrokenError: The work is above the limit for the size of the review. The evaluation stops there.
    """
    decoded, cost = decode(body, 0), Work()
    sha256: Callable[..., Any] = hashlib.sha256
    max_calls = CALLS_FLOOR + CALLS_PER_KB * len(body) // 1024
    max_hashed = HASHED_FLOOR + HASHED_PER_BYTE * len(body)

    def hashing(data: bytes = b"", **options: Any) -> Any:
        cost.hashed += len(data)
        if cost.hashed > max_hashed:
            raise BrokenError(f"cost: over {max_hashed} bytes hashed for a review of {len(body)}")
        return sha256(data, **options)

    def counting(_frame: object, event: str, _argument: object) -> None:
        cost.calls += event in {"call", "c_call"}
        if cost.calls > max_calls:
            raise BrokenError(f"cost: over {max_calls} calls for a review of {len(body)} bytes")

    with mock.patch.object(hashlib, "sha256", hashing):
        before = sys.getprofile()
        sys.setprofile(counting)
        try:
            handlers.mutate(TABLE, decoded)
        finally:
            sys.setprofile(before)
    return cost

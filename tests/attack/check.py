"""What must hold for every review, and the work that its evaluation costs, counted."""

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

ANSWER_TIMES, ANSWER_MORE = 4, 64 * 1024
"""An answer is at most this many times the review, and this many bytes more: what is added to any job."""

CALLS_FLOOR, CALLS_PER_KB = 20_000, 4_000
HASHED_FLOOR, HASHED_PER_BYTE = 200_000, 64
"""Work of one evaluation: calls of functions, and bytes that are hashed, which no count of calls shows.

Half a millisecond a KB each where Python makes eight million calls a second and hashes 100 MB.
The worst records known cost 3,400 calls a KB, and others 51 bytes hashed for each of theirs.
"""


class BrokenError(AssertionError):
    """Something that must hold does not; the message says what, by one word first."""


@dataclass
class Work:
    """What an evaluation did."""

    calls: int = 0
    hashed: int = 0


def check(case: Case, *, counted: bool = False) -> str:
    """Answers a review and hold the answer to what must be.

    Returns:
        The result: ``bad``, ``denied``, ``untouched`` or ``mutated``.

    Raises:
        BrokenError: It does not hold; anything that the webhook raises counts as that.
    """
    try:
        return _checked(case, counted=counted)
    except BrokenError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise BrokenError(f"raised {type(error).__name__} in {where.name}: {error}") from error


def _checked(case: Case, *, counted: bool) -> str:
    body = review(case.obj, "first", **case.request)
    try:
        outcome, answer = _answered(handlers.mutate, body)
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
        raise BrokenError("patch leads elsewhere than the engine says")
    _hold_again(review(after, "second", **case.request))
    return "mutated" if operations else "untouched"


def _hold_again(body: bytes) -> None:
    """What was mutated once needs nothing more, and passes the handlers that look for that."""
    again = _answered(handlers.mutate, body)[1]["response"]
    if not again["allowed"]:
        raise BrokenError(f"again: denied once mutated: {again['status']['message'][:300]}")
    if "patch" in again:
        left = orjson.loads(base64.b64decode(again["patch"]))
        raise BrokenError(f"again: {len(left)} operations are left, first {json.dumps(left[0])[:300]}")
    required = _answered(handlers.require, body)[1]["response"]
    if not required["allowed"]:
        raise BrokenError(f"require refuses what was mutated: {required['status']['message'][:300]}")
    verified = _answered(handlers.verify, body)[1]["response"]
    if verified.get("warnings"):
        raise BrokenError(f"verify warns of what was mutated: {verified['warnings'][0][:300]}")


def _answered(handler: handlers.Handler, body: bytes) -> tuple[Outcome | None, Any]:
    decoded = decode(body, 0)
    outcome = handler(TABLE, decoded)
    text = encode(decoded.uid, outcome)
    if len(text) > ANSWER_TIMES * len(body) + ANSWER_MORE:
        raise BrokenError(f"size: the answer to {len(body)} bytes is {len(text)}")
    answer = orjson.loads(text)
    if answer["response"]["uid"] != decoded.uid:
        raise BrokenError("uid: the answer is to another review")
    return outcome, answer


def work(body: bytes) -> Work:
    """Returns what the evaluation of a review costs, counted: the same on every machine.

    Raises:
        BrokenError: It is more than the size of the review allows; the evaluation is given up there.
    """
    result, done = decode(body, 0), Work()
    plain: Callable[..., Any] = hashlib.sha256
    most_calls = CALLS_FLOOR + CALLS_PER_KB * len(body) // 1024
    most_hashed = HASHED_FLOOR + HASHED_PER_BYTE * len(body)

    def hashing(data: bytes = b"", **more: Any) -> Any:
        done.hashed += len(data)
        if done.hashed > most_hashed:
            raise BrokenError(f"cost: over {most_hashed} bytes hashed for a review of {len(body)}")
        return plain(data, **more)

    def counting(_frame: object, event: str, _argument: object) -> None:
        done.calls += event in {"call", "c_call"}
        if done.calls > most_calls:
            raise BrokenError(f"cost: over {most_calls} calls for a review of {len(body)} bytes")

    with mock.patch.object(hashlib, "sha256", hashing):
        before = sys.getprofile()
        sys.setprofile(counting)
        try:
            handlers.mutate(TABLE, result)
        finally:
            sys.setprofile(before)
    return done

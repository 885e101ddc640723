"""Decodes and encodes AdmissionReview v1: bytes to request, outcome to response.

Source of the format: Kubernetes, "Dynamic Admission Control", request and response.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from webhook.engine import Outcome, Request
from webhook.objects.tree import Json

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

WARNING_LIMIT: Final = 256
"""Maximum length of one warning; the API server cuts longer ones."""

WARNINGS_LIMIT: Final = 4096
"""Maximum length of all warnings together; the API server drops the rest."""


class BadReviewError(ValueError):
    """A body is not an AdmissionReview v1; the message has the reason."""


@dataclass(frozen=True)
class Review:
    """A review as received.

    Attributes:
        operation: ``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``; empty for one on a subresource.
        name: The object's name; empty if the API server generates it later.
        stored: The object before an update; null otherwise.
    """

    uid: str
    request: Request
    operation: str
    kind: str
    name: str
    stored: Json = None


def decode(body: bytes, now: float) -> Review:
    """Returns the review in a request body that was received at this Unix time.

    NaN, infinities, text that is not UTF-8 and more than 254 levels are refused: orjson cannot write these,
    so a patch could not either, and the engine, which recurses, needs a limit. An MPIJob has about fifteen
    levels. The last value of a duplicate key is used, as in Go: the API server, which writes its bodies
    itself, sends no duplicates.

    Raises:
        BadReviewError: The body is not an AdmissionReview v1 with a request that can be answered.
    """
    try:
        raw = orjson.loads(body)
        orjson.dumps(raw)  # checks the levels, at an eighth of the cost of reading
    except orjson.JSONDecodeError as error:
        if "Not enough memory" in str(error):  # orjson has no separate error for this
            raise MemoryError from error
        raise BadReviewError(f"the body is not JSON: {error}") from error
    except orjson.JSONEncodeError as error:
        raise BadReviewError("the body is nested deeper than 254 levels: no Kubernetes object is") from error
    if not isinstance(raw, dict) or raw.get("kind") != KIND or raw.get("apiVersion") != API_VERSION:
        kind = f"{raw.get('apiVersion')} {raw.get('kind')}" if isinstance(raw, dict) else type(raw).__name__
        raise BadReviewError(f"expected an {API_VERSION} {KIND}, got {kind[:80]}")
    request = raw.get("request")
    if not isinstance(request, dict):
        raise BadReviewError("/request is missing or not a map: there is no request to answer")
    uid = _text(request, "uid")
    if not uid:
        raise BadReviewError("/request/uid is empty: the answer must repeat it")
    operation = "" if _text(request, "subResource") else _text(request, "operation")
    obj = request.get("object")
    if operation == "CREATE" and not isinstance(obj, dict):
        raise BadReviewError("/request/object is missing or not a map: there is nothing to evaluate")
    user = request.get("userInfo")
    return Review(
        uid=uid,
        request=Request(
            object=obj,
            namespace=_text(request, "namespace"),
            uid=uid,
            now=now,
            username=_text(user, "username", "/request/userInfo") if isinstance(user, dict) else "",
        ),
        kind=str(obj.get("kind")) if isinstance(obj, dict) else "",
        operation=operation,
        name=_text(request, "name"),
        stored=request.get("oldObject"),
    )


def _text(source: Mapping[str, Any], key: str, at: str = "/request") -> str:
    value = source.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadReviewError(f"{at}/{key} must be text, not {type(value).__name__}")
    return value


def encode(uid: str, outcome: Outcome | None) -> bytes:
    """Returns the response to a review; None allows the object unchanged.

    A denial is a valid response. Patch and patchType are both present or both absent.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if outcome is not None:
        response["auditAnnotations"] = audit(outcome)
        if outcome.warnings:
            response["warnings"] = limited(outcome.warnings)
        if outcome.denials:
            response["allowed"] = False
            response["status"] = _status(422, "Invalid", "; ".join(outcome.denials))
        elif outcome.operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(outcome.operations)).decode()
    return _review(response)


def failure(uid: str, message: str) -> bytes:
    """Returns the response to a review that could not be evaluated, to be sent with HTTP 500.

    The API server checks the HTTP status first, so that the failurePolicy decides; the body
    has the same message.
    """
    return _review({"uid": uid, "allowed": False, "status": _status(500, "InternalError", message)})


def audit(outcome: Outcome) -> dict[str, str]:
    """Returns the annotations for the API server's audit log, which adds the webhook's name to each key."""
    notes = {"table": outcome.revision, "outcome": f"{outcome.verdict}: {outcome.reason}"}
    if outcome.fired():
        notes["rules"] = ",".join(outcome.fired())
    notes |= {name: outcome.facts[name] for name in ("shape", "policy") if name in outcome.facts}
    return notes | {f"shadow-{name}": text for name, text in in_shadow(outcome).items()}


def in_shadow(outcome: Outcome) -> dict[str, str]:
    """Returns what shadow mode prevents: the rules that would fire, and why the object would be refused."""
    if not outcome.shadow or not outcome.enforced:
        return {}
    parts = {"rules": ",".join(outcome.shadow.rules), "denials": "; ".join(outcome.enforced.denials)}
    return {name: text for name, text in parts.items() if text}


def limited(warnings: Iterable[str]) -> list[str]:
    """Returns the warnings that the API server passes on; the last one counts the others."""
    result: list[str] = []
    left = WARNINGS_LIMIT - len("and 9999 more")
    every = list(warnings)
    for index, warning in enumerate(every):
        # The API server adds "Warning:" and line ends, which a warning must not contain.
        line = " ".join(warning.split())
        cut = line if len(line) <= WARNING_LIMIT else line[: WARNING_LIMIT - 1] + "…"
        left -= len(cut.encode())
        if left < 0:
            result.append(f"and {len(every) - index} more")
            break
        result.append(cut)
    return result


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"code": code, "reason": reason, "message": message, "status": "Failure"}


def _review(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})

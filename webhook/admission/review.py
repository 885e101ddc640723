"""Decodes requests and encodes responses of AdmissionReview v1.

The page "Dynamic Admission Control" of the Kubernetes documentation describes the format.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from webhook import messages
from webhook.engine import Outcome, Request
from webhook.engine.messages import message
from webhook.objects.tree import Json

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

ONE_WARNING_LIMIT: Final = 256
"""Maximum number of characters of one warning; the API server truncates longer warnings."""

ALL_WARNINGS_LIMIT: Final = 4096
"""Maximum number of bytes of all warnings together. The maximum of the API server is 4096 characters."""


class BadReviewError(ValueError):
    """The error for a body that is not an AdmissionReview v1; the message has the reason."""


@dataclass(frozen=True)
class Review:
    """A review that the API server sent."""

    uid: str
    request: Request
    operation: str  # CREATE, UPDATE, DELETE or CONNECT; empty if the review is on a subresource
    kind: str  # the kind of the new object, without its API version; empty if there is no new object
    name: str  # the name of the object; empty if the API server generates the name later
    stored: Json = None  # the stored object that is updated or deleted; None if there is no stored object


def decode(body: bytes, now: float) -> Review:
    """Returns the review in the body of a request, received at the Unix time ``now``.

    NaN, infinities, texts that are not UTF-8 and more than 254 levels are refused, because orjson cannot
    write them into a patch. The engine is recursive and needs a limit on levels, too. An MPIJob has about 15
    levels. If a key is repeated, its last value is used, as in Go. The API server repeats no keys.

    Raises:
        BadReviewError: The body is not an AdmissionReview v1 with a request that can be answered.
        MemoryError: The process has too little memory to decode the body.
    """
    try:
        raw = orjson.loads(body)
        orjson.dumps(raw)  # checks the number of levels; this takes an eighth of the time of `loads`
    except orjson.JSONDecodeError as error:
        if "Not enough memory" in str(error):  # orjson has no separate error for a lack of memory
            raise MemoryError from error
        raise BadReviewError(messages.not_json(error)) from error
    except orjson.JSONEncodeError as error:
        raise BadReviewError(messages.TOO_DEEP) from error
    if not isinstance(raw, dict) or raw.get("kind") != KIND or raw.get("apiVersion") != API_VERSION:
        kind = f"{raw.get('apiVersion')} {raw.get('kind')}" if isinstance(raw, dict) else type(raw).__name__
        raise BadReviewError(messages.not_a_review(API_VERSION, KIND, kind[:80]))
    request = raw.get("request")
    if not isinstance(request, dict):
        raise BadReviewError(messages.NO_REQUEST)
    uid = _text(request, "uid")
    if not uid:
        raise BadReviewError(messages.NO_UID)
    operation = "" if _text(request, "subResource") else _text(request, "operation")
    obj = request.get("object")
    if operation == "CREATE" and not isinstance(obj, dict):
        raise BadReviewError(messages.NO_OBJECT)
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


def _text(source: Mapping[str, Any], key: str, path: str = "/request") -> str:
    value = source.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadReviewError(messages.not_text(path, key, type(value).__name__))
    return value


def encode(uid: str, outcome: Outcome | None) -> bytes:
    """Returns the response to a review. Without an outcome, the object is allowed without changes."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if outcome is not None:
        response["auditAnnotations"] = audit_annotations(outcome)
        if outcome.warnings:
            response["warnings"] = limit_warnings(outcome.warnings)
        if outcome.denials:
            response["allowed"] = False
            response["status"] = _status(422, "Invalid", "; ".join(outcome.denials))
        elif outcome.operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(outcome.operations)).decode()
    return _review(response)


def failure(uid: str, message: str) -> bytes:
    """Returns the response to a review that could not be evaluated, for HTTP status 500.

    The API server sees the status and applies the failurePolicy. The body is for other clients.
    """
    return _review({"uid": uid, "allowed": False, "status": _status(500, "InternalError", message)})


def audit_annotations(outcome: Outcome) -> dict[str, str]:
    """Returns the annotations for the audit log. The API server adds the webhook's name to each key."""
    notes = {"table": outcome.revision, "outcome": f"{outcome.response}: {outcome.reason}"}
    if outcome.fired():
        notes["rules"] = ",".join(outcome.fired())
    notes |= {name: outcome.facts[name] for name in ("shape", "policy") if name in outcome.facts}
    return notes | {f"shadow-{name}": text for name, text in shadow_notes(outcome).items()}


def shadow_notes(outcome: Outcome) -> dict[str, str]:
    """Returns the rules that would fire, and the denials that would occur, without shadow mode."""
    if not outcome.shadow or not outcome.enforced:
        return {}
    parts = {"rules": ",".join(outcome.shadow.rules), "denials": "; ".join(outcome.enforced.denials)}
    return {name: text for name, text in parts.items() if text}


def limit_warnings(warnings: Iterable[str]) -> list[str]:
    """Returns warnings within the API server's limits; the last text counts warnings that do not fit."""
    result: list[str] = []
    free_bytes = ALL_WARNINGS_LIMIT - len(message("more", 9999))
    all_warnings = list(warnings)
    for index, warning in enumerate(all_warnings):
        # The API server writes one line for each warning, so a warning must not contain line ends.
        line = " ".join(warning.split())
        text = line if len(line) <= ONE_WARNING_LIMIT else line[: ONE_WARNING_LIMIT - 1] + "…"
        free_bytes -= len(text.encode())
        if free_bytes < 0:
            result.append(message("more", len(all_warnings) - index))
            break
        result.append(text)
    return result


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"code": code, "reason": reason, "message": message, "status": "Failure"}


def _review(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})

"""Calls an API server's REST interface over any transport, and handles JSON, pages and errors."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from kube import messages
from kube.api import ApiError, ConflictError, ForbiddenError, GoneError, Object

PAGE_SIZE = 500
"""The number of objects in a page of a list, as in client-go: a list of 4,000 nodes is read in parts."""

MAX_PAGE_BYTES = 8 * 2**20
"""The maximum size of a page; a longer page is requested again with fewer objects. 500 ordinary
Pods have 4 MiB, and a single large Pod has up to 1.5 MiB."""

_ERRORS: dict[int, type[ApiError]] = {403: ForbiddenError, 409: ConflictError, 410: GoneError}
_NOT_SERVED = b"404 page not found\n"
"""The body of a 404 of an API server that does not serve a group version. A proxy's body is different."""
_JSON_PATCH = "application/json-patch+json"

_MAX_DEPTH = 100
"""The level of nesting that `parse_json` makes null if Python cannot read the text. A Pod has about 15."""

_MAX_DIGITS = 20
"""The digits of an integer that `parse_json` keeps if Python cannot read the text: enough for 64 bits."""

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
"""The brackets of JSON. A string matches as a whole, so that its brackets are ignored."""


Answer = tuple[int, bytes]
"""The HTTP status, and the body."""


class RestApi(ABC):
    """A client of an API server's REST interface. A path includes the query.

    Every method raises `ApiError` if the API server is unreachable. A method that returns no status also
    raises it if the API server refuses the request. "Raises" lists only subclasses that callers distinguish.
    """

    @abstractmethod
    def fetch(self, verb: str, path: str, body: object, content_type: str, max_bytes: int | None) -> Answer:
        """Sends one request, and returns the answer. A body that is not bytes is sent as JSON.

        Raises:
            TooLongError: The answer has more than ``max_bytes`` bytes; None means no limit.
        """

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        max_bytes: int | None = None,
    ) -> tuple[int, Object]:
        """Sends one request, and returns the status and the answer as an object (`decode`)."""
        return decode(*self.fetch(verb, path, body, content_type, max_bytes))

    def get(self, path: str) -> Object | None:
        """Returns an object or a list; None if it does not exist or is not served."""
        status, answer = self.call("GET", path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return check_status("GET", path, status, answer)

    def create(self, path: str, document: Object) -> Object:
        """Creates an object in the collection ``path``, and returns the stored object.

        Raises:
            ConflictError: The object exists already.
        """
        return check_status("POST", path, *self.call("POST", path, document))

    def create_as_dry_run(self, path: str, document: Object) -> tuple[int, Object]:
        """Creates an object in the collection ``path`` as a dry run, in which nothing is stored.

        Returns:
            The HTTP status, and the object as it would be stored, or a ``Status`` with the reason.
        """
        return self.call("POST", with_query(path, dryRun="All", fieldValidation="Strict"), document)

    def replace(self, path: str, document: Object) -> Object:
        """Replaces an object that still has the ``resourceVersion`` of ``document``; returns the new object.

        Raises:
            ConflictError: The object has another resourceVersion, or was deleted.
        """
        return check_status("PUT", path, *self.call("PUT", path, document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Applies a JSON patch, and returns the stored object.

        Raises:
            ConflictError: The object was deleted, or the patch contains another resourceVersion.
        """
        return check_status("PATCH", path, *self.call("PATCH", path, operations, _JSON_PATCH))

    def delete(
        self, path: str, preconditions: Mapping[str, str] | None = None, *, grace_seconds: int | None = None
    ) -> None:
        """Deletes an object. An object that does not exist is not an error.

        With a ``uid`` or ``resourceVersion`` as precondition, the object is deleted only if it has this
        value. ``grace_seconds`` is the time for a pod to end; None means the time in the pod's spec. Both are
        in the request body, because the API server ignores the query of a request with preconditions.

        Raises:
            ConflictError: The object has another ``uid`` or ``resourceVersion``.
        """
        body: Object = {"preconditions": dict(preconditions)} if preconditions else {}
        body |= {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        status, answer = self.call("DELETE", path, body or None)
        if status != HTTPStatus.NOT_FOUND:
            check_status("DELETE", path, status, answer)

    def pages(self, path: str) -> Iterator[Object]:
        """Yields a collection as lists of at most `PAGE_SIZE` items, which all belong to one resourceVersion.

        Raises:
            GoneError: Reading took so long that the API server no longer has the next page.
        """
        token, limit = "", PAGE_SIZE
        while True:
            page_path = with_query(path, limit=str(limit), **({"continue": token} if token else {}))
            try:
                status, body = self.call("GET", page_path, max_bytes=MAX_PAGE_BYTES if limit > 1 else None)
            except TooLongError:
                limit = max(limit // 4, 1)
                continue
            answer = check_status("GET", page_path, status, body)
            yield answer
            token = answer.get("metadata", {}).get("continue", "")
            if not token:
                return
            limit = min(limit * 2, PAGE_SIZE)


class TooLongError(Exception):
    """An answer has more bytes than the caller accepts. It was not read to its end."""


def with_query(path: str, **query: str) -> str:
    """Returns a path with parameters added to its query."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def parse_json(data: bytes) -> Object:
    """Returns the object in a JSON answer, even if users stored values in it that Python cannot read.

    Such values can be in fields of type ``RawExtension``, which the API server does not check. Bytes that are
    not UTF-8 are replaced. If Python cannot read the result, maps and lists at the level `_MAX_DEPTH`, and
    integers of more than `_MAX_DIGITS` digits, become null. An answer that is not JSON raises ValueError.
    """
    text = data.decode(errors="replace")
    try:
        value: Object = json.loads(text)
    except (RecursionError, ValueError):  # text that is not JSON raises ValueError again
        value = json.loads(_without_deep_values(text), parse_int=_parse_integer)
    return value


def _parse_integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _without_deep_values(text: str) -> str:
    pieces, depth, start = list[str](), 0, 0
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] in "[{":
            depth += 1
            if depth == _MAX_DEPTH:
                pieces += (text[start : bracket.start()], "null")
        elif bracket[0] in "]}":
            if depth == _MAX_DEPTH:
                start = bracket.end()
            depth -= 1
    return "".join((*pieces, text[start:]))


def decode(status: int, data: bytes) -> tuple[int, Object]:
    """Returns the status and the answer. A body that is not a JSON object becomes an error with a message."""
    if status == HTTPStatus.NOT_FOUND and data == _NOT_SERVED:
        return status, {"message": messages.NOT_SERVED}
    try:
        answer = parse_json(data)
    except ValueError:  # such as a proxy's page
        answer = None
    if isinstance(answer, dict):
        return status, answer
    beginning = data[:200].decode(errors="replace").strip()
    return max(status, HTTPStatus.BAD_GATEWAY), {"message": messages.not_an_object(beginning)}


def check_status(verb: str, path: str, status: int, answer: Object) -> Object:
    """Returns the answer, or raises the `ApiError` of an error status."""
    if status < HTTPStatus.BAD_REQUEST:
        return answer
    message = f"{verb} {path}: {status} {answer.get('message', '')}"
    # AlreadyExists (409), and 404 for a write to an object that was deleted since the read, are conflicts.
    was_deleted = status == HTTPStatus.NOT_FOUND and verb in {"PUT", "PATCH"}
    raise (ConflictError if was_deleted else _ERRORS.get(status, ApiError))(message)

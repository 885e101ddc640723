"""Calls of an API server's REST interface over any transport: JSON in and out, pages, errors."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from kube.api import ApiError, ConflictError, ForbiddenError, GoneError, Object

PAGE = 500
"""Objects in one page of a list, as in client-go's pager, so that 4,000 nodes are not in memory at once."""

PAGE_BYTES = 8 * 2**20
"""A longer page is read as several: 500 ordinary Pods take 4 MiB, a single large one takes up to 1.5 MiB."""

_ERRORS: dict[int, type[ApiError]] = {403: ForbiddenError, 409: ConflictError, 410: GoneError}
_UNSERVED = b"404 page not found\n"
"""The API server's answer for a group version that it does not serve; a proxy's answer differs."""
_JSON_PATCH = "application/json-patch+json"

_DEEPEST = 100
"""Levels of nesting that are read: a Pod has about fifteen."""

_DIGITS = 20
"""Digits of an integer that are read: Kubernetes has no integers of more than 64 bits."""

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
"""Brackets of JSON; a string matches as a whole, so that brackets in it are ignored."""


Answer = tuple[int, bytes]
"""The HTTP status, and the body."""


class RestApi(ABC):
    """An API server. Paths are those of its REST interface, with the query.

    Every method raises `ApiError` if the API server is unreachable or refuses; "Raises" lists the subclasses
    that a caller may need to distinguish.
    """

    @abstractmethod
    def fetch(self, verb: str, path: str, body: object, content_type: str, most: int | None) -> Answer:
        """Sends one request, with a body that is not bytes as JSON, and returns the answer.

        Raises:
            TooLongError: The answer has more than ``most`` bytes; None means no limit.
        """

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        most: int | None = None,
    ) -> tuple[int, Object]:
        """Sends one request, and returns the status and the answer as an object (`decoded`)."""
        return decoded(*self.fetch(verb, path, body, content_type, most))

    def get(self, path: str) -> Object | None:
        """Returns an object or a list; None if it does not exist."""
        status, answer = self.call("GET", path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return checked("GET", path, status, answer)

    def create(self, path: str, document: Object) -> Object:
        """Creates an object in the collection ``path``, and returns it as it is stored.

        Raises:
            ConflictError: It exists already.
        """
        return checked("POST", path, *self.call("POST", path, document))

    def try_create(self, path: str, document: Object) -> tuple[int, Object]:
        """Creates an object in the collection ``path`` as a dry run: nothing is stored.

        Returns:
            The HTTP status, and the object as it would be stored, or a ``Status`` with the reason.
        """
        return self.call("POST", with_query(path, dryRun="All", fieldValidation="Strict"), document)

    def replace(self, path: str, document: Object) -> Object:
        """Replaces an object that still has the ``resourceVersion`` of ``document``; returns the new one.

        Raises:
            ConflictError: It has another resourceVersion, or was deleted.
        """
        return checked("PUT", path, *self.call("PUT", path, document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Applies a JSON patch, and returns the object; `kube.api.guarded` binds it to a ``resourceVersion``.

        Raises:
            ConflictError: The object has another resourceVersion, or was deleted.
        """
        return checked("PATCH", path, *self.call("PATCH", path, operations, _JSON_PATCH))

    def delete(
        self, path: str, preconditions: Mapping[str, str] | None = None, *, grace: int | None = None
    ) -> None:
        """Deletes an object; one that does not exist is not an error.

        With its ``uid`` or ``resourceVersion`` as preconditions, deletes it only if it still has them.
        ``grace`` is the time for a pod to end, in seconds; None for its own. The API server ignores the query
        of a request with preconditions.

        Raises:
            ConflictError: It has others.
        """
        body: Object = {"preconditions": dict(preconditions)} if preconditions else {}
        body |= {} if grace is None else {"gracePeriodSeconds": grace}
        status, answer = self.call("DELETE", path, body or None)
        if status != HTTPStatus.NOT_FOUND:
            checked("DELETE", path, status, answer)

    def pages(self, path: str) -> Iterator[Object]:
        """Yields a collection as lists of some hundred items, all of one resourceVersion.

        Raises:
            GoneError: Reading took so long that the API server no longer has the next page.
        """
        token, limit = "", PAGE
        while True:
            page = with_query(path, limit=str(limit), **({"continue": token} if token else {}))
            try:
                status, body = self.call("GET", page, most=PAGE_BYTES if limit > 1 else None)
            except TooLongError:
                limit = max(limit // 4, 1)
                continue
            answer = checked("GET", page, status, body)
            yield answer
            token = answer.get("metadata", {}).get("continue", "")
            if not token:
                return
            limit = min(limit * 2, PAGE)


class TooLongError(Exception):
    """An answer has more bytes than the caller accepts; the rest was not read."""


def with_query(path: str, **query: str) -> str:
    """Returns a path with these parameters added to its query."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def loaded(data: bytes) -> Object:
    """Returns the object in JSON that Kubernetes stores; no user's object makes a list unreadable.

    The API server does not check fields of type ``RawExtension``. They may have bytes that are not UTF-8,
    which are replaced here; values nested deeper than `_DEEPEST` and integers with more digits than Python
    converts become null.
    """
    text = data.decode(errors="replace")
    try:
        value: Object = json.loads(text)
    except (RecursionError, ValueError):  # text that is not JSON raises ValueError again
        value = json.loads(_without_depths(text), parse_int=_integer)
    return value


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _DIGITS else None


def _without_depths(text: str) -> str:
    pieces, depth, start = list[str](), 0, 0
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] in "[{":
            depth += 1
            if depth == _DEEPEST:
                pieces += (text[start : bracket.start()], "null")
        elif bracket[0] in "]}":
            if depth == _DEEPEST:
                start = bracket.end()
            depth -= 1
    return "".join((*pieces, text[start:]))


def decoded(status: int, data: bytes) -> tuple[int, Object]:
    """Returns the status and the answer; for one that is not a JSON object, its beginning as an error."""
    if status == HTTPStatus.NOT_FOUND and data == _UNSERVED:
        return status, {"message": "it is not served"}
    try:
        answer = loaded(data)
    except ValueError:  # such as a proxy's page
        answer = None
    if isinstance(answer, dict):
        return status, answer
    beginning = data[:200].decode(errors="replace").strip()
    return max(status, HTTPStatus.BAD_GATEWAY), {"message": f"not a JSON object but {beginning}"}


def checked(verb: str, path: str, status: int, answer: Object) -> Object:
    """Returns the answer, or raises the error of its status."""
    if status < HTTPStatus.BAD_REQUEST:
        return answer
    sentence = f"{verb} {path}: {status} {answer.get('message', '')}"
    # AlreadyExists is 409 as well; 404 to a write means that the object was deleted since it was read.
    deleted = status == HTTPStatus.NOT_FOUND and verb in {"PUT", "PATCH"}
    raise (ConflictError if deleted else _ERRORS.get(status, ApiError))(sentence)

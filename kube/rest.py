"""Calls of an API server by its REST interface, whatever carries them: JSON in and out, pages, errors."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from kube.api import ApiError, ConflictError, ForbiddenError, GoneError, Object

PAGE = 500
"""Objects in one page of a list, as in client-go's pager: 4,000 nodes are never in memory at once."""

PAGE_BYTES = 8 * 2**20
"""A page that is longer is read as several: 500 ordinary Pods take 4 MiB, one of a tenant's up to 1.5 MiB."""

_ERRORS: dict[int, type[ApiError]] = {403: ForbiddenError, 409: ConflictError, 410: GoneError}
_UNSERVED = b"404 page not found\n"
"""What the API server says of a version of a group that it does not have; a proxy says something else."""
_JSON_PATCH = "application/json-patch+json"

_DEEPEST = 100
"""Levels of an object that are read: a Pod has about fifteen."""

_DIGITS = 20
"""Of a whole number that is read: none of Kubernetes has more than 64 bits."""

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
"""Of JSON; those in texts are passed over."""


Answer = tuple[int, bytes]
"""The status of HTTP, and what came back."""


class RestApi(ABC):
    """An API server. Paths are those of its REST interface, a query included.

    Every method raises `ApiError` where the API server cannot be reached or refuses; its kinds that a caller
    may want to tell apart are named.
    """

    @abstractmethod
    def fetch(self, verb: str, path: str, body: object, content_type: str, most: int | None) -> Answer:
        """Send one request, a body that is not bytes as JSON; ``most``: bytes of the answer, None for any.

        Raises:
            TooLongError: The answer has more bytes.
        """

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        most: int | None = None,
    ) -> tuple[int, Object]:
        """As `fetch`: the status, and the answer as an object (`decoded`)."""
        return decoded(*self.fetch(verb, path, body, content_type, most))

    def get(self, path: str) -> Object | None:
        """Read an object or a list; None when it does not exist."""
        status, answer = self.call("GET", path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return checked("GET", path, status, answer)

    def create(self, path: str, document: Object) -> Object:
        """Create an object in the collection ``path``.

        Raises:
            ConflictError: It exists already.
        """
        return checked("POST", path, *self.call("POST", path, document))

    def try_create(self, path: str, document: Object) -> tuple[int, Object]:
        """Have an object created in the collection ``path`` as a dry run: nothing is stored.

        Returns:
            The HTTP status, and the object as it would be stored, or a ``Status`` that says why not.
        """
        return self.call("POST", with_query(path, dryRun="All", fieldValidation="Strict"), document)

    def replace(self, path: str, document: Object) -> Object:
        """Replace an object, if it still has the ``resourceVersion`` of ``document``.

        Raises:
            ConflictError: It has another one, or was deleted.
        """
        return checked("PUT", path, *self.call("PUT", path, document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Apply a JSON patch; `kube.api.guarded` binds it to a ``resourceVersion``.

        Raises:
            ConflictError: The object has another one, or was deleted.
        """
        return checked("PATCH", path, *self.call("PATCH", path, operations, _JSON_PATCH))

    def delete(self, path: str, preconditions: Mapping[str, str] | None = None) -> None:
        """Delete an object; one that does not exist is not an error.

        With its ``uid`` or ``resourceVersion`` as preconditions only if it still has them.

        Raises:
            ConflictError: It has another one.
        """
        body = {"preconditions": dict(preconditions)} if preconditions else None
        status, answer = self.call("DELETE", path, body)
        if status != HTTPStatus.NOT_FOUND:
            checked("DELETE", path, status, answer)

    def pages(self, path: str) -> Iterator[Object]:
        """Read a collection as lists of some hundred items, all of one resourceVersion.

        Raises:
            GoneError: It took so long that the next page is no longer known.
        """
        token, limit = "", PAGE
        while True:
            page = with_query(path, limit=str(limit), **({"continue": token} if token else {}))
            try:
                found = self.call("GET", page, most=PAGE_BYTES if limit > 1 else None)
            except TooLongError:
                limit = max(limit // 4, 1)
                continue
            answer = checked("GET", page, *found)
            yield answer
            token = answer.get("metadata", {}).get("continue", "")
            if not token:
                return
            limit = min(limit * 2, PAGE)


class TooLongError(Exception):
    """An answer has more bytes than wanted; the rest was not read."""


def with_query(path: str, **query: str) -> str:
    """A path with more in its query."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def loaded(data: bytes) -> Object:
    """JSON as Kubernetes stores it, where whoever may create one object could else keep all from being read.

    What the API server does not look into (``RawExtension``) is passed on as it came: with bytes that are no
    UTF-8, which are replaced here, and nested as deep as anybody likes; what is deeper than `_DEEPEST` is
    null here, and so is a number of more digits than Python converts.
    """
    text = data.decode(errors="replace")
    try:
        found: Object = json.loads(text)
    except (RecursionError, ValueError):  # JSON that is none raises ValueError again
        found = json.loads(_without_depths(text), parse_int=_integer)
    return found


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _DIGITS else None


def _without_depths(text: str) -> str:
    kept, depth, start = list[str](), 0, 0
    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == _DEEPEST:
                kept += (text[start : found.start()], "null")
        elif found[0] in "]}":
            if depth == _DEEPEST:
                start = found.end()
            depth -= 1
    return "".join((*kept, text[start:]))


def decoded(status: int, data: bytes) -> tuple[int, Object]:
    """The status and what was answered; of what is not an object of JSON the beginning, as an error."""
    if status == HTTPStatus.NOT_FOUND and data == _UNSERVED:
        return status, {"message": "it is not served"}
    try:
        answer = loaded(data)
    except ValueError:  # a proxy's page, say
        answer = None
    if isinstance(answer, dict):
        return status, answer
    said = data[:200].decode(errors="replace").strip()
    return max(status, HTTPStatus.BAD_GATEWAY), {"message": f"not a JSON object but {said}"}


def checked(verb: str, path: str, status: int, answer: Object) -> Object:
    """The answer, unless its status is an error, which is raised."""
    if status < HTTPStatus.BAD_REQUEST:
        return answer
    sentence = f"{verb} {path}: {status} {answer.get('message', '')}"
    # AlreadyExists is 409 as well; 404 to a write says that it was deleted since it was read.
    deleted = status == HTTPStatus.NOT_FOUND and verb in {"PUT", "PATCH"}
    raise (ConflictError if deleted else _ERRORS.get(status, ApiError))(sentence)

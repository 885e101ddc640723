"""The API server through the ``kubernetes`` package, which is imported nowhere else.

The generic calls of its client are used, not the generated models: an object that is read, changed and
written back as JSON keeps every field, those of a newer API server included.
"""

from __future__ import annotations

import contextlib
import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import list_kube_config_contexts, load_kube_config

from kube.api import ApiError, ConflictError, ForbiddenError, GoneError, Object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kubernetes.client.rest import RESTResponse

TIMEOUT_SECONDS = 10
"""For one call; the API server answers reads and writes of such small objects in milliseconds."""

PAGE = 500
"""Objects in one page of a list, as in client-go's pager: 4,000 nodes are never in memory at once."""

PAGE_BYTES = 8 * 2**20
"""A page that is longer is read as several: 500 ordinary Pods take 4 MiB, one of a tenant's up to 1.5 MiB."""

IDLE_SECONDS = 90
"""A watch that says nothing for so long is begun again, as its connection may be dead.

That is no failure: the API server sends a bookmark every minute, but none where nothing has changed.
"""

_ERRORS: dict[int, type[ApiError]] = {403: ForbiddenError, 409: ConflictError, 410: GoneError}
_UNSERVED = b"404 page not found\n"
"""What the API server says of a version of a group that it does not have; a proxy says something else."""
_JSON_PATCH = "application/json-patch+json"
_READ_BYTES = 65536

_DEEPEST = 100
"""Levels of an object that are read: a Pod has about fifteen."""

_DIGITS = 20
"""Of a whole number that is read: none of Kubernetes has more than 64 bits."""

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
"""Of JSON; those in texts are passed over."""


class KubernetesApi:
    """An API server, with a kept connection for each call at a time.

    Paths are those of its REST interface, a query included.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Take a configuration; nothing is sent yet."""
        # The caller decides again after a failure; a retry below it would only repeat a stale write.
        configuration.retries = 0
        self._client = ApiClient(configuration)

    def get(self, path: str) -> Object | None:
        """Read an object or a list.

        Returns:
            It, or None when it does not exist.

        Raises:
            ApiError: It cannot be read.
        """
        status, answer = self._call("GET", path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return _checked("GET", path, status, answer)

    def create(self, path: str, document: Object) -> Object:
        """Create an object in the collection ``path``.

        Raises:
            ConflictError: It exists already.
            ApiError: It cannot be created.
        """
        return _checked("POST", path, *self._call("POST", path, document))

    def try_create(self, path: str, document: Object) -> tuple[int, Object]:
        """Have an object created in the collection ``path`` as a dry run: nothing is stored.

        Returns:
            The HTTP status, and the object as it would be stored, or a ``Status`` that says why not.

        Raises:
            ApiError: The API server cannot be reached.
        """
        return self._call("POST", _with_query(path, dryRun="All", fieldValidation="Strict"), document)

    def text(self, path: str) -> str:
        """Read what is no object, such as ``/metrics``.

        Raises:
            ApiError: It cannot be read.
        """
        response = self._send("GET", path)
        with _errors("GET", path):
            data: bytes = response.response.read()
        response.response.release_conn()
        if response.status >= HTTPStatus.BAD_REQUEST:
            _checked("GET", path, *_decoded(response.status, data))
        return data.decode(errors="replace")

    def replace(self, path: str, document: Object) -> Object:
        """Replace an object, if it still has the ``resourceVersion`` of ``document``.

        Raises:
            ConflictError: It has another one, or was deleted.
            ApiError: It cannot be replaced.
        """
        return _checked("PUT", path, *self._call("PUT", path, document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Apply a JSON patch; `kube.api.guarded` binds it to a ``resourceVersion``.

        Raises:
            ConflictError: The object has another one, or was deleted.
            ApiError: It cannot be patched.
        """
        return _checked("PATCH", path, *self._call("PATCH", path, operations, _JSON_PATCH))

    def delete(self, path: str, preconditions: Mapping[str, str] | None = None) -> None:
        """Delete an object; one that does not exist is no error.

        Args:
            path: Its path.
            preconditions: Its ``uid`` or ``resourceVersion``, if it is to be deleted only as that.

        Raises:
            ConflictError: It has another one.
            ApiError: It cannot be deleted.
        """
        body = {"preconditions": dict(preconditions)} if preconditions else None
        status, answer = self._call("DELETE", path, body)
        if status != HTTPStatus.NOT_FOUND:
            _checked("DELETE", path, status, answer)

    def pages(self, path: str) -> Iterator[Object]:
        """Read a collection as lists of some hundred items, all of one resourceVersion.

        Raises:
            GoneError: It took so long that the next page is no longer known.
            ApiError: It cannot be read.
        """
        token, limit = "", PAGE
        while True:
            page = _with_query(path, limit=str(limit), **({"continue": token} if token else {}))
            try:
                found = self._call("GET", page, most=PAGE_BYTES if limit > 1 else None)
            except _TooLongError:
                limit = max(limit // 4, 1)
                continue
            answer = _checked("GET", page, *found)
            yield answer
            token = answer.get("metadata", {}).get("continue", "")
            if not token:
                return
            limit = min(limit * 2, PAGE)

    @contextlib.contextmanager
    def stream(self, path: str) -> Iterator[EventStream]:
        """Begin a watch.

        Raises:
            GoneError: The path's resourceVersion is too old.
            ApiError: It cannot be begun.
        """
        response = self._send("GET", path, timeout=(TIMEOUT_SECONDS, IDLE_SECONDS))
        try:
            if response.status >= HTTPStatus.BAD_REQUEST:
                with _errors("GET", path):
                    data = response.response.read()
                _checked("GET", path, *_decoded(response.status, data))
            yield EventStream(path, response.response)
        finally:
            response.response.close()

    def _call(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        most: int | None = None,
    ) -> tuple[int, Object]:
        response = self._send(verb, path, body, content_type)
        with _errors(verb, path):
            data = response.response.read(None if most is None else most + 1)
        if most is not None and len(data) > most:
            response.response.close()
            raise _TooLongError
        response.response.release_conn()
        return _decoded(response.status, data)

    def _send(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | tuple[float, float] = TIMEOUT_SECONDS,
    ) -> RESTResponse:
        headers = {"Accept": "application/json"} | (
            {"Content-Type": content_type} if body is not None else {}
        )
        with _errors(verb, path):
            request = self._client.param_serialize(
                verb, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            _refuse_bad_token(request[2])
            return self._client.call_api(*request, _request_timeout=timeout)


class _TooLongError(Exception):
    """An answer has more bytes than wanted; the rest was not read."""


class EventStream:
    """The events of a watch as they come, until the API server ends it or says nothing for long.

    Iterating raises `ApiError` when the connection breaks.
    """

    def __init__(self, path: str, response: urllib3.BaseHTTPResponse) -> None:
        """Take an answer whose body is still to come."""
        self._path, self._response = path, response

    def __iter__(self) -> Iterator[Object]:
        """The events, each as soon as it is there."""
        left = b""
        with _errors("GET", self._path), contextlib.suppress(urllib3.exceptions.ReadTimeoutError):
            for part in self._response.stream(_READ_BYTES):
                *lines, left = (left + part).split(b"\n")
                yield from map(_loaded, filter(None, lines))

    def close(self) -> None:
        """End it, from any thread: whoever waits for an event gets no more."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has ended already
            self._response.shutdown()


def connect(kubeconfig: Path | None) -> KubernetesApi:
    """Have the API server that a file or the pod's own account names.

    Args:
        kubeconfig: A kubeconfig; None for the service account of the pod this runs in.

    Raises:
        ApiError: Neither names one.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        hint = "" if kubeconfig else " (not in a pod? Then name a --kubeconfig.)"
        raise ApiError(f"no API server to talk to: {error}{hint}") from error
    return KubernetesApi(configuration)


def connect_as_user(kubeconfig: Path | None, context: str | None) -> tuple[KubernetesApi, str]:
    """Have the API server that kubectl would talk to, and the namespace that it would use.

    Args:
        kubeconfig: A kubeconfig; None for those of the variable ``KUBECONFIG``, or ``~/.kube/config``.
        context: One of its contexts; None for the current one.

    Raises:
        ApiError: There is no such file or context, or it names no API server.
    """
    configuration, file = Configuration(), str(kubeconfig) if kubeconfig else None
    try:
        load_kube_config(file, context, configuration, persist_config=False)  # type: ignore[no-untyped-call]
        contexts, current = list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ApiError(f"no API server to talk to: {error}") from error
    wanted = context or current["name"]
    chosen = next((item for item in contexts if item["name"] == wanted), current)
    return KubernetesApi(configuration), chosen["context"].get("namespace") or "default"


@contextlib.contextmanager
def _errors(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise ApiError(f"{verb} {path}: {error}") from error


def _refuse_bad_token(headers: dict[str, str]) -> None:
    """Refuse what a header cannot carry: the HTTP library's error would quote it, and a token is a secret."""
    if "authorization" not in headers:
        return
    headers["authorization"] = headers["authorization"].strip()  # a file often ends with a line end
    if not (headers["authorization"].isascii() and headers["authorization"].isprintable()):
        raise ValueError(
            "the bearer token has a line end or another character that no HTTP header can have: "
            "replace it in the kubeconfig or the service account's token file"
        )


def _with_query(path: str, **query: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def _loaded(data: bytes) -> Object:
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


def _decoded(status: int, data: bytes) -> tuple[int, Object]:
    if status == HTTPStatus.NOT_FOUND and data == _UNSERVED:
        return status, {"message": "it is not served"}
    try:
        answer = _loaded(data)
    except ValueError:  # a proxy's page, say
        answer = None
    if isinstance(answer, dict):
        return status, answer
    return max(status, HTTPStatus.BAD_GATEWAY), {"message": f"no JSON object but {data[:200]!r}"}


def _checked(verb: str, path: str, status: int, answer: Object) -> Object:
    if status < HTTPStatus.BAD_REQUEST:
        return answer
    sentence = f"{verb} {path}: {status} {answer.get('message', '')}"
    # AlreadyExists is 409 as well; 404 to a write says that it was deleted since it was read.
    deleted = status == HTTPStatus.NOT_FOUND and verb in {"PUT", "PATCH"}
    raise (ConflictError if deleted else _ERRORS.get(status, ApiError))(sentence)

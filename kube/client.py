"""Calls the API server through the ``kubernetes`` package, which no other module imports.

This module uses the generic calls of the package's client, not its generated models. An object that is read,
changed and written back as JSON keeps all fields, including fields of a newer API server.
"""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import orjson
import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTResponse
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import load_kube_config

from kube import messages
from kube.api import ApiError, Object
from kube.rest import Answer, RestApi, TooLongError, check_status, decode, parse_json

TIMEOUT_SECONDS = 10
"""Timeout of one call; the API server answers most reads and writes in milliseconds."""

IDLE_SECONDS = 90
"""The time without an event after which a watch begins again, because its connection may be dead.

A watch without events is normal: the API server sends a bookmark every minute only if something has changed.
"""

_READ_BYTES = 65536


class KubernetesApi(RestApi):
    """An API server, with one persistent connection for each concurrent call."""

    def __init__(self, configuration: Configuration) -> None:
        """Stores a configuration; sends nothing yet."""
        # After an error, the caller reads the object again. A retry here would only repeat a stale write.
        configuration.retries = 0
        self._client = ApiClient(configuration)

    @contextlib.contextmanager
    def stream(self, path: str) -> Iterator["EventStream"]:
        """Begins a watch, and yields its events.

        Raises:
            GoneError: The path's resourceVersion is too old.
            ApiError: The watch cannot begin.
        """
        response = self._send("GET", path, timeout=(TIMEOUT_SECONDS, IDLE_SECONDS))
        try:
            if response.status >= HTTPStatus.BAD_REQUEST:
                with _as_api_errors("GET", path):
                    data = response.response.read()
                check_status("GET", path, *decode(response.status, data))
            yield EventStream(path, response.response)
        finally:
            response.response.close()

    def fetch(self, verb: str, path: str, body: object, content_type: str, max_bytes: int | None) -> Answer:
        """Sends one request (see `RestApi`)."""
        response = self._send(verb, path, body, content_type)
        with _as_api_errors(verb, path):
            data = response.response.read(None if max_bytes is None else max_bytes + 1)
        if max_bytes is not None and len(data) > max_bytes:
            response.response.close()
            raise TooLongError
        response.response.release_conn()
        return response.status, data

    def _send(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | tuple[float, float] = TIMEOUT_SECONDS,
    ) -> RESTResponse:
        content_headers = {} if body is None else {"Content-Type": content_type}
        headers = {"Accept": "application/json"} | content_headers
        with _as_api_errors(verb, path):
            request = self._client.param_serialize(
                verb, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            _refuse_bad_token(request[2])
            return self._client.call_api(*request, _request_timeout=timeout)


def _parse_event(line: bytes) -> Object:
    """Returns the event in a line. `parse_json` reads lines that orjson refuses, such as invalid UTF-8."""
    try:
        event: Object = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = parse_json(line)
    return event


class EventStream:
    """The events of a watch. If the connection breaks, an iteration raises `ApiError`.

    The events end by `close`, or when the API server ends the watch or sends nothing for `IDLE_SECONDS`.
    """

    def __init__(self, path: str, response: urllib3.BaseHTTPResponse) -> None:
        """Stores a response whose body has not been read."""
        self._path, self._response = path, response

    def __iter__(self) -> Iterator[Object]:
        """Yields each event as soon as it arrives."""
        incomplete_line = b""
        with _as_api_errors("GET", self._path), contextlib.suppress(urllib3.exceptions.ReadTimeoutError):
            for chunk in self._response.stream(_READ_BYTES):
                *lines, incomplete_line = (incomplete_line + chunk).split(b"\n")
                yield from map(_parse_event, filter(None, lines))

    def close(self) -> None:
        """Ends the watch, from any thread: an iteration that waits for an event ends."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # the watch has ended already
            self._response.shutdown()


def connect(kubeconfig: Path | None) -> KubernetesApi:
    """Returns a client of the API server, with the address and rights of a kubeconfig or of this pod.

    Args:
        kubeconfig: A kubeconfig; None for the ServiceAccount of the pod in which this program runs.

    Raises:
        ApiError: No API server is configured.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        text = messages.unreachable(error) if kubeconfig else messages.no_server(error)
        raise ApiError(text) from error
    return KubernetesApi(configuration)


@contextlib.contextmanager
def _as_api_errors(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise ApiError(f"{verb} {path}: {error}") from error


def _refuse_bad_token(headers: dict[str, str]) -> None:
    """Raises an error for an invalid bearer token, because http.client's error would quote the token."""
    if "authorization" not in headers:
        return
    headers["authorization"] = headers["authorization"].strip()  # a token file often ends with a line end
    if not (headers["authorization"].isascii() and headers["authorization"].isprintable()):
        raise ValueError(messages.BAD_TOKEN)

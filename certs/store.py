"""The API server through the ``kubernetes`` package, which is imported nowhere else in ``certs``.

The generic calls of its client are used, not the generated models: an object that is read, changed and
written back as JSON keeps every field, those of a newer API server included.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import load_kube_config

from certs.api import ConflictError, Object, StoreError

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 10
"""For one call; the API server answers reads and writes of such small objects in milliseconds."""

_JSON_PATCH = "application/json-patch+json"


class KubernetesApi:
    """An API server (`certs.api.Api`), over one kept connection. For one thread."""

    def __init__(self, configuration: Configuration) -> None:
        """Take a configuration; nothing is sent yet."""
        # The caller decides again after a failure; a retry below it would only repeat a stale write.
        configuration.retries = 0
        self._client = ApiClient(configuration)

    def get(self, path: str) -> Object | None:
        """Read an object or a list; see `certs.api.Api`."""
        status, answer = self._call("GET", path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return _checked("GET", path, status, answer)

    def create(self, path: str, document: Object) -> Object:
        """Create an object; see `certs.api.Api`."""
        return _checked("POST", path, *self._call("POST", path, document))

    def replace(self, path: str, document: Object) -> Object:
        """Replace an object; see `certs.api.Api`."""
        return _checked("PUT", path, *self._call("PUT", path, document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Patch an object; see `certs.api.Api`."""
        return _checked("PATCH", path, *self._call("PATCH", path, operations, _JSON_PATCH))

    def _call(
        self, verb: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, Object]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            request = self._client.param_serialize(
                verb, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = self._client.call_api(*request, _request_timeout=TIMEOUT_SECONDS)
            status, data = response.status, response.read()  # type: ignore[no-untyped-call]
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise StoreError(f"{verb} {path}: {error}") from error
        try:
            answer = json.loads(data)
        except ValueError:  # a proxy's page, say
            answer = None
        if not isinstance(answer, dict):
            answer = {"message": f"no JSON object but {data[:200]!r}"}
            status = status if status >= HTTPStatus.BAD_REQUEST else HTTPStatus.BAD_GATEWAY
        return status, answer


def connect(kubeconfig: Path | None) -> KubernetesApi:
    """Have the API server that a file or the pod's own account names.

    Args:
        kubeconfig: A kubeconfig; None for the service account of the pod this runs in.

    Raises:
        StoreError: Neither names one.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        hint = "" if kubeconfig else " (not in a pod? Then name a --kubeconfig.)"
        raise StoreError(f"no API server to talk to: {error}{hint}") from error
    return KubernetesApi(configuration)


def _checked(verb: str, path: str, status: int, answer: Object) -> Object:
    if status < HTTPStatus.BAD_REQUEST:
        return answer
    sentence = f"{verb} {path}: {status} {answer.get('message', '')}"
    # AlreadyExists is 409 as well; 404 to a write says that it was deleted since it was read.
    gone = status == HTTPStatus.NOT_FOUND and verb in {"PUT", "PATCH"}
    if status == HTTPStatus.CONFLICT or gone:
        raise ConflictError(sentence)
    raise StoreError(sentence)

"""Calls the installation's preview service through the API server's service proxy, with the user's rights."""

import json
from http import HTTPStatus
from typing import Final

from kube.api import ApiError, Object
from kube.rest import RestApi, decode, parse_json, with_query
from kubectl_ultraserver import messages
from kubectl_ultraserver.objects import NAME, maps_at

SERVICE_PATH: Final = f"/api/v1/namespaces/{NAME}/services/{NAME}-preview:http/proxy"


class UnavailableError(ApiError):
    """The service gives no answer that can be used; the message has the reason."""


class BadDocumentError(Exception):
    """The service cannot read a document; the message has the reason and the line."""


def error_text(status: int, answer: Object) -> str:
    """Returns why the service, or the API server in front of it, refuses a request, and what to do."""
    if "error" in answer:
        hint = messages.ADD_HOST if status == HTTPStatus.FORBIDDEN else ""
        return messages.service_refuses(status, answer["error"]) + hint
    remedy = messages.REMEDIES.get(status, messages.PORT_FORWARD)
    return messages.api_server_answers(status, answer.get("message"), remedy)


def service_state(api: RestApi) -> Object:
    """Returns the service's state: its release, and the revision and problem of its table.

    Raises:
        UnavailableError: The service does not answer.
    """
    status, answer = api.call("GET", f"{SERVICE_PATH}/readyz")
    if status != HTTPStatus.OK:
        raise UnavailableError(error_text(status, answer))
    return answer


def ask(api: RestApi, text: bytes, **parameters: str) -> bytes:
    """Returns the preview of documents; docs/preview.md has the parameters.

    Raises:
        UnavailableError: The service does not answer, or refuses.
        BadDocumentError: The service cannot read a document.
    """
    query = {name.replace("_", "-"): value for name, value in parameters.items()}
    path = with_query(f"{SERVICE_PATH}/v1/preview", **query)
    status, data = api.fetch("POST", path, text, "application/yaml", None)
    if status == HTTPStatus.OK:
        return data
    _, answer = decode(status, data)
    if answer.get("code") == "bad-request":
        raise BadDocumentError(answer["error"])
    raise UnavailableError(error_text(status, answer))


def item_of(api: RestApi, obj: Object, **parameters: str) -> Object:
    """Returns the service's preview of an object: an ``Item`` of ``webhook/preview/openapi.yaml``.

    Raises:
        UnavailableError: The service does not answer, refuses the request, or cannot read the object.
    """
    try:
        answer = parse_json(ask(api, json.dumps(obj).encode(), format="json", **parameters))
    except BadDocumentError as error:
        raise UnavailableError(messages.service_cannot_read(error)) from error
    return maps_at(answer, "items")[0]

"""The installation's preview service, by the API server's service proxy: with the rights of the user."""

import json
from http import HTTPStatus
from typing import Final

from kube.api import ApiError, Object
from kube.rest import RestApi, decoded, loaded, with_query
from kubectl_ultraserver.objects import NAME, maps

SERVICE: Final = f"/api/v1/namespaces/{NAME}/services/{NAME}-preview:http/proxy"
_REMEDIES: Final = {
    403: "an administrator can give you the Role of docs/preview.md",
    404: "install the chart with the value preview: true",
    503: f"see kubectl --namespace {NAME} get deployment {NAME}-preview",
}
_REMEDY: Final = f"try kubectl --namespace {NAME} port-forward service/{NAME}-preview 8080:http"


class OffError(ApiError):
    """The service does not answer; the message says why, and what to do."""


class RefusedError(Exception):
    """The service cannot read a document; the message says why, and where."""


def reason(status: int, answer: Object) -> str:
    """Returns why an answer is not the service's, or a refusal of its own, and what to do."""
    if "error" in answer:
        remedy = "an administrator can add the name of the API server to the chart's value previewHosts"
        advice = f"; {remedy}" if status == HTTPStatus.FORBIDDEN else ""
        return f"the preview service refuses ({status}): {answer['error']}{advice}"
    return f"the API server answers {status}: {answer.get('message')}; {_REMEDIES.get(status, _REMEDY)}"


def ready(api: RestApi) -> Object:
    """Returns what the service says of itself: its release, and the revision of its table.

    Raises:
        OffError: It does not answer.
    """
    status, answer = api.call("GET", f"{SERVICE}/readyz")
    if status != HTTPStatus.OK:
        raise OffError(reason(status, answer))
    return answer


def ask(api: RestApi, text: bytes, **how: str) -> bytes:
    """Returns the preview of documents; ``how`` are parameters of the API (docs/preview.md).

    Raises:
        OffError: The service does not answer.
        RefusedError: It cannot read a document.
    """
    query = {name.replace("_", "-"): value for name, value in how.items()}
    path = with_query(f"{SERVICE}/v1/preview", **query)
    status, data = api.fetch("POST", path, text, "application/yaml", None)
    if status == HTTPStatus.OK:
        return data
    _, answer = decoded(status, data)
    if answer.get("code") == "bad-request":
        raise RefusedError(answer["error"])
    raise OffError(reason(status, answer))


def item(api: RestApi, of: Object, **how: str) -> Object:
    """Returns what the service knows of an object: an item of ``webhook/preview/preview.schema.json``.

    Raises:
        OffError: It does not answer, or cannot read the object.
    """
    try:
        answer = loaded(ask(api, json.dumps(of).encode(), format="json", **how))
    except RefusedError as error:
        raise OffError(f"the preview service cannot read it: {error}") from error
    return maps(answer, "items")[0]

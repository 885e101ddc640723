"""Calling a webhook as the API server does: one AdmissionReview over verified TLS."""

import base64
import json
import ssl
import time
import uuid
from collections.abc import Mapping
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import jsonpatch

from webhook.documents import Document
from webhook.endpoints import MUTATE
from webhook.objects.tree import get
from webhook.preview.run import namespace_of, unified
from webhook.preview.terminal import coloured

TIMEOUT = 10.0
"""Seconds; the API server's own default for a webhook."""


class ReviewError(RuntimeError):
    """The webhook could not be asked, or did not answer as one."""


def send_review(document: Document, url: str, ca: Path, namespace: str, wait: float = 0.0) -> str:
    """What a webhook answers to the creation of an object, as text for a terminal.

    Args:
        document: the object.
        url: of the webhook, ``https`` only.
        ca: PEM file of the authority to trust, and no other.
        namespace: for an object that names none.
        wait: seconds to wait for the webhook to be reached.

    Raises:
        ReviewError: if there is no answer, or none that an API server would take.
    """
    body = json.dumps(admission_review(document.value, namespace)).encode()
    deadline = time.monotonic() + wait
    while True:
        try:
            status, answer = _post(url, ca, body)
            break
        except (OSError, HTTPException) as error:
            if time.monotonic() > deadline or isinstance(error, ssl.SSLCertVerificationError):
                raise ReviewError(f"{url}: {error}") from error
            time.sleep(0.05)  # noqa: TID251 - until somebody listens there
    if status != 200:  # noqa: PLR2004
        raise ReviewError(f"{url} answered {status}: {answer.decode(errors='replace')}")
    try:
        return _shown(document, json.loads(answer)["response"])
    except (ValueError, LookupError, TypeError, AttributeError, jsonpatch.JsonPatchException) as error:
        raise ReviewError(f"{url} did not answer with a valid review: {error!r}") from error


def admission_review(obj: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The review that an API server sends when an object is created."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": obj.get("kind")},
            "operation": "CREATE",
            "name": get(obj, ("metadata", "name")) or "",
            "namespace": namespace_of(obj, namespace),
            "userInfo": {"username": "ultraserver-webhook"},
            "object": obj,
            "dryRun": True,
        },
    }


def _post(url: str, ca: Path, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ReviewError(f"the URL must be https, not {url!r}")
    context = ssl.create_default_context(cafile=str(ca))
    connection = HTTPSConnection(parts.hostname, parts.port or 443, timeout=TIMEOUT, context=context)
    try:
        connection.request("POST", parts.path or f"/{MUTATE}", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _shown(document: Document, response: Mapping[str, Any]) -> str:
    operations = json.loads(base64.b64decode(response.get("patch", "") or "W10="))
    after = jsonpatch.apply_patch(document.value, operations)
    lines = [coloured(unified(document.value, after, document.source, "as the webhook answers"))]
    notes = response.get("auditAnnotations", {})
    lines += [f"{click.style(key, bold=True)}: {value}\n" for key, value in sorted(notes.items())]
    lines += [click.style(f"warning: {text}\n", fg="yellow") for text in response.get("warnings", ())]
    if not response["allowed"]:
        lines.append(click.style(f"denied: {response['status']['message']}\n", fg="red"))
    return "".join(lines)

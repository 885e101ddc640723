"""Sends AdmissionReviews, and checks the answers."""

import base64
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonpatch
from werkzeug.test import Client, TestResponse

from certs import development
from webhook.rows.table import Table
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
JSON = "application/json"


def review(obj: Any, **request: Any) -> dict[str, Any]:
    """Returns a review of the creation of an object. Keyword arguments replace fields of the request."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "kubeflow.org", "version": "v2beta1", "kind": "MPIJob"},
            "operation": "CREATE",
            "name": "train",
            "namespace": "default",
            "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


def send(client: Client, body: Any, **options: Any) -> TestResponse:
    """Sends a body to ``/mutate``, as JSON unless it is bytes or text; returns the answer."""
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post("/mutate", **{"data": data, "content_type": JSON, **options})


def response(client: Client, obj: Any, **request: Any) -> dict[str, Any]:
    """Sends a review of the creation of an object; returns the checked ``response`` of the answer."""
    answer = send(client, review(obj, **request))
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return check_answer(answer, request.get("uid", UID))


def check_answer(answer: TestResponse, uid: str = UID) -> dict[str, Any]:
    """Checks that an API server would accept an answer; returns its ``response``."""
    assert answer.mimetype == JSON
    document = json.loads(answer.get_data())
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    admission_response: dict[str, Any] = document["response"]
    assert admission_response["uid"] == uid
    assert isinstance(admission_response["allowed"], bool)
    assert ("patch" in admission_response) == ("patchType" in admission_response)
    if not admission_response["allowed"]:
        assert "patch" not in admission_response
        assert admission_response["status"]["code"] >= 400
        assert admission_response["status"]["message"]
    for warning in admission_response.get("warnings", ()):
        assert 0 < len(warning) <= 256
        assert "\n" not in warning
    assert sum(map(len, admission_response.get("warnings", ()))) <= 4096
    assert all(isinstance(value, str) for value in admission_response.get("auditAnnotations", {}).values())
    return admission_response


def apply_patch(obj: Any, admission_response: dict[str, Any]) -> Any:
    """Returns the object after the patch of a response."""
    if "patch" not in admission_response:
        return obj
    assert admission_response["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(admission_response["patch"], validate=True))
    assert operations
    return jsonpatch.apply_patch(obj, operations)


def current_state(tables: TableSource | None = None) -> CurrentState:
    """Returns the state of a server with a valid certificate. The default is the packaged table."""
    return CurrentState(tables or TableSource(), _tls_files())


@cache
def _tls_files() -> TlsFiles:
    with TemporaryDirectory() as folder:
        development.make(Path(folder), ["localhost"], datetime.now(UTC))
        return TlsFiles(Path(folder, "tls.crt"), Path(folder, "tls.key"))


def state_of(table: Table) -> CurrentState:
    """Returns the state of a server that uses a table."""
    state = current_state()
    state.tables.watched.value = (state.tables.texts(), table)
    return state

"""AdmissionReviews to send, and a look into the answers."""

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
    """Returns the review of the creation of an object; keywords replace fields of the request."""
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


def send(client: Client, body: Any, **more: Any) -> TestResponse:
    """Returns the answer to a body: bytes and text as they are, anything else as JSON."""
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post("/mutate", **{"data": data, "content_type": JSON, **more})


def response(client: Client, obj: Any, **request: Any) -> dict[str, Any]:
    """Returns the ``response`` of the answer to the creation of an object, checked for its form."""
    answer = send(client, review(obj, **request))
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return well_formed(answer, request.get("uid", UID))


def well_formed(answer: TestResponse, uid: str = UID) -> dict[str, Any]:
    """Returns the ``response`` of an answer that an API server would take."""
    assert answer.mimetype == JSON
    document = json.loads(answer.get_data())
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    inner: dict[str, Any] = document["response"]
    assert inner["uid"] == uid
    assert isinstance(inner["allowed"], bool)
    assert ("patch" in inner) == ("patchType" in inner)
    if not inner["allowed"]:
        assert "patch" not in inner
        assert inner["status"]["code"] >= 400
        assert inner["status"]["message"]
    for warning in inner.get("warnings", ()):
        assert 0 < len(warning) <= 256
        assert "\n" not in warning
    assert sum(map(len, inner.get("warnings", ()))) <= 4096
    assert all(isinstance(value, str) for value in inner.get("auditAnnotations", {}).values())
    return inner


def patched(obj: Any, inner: dict[str, Any]) -> Any:
    """Returns the object with the patch of a response applied."""
    if "patch" not in inner:
        return obj
    assert inner["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(inner["patch"], validate=True))
    assert operations
    return jsonpatch.apply_patch(obj, operations)


def current_state(tables: TableSource | None = None) -> CurrentState:
    """Returns the state of a server: a table, the packaged one if none is given, and a good certificate."""
    return CurrentState(tables or TableSource(), _tls_files())


@cache
def _tls_files() -> TlsFiles:
    with TemporaryDirectory() as folder:
        development.make(Path(folder), ["localhost"], datetime.now(UTC))
        return TlsFiles(Path(folder, "tls.crt"), Path(folder, "tls.key"))


def state_of(table: Table) -> CurrentState:
    """Returns the state of a server that has a table in use."""
    state = current_state()
    state.tables.watched.value = (state.tables.texts(), table)
    return state

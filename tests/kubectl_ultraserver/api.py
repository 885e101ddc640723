"""An API server in memory, with the preview service of an installation behind its service proxy."""

import json
from dataclasses import dataclass, field
from typing import Any

from werkzeug.test import Client

from kube.api import Object
from kube.rest import decode
from kubectl_ultraserver.listing import RULES_PATH
from kubectl_ultraserver.service import SERVICE_PATH
from tests.helpers import FixedTableSource
from tests.kube.fake import FakeApi
from webhook.app import create_app
from webhook.preview.views import preview_blueprint
from webhook.rows.table import Table
from webhook.rules.load import load_texts

MISSING = 'services "ultraserver-webhook-preview" not found'


def table_of(rules: Object) -> Table:
    """Returns the rule table of a ConfigMap."""
    return load_texts(sorted(rules["data"].items()), "rules")


@dataclass
class Cluster(FakeApi):
    """An API server in memory. If `service_error` is set, the service proxy answers 404 with this message."""

    service_error: str = ""
    dry_runs: list[tuple[str, ...]] = field(default_factory=list)

    def fetch(self, verb: str, path: str, body: object, content_type: str, max_bytes: int | None) -> Any:
        """Answers as the preview service does, with the stored rule table (see `kube.rest.RestApi.fetch`)."""
        assert max_bytes is None
        self.paths.append(path)
        if self.service_error or RULES_PATH not in self.objects:
            return 404, json.dumps(
                {"kind": "Status", "code": 404, "message": self.service_error or MISSING}
            ).encode()
        assert path.startswith(SERVICE_PATH), path
        table = table_of(self.objects[RULES_PATH])
        client = Client(create_app(preview_blueprint(FixedTableSource(table))))
        answer = client.open(
            path.removeprefix(SERVICE_PATH), method=verb, data=body, content_type=content_type
        )
        return answer.status_code, answer.data

    def call(self, verb: str, path: str) -> tuple[int, Object]:
        """Returns the decoded answer of `fetch`."""
        return decode(*self.fetch(verb, path, None, "", None))

    def dry_run(self, source: str, data: bytes, *options: str) -> int:
        """Records a dry run, and returns kubectl's exit code: 1 if the text contains ``refused``."""
        self.dry_runs.append((source, *options))
        return int(b"refused" in data)

    def create_as_dry_run(self, path: str, obj: Object) -> tuple[int, Object]:
        """Accepts an object, unless an object with its name exists."""
        self.paths.append(path)
        name = obj["metadata"].get("name")
        if f"{path}/{name}" in self.objects:
            return 409, {"kind": "Status", "message": f'{path.rpartition("/")[2]} "{name}" already exists'}
        return 201, obj

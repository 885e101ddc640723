"""A check of the files in examples/ by a server-side dry run of kubectl."""

import json

import yaml

from contract.keys import ADDED
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import REPOSITORY


def assert_changed(inside: Kubectl, *names: str) -> None:
    """Asserts by a strict dry run that the webhook changes every object, and the API server accepts it."""
    for name in names:
        path = REPOSITORY / "examples" / f"{name}.yaml"
        output = inside.run("create", "--dry-run=server", "--validate=strict", "-o", "yaml", "-f", str(path))
        for document in yaml.safe_load_all(output.stdout):
            assert ADDED in json.dumps(document), f"{name}: {document['metadata']['name']}"

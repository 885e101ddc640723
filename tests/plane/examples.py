"""The files of examples/, created as a person would."""

import json

import yaml

from contract.keys import ADDED
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import REPOSITORY


def assert_changed(inside: Kubectl, *names: str) -> None:
    """Creates files by a strict dry run: the API server accepts all fields, the webhook changes all files."""
    for name in names:
        path = REPOSITORY / "examples" / f"{name}.yaml"
        output = inside.run("create", "--dry-run=server", "--validate=strict", "-o", "yaml", "-f", str(path))
        for each in yaml.safe_load_all(output.stdout):
            assert ADDED in json.dumps(each), f"{name}: {each['metadata']['name']}"

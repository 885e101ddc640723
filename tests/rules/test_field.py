"""Jobs as people apply them: each file of tests/data/field, with what has to come of it.

A row of `FILES` says of a file what is at some paths afterwards, and how its warnings begin.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.rules.tables import outcome, parsed
from webhook.objects.paths import object_path
from webhook.rules.load import load_default

FIELD = Path(__file__).parents[1] / "data" / "field"
TABLE = load_default()
TYPE = "node.kubernetes.io/instance-type"
OUTPUT = "/root/ultraserver_init"
HOSTFILE = f"{OUTPUT}/new_hostfile"
UNIT = "neuron.amazonaws.com/ultraserver-server-id-4"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPEC = "/spec/mpiReplicaSpecs/Launcher/template/spec"
WAIT, INIT = (
    f"{SPEC}/initContainers[name={name}]" for name in ("wait-hostfilename", "ultraserver-init-container")
)

FILES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "01-mesh-first-container": (
        {
            "/spec/containers[name=istio-proxy]": {
                "name": "istio-proxy",
                "image": "docker.io/istio/proxyv2:1.24.0",
            },
            "/spec/containers[name=mpitest]/env[name=OMPI_MCA_orte_default_hostfile]/value": HOSTFILE,
            "/spec/containers[name=mpitest]/volumeMounts[name=ultraserver-init]/mountPath": OUTPUT,
        },
        [],
    ),
    "03-pull-policy": (
        {f"{WAIT}/imagePullPolicy": "IfNotPresent", f"{INIT}/imagePullPolicy": "IfNotPresent"},
        [],
    ),
    "04-ssh-port-of-mpirun": (
        {f"{each}/env[name=OMPI_MCA_plm_rsh_args]/value": "-p 2222" for each in (WAIT, INIT)},
        [],
    ),
    "08-beta-instance-type": (
        {
            "/spec/pytorchReplicaSpecs/Worker/template/spec/nodeSelector": {
                "beta.kubernetes.io/instance-type": "ml.trn2u.48xlarge",
                TYPE: "ml.trn2u.48xlarge",
            }
        },
        [],
    ),
    "13-wait-after-init": (
        {f"{INIT}/image": "example.invalid/ultraserver:init-container", f"{WAIT}/image": "example.invalid/t"},
        ["kept yours: "],
    ),
}


def field_file(name: str) -> Any:
    return parsed((FIELD / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_what_is_expected(name: str) -> None:
    expected, warnings = FILES[name]
    result = outcome(TABLE, field_file(name))
    assert not result.denials
    assert {path: object_path(path).value(result.after) for path in expected} == expected
    assert [text[: len(begins)] for text, begins in zip(result.warnings, warnings, strict=True)] == warnings

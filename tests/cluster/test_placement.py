"""What a plain job becomes: the document's terms and the hardening rows, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster import jobs
from tests.cluster.jobs import template, without_record
from tests.cluster.webhook import REPOSITORY
from tests.helpers import IMAGE, mpijob
from webhook import initscript
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.webhook import RunningWebhook
    from webhook.engine.tree import Json

# workers -> the row of placed.yaml, node config
SHAPES = {
    1: ("alone", 1),
    2: ("pair", 2),
    3: ("alone", 1),
    4: ("ultraserver", 4),
    6: ("pairs", 2),
    8: ("ultraservers", 4),
    16: ("ultraservers", 4),
}
PLAIN = {workers: mpijob(workers, name=f"plain-{workers}") for workers in SHAPES}


@pytest.fixture(scope="module")
def plain(registered_webhook: RunningWebhook, control_plane: ControlPlane) -> Iterator[Kubectl]:
    """A namespace in which a plain job of every shape was applied."""
    assert registered_webhook.url
    with jobs.borrowed_namespace(control_plane, "plain-jobs") as inside:
        inside.apply(jobs.together(*PLAIN.values()))
        yield inside


@pytest.fixture(scope="module")
def stored(plain: Kubectl) -> dict[str, Any]:
    return {job["metadata"]["name"]: job for job in plain.get_json("mpijobs")["items"]}


def placed(role: str, row: str = "", **values: str) -> Json:
    found = yaml.safe_load((jobs.DATA / "placed.yaml").read_text(encoding="utf-8"))[role]
    scripts = {f"script.{stage}": initscript.text(stage) for stage in initscript.STAGES}
    return jobs.filled(found[row] if row else found, values | scripts | {"image": IMAGE})


@pytest.mark.parametrize("workers", SHAPES)
def test_workers_get_exactly_the_terms_of_their_shape(
    workers: int, plain: Kubectl, stored: dict[str, Any]
) -> None:
    found = without_record(template(stored[f"plain-{workers}"], "Worker"))
    assert found == placed(
        "workers", SHAPES[workers][0], name=f"plain-{workers}", namespace=str(plain.namespace)
    )


@pytest.mark.parametrize("workers", SHAPES)
def test_the_launcher_gets_exactly_two_init_containers_and_their_volume(
    workers: int, stored: dict[str, Any]
) -> None:
    found = without_record(template(stored[f"plain-{workers}"], "Launcher"))
    assert found == placed("launcher", workers=str(workers), nodeConfig=str(SHAPES[workers][1]))


@pytest.mark.parametrize("workers", SHAPES)
def test_nothing_outside_the_pod_templates_is_changed(workers: int, stored: dict[str, Any]) -> None:
    job = stored[f"plain-{workers}"]
    assert set(job["metadata"]["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    assert "labels" not in job["metadata"]
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert {role: part["replicas"] for role, part in replicas.items()} == {"Launcher": 1, "Worker": workers}
    # What the author wrote, and the defaults of the CRD.
    assert {key: value for key, value in job["spec"].items() if key != "mpiReplicaSpecs"} == {
        "slotsPerWorker": 1,
        "launcherCreationPolicy": "AtStartup",
        "mpiImplementation": "OpenMPI",
        "runLauncherAsWorker": False,
        "sshAuthMountPath": "/root/.ssh",
    }


def test_the_preview_says_what_the_cluster_does(plain: Kubectl, stored: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "webhook", "preview", "-n", str(plain.namespace), "-o", "yaml"]
    text = json.dumps(jobs.together(*PLAIN.values()))
    done = subprocess.run(command, cwd=REPOSITORY, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    shown = {job["metadata"]["name"]: job for job in yaml.safe_load_all(done.stdout)}
    assert shown.keys() == stored.keys()
    for name, job in shown.items():
        for role in ("Launcher", "Worker"):
            assert template(job, role) == template(stored[name], role)


def test_a_node_config_that_the_author_chose_is_the_one_they_get(plain: Kubectl) -> None:
    chosen = {config: mpijob(4, annotations={keys.NODE_CONFIG: config}) for config in ("1", "2", "4")}
    rows = {"1": "alone", "2": "pairs", "4": "ultraserver"}
    for config, job in chosen.items():
        found = plain.apply(job, "--dry-run=server")
        assert without_record(template(found, "Worker")) == placed(
            "workers", rows[config], name="train", namespace=str(plain.namespace)
        )
        assert without_record(template(found, "Launcher")) == placed(
            "launcher", workers="4", nodeConfig=config
        )

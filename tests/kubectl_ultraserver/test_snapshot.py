"""Tests of ``snapshot``: it has all inputs of a decision for a replay, and no private fields of objects."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kube.api import Object
from kubectl_ultraserver import __main__ as cli
from placement.__main__ import main as placement
from tests.kubectl_ultraserver.api import Cluster
from tests.kubectl_ultraserver.build import run_plugin
from tests.placement.stored import path_of, store_job, store_nodes, worker
from tests.placement.world import NOW

PRIVATE = "private"
"""A text in all fields that a snapshot must not have."""


def add_private_fields(pod: Object) -> Object:
    """Adds fields to a pod that a snapshot must not have, and returns the pod."""
    secret = {"name": PRIVATE, "key": PRIVATE}
    pod["metadata"]["annotations"] |= {"example.com/note": PRIVATE}
    pod["metadata"]["labels"] |= {"example.com/owner": PRIVATE}
    pod["metadata"]["managedFields"] = [{"manager": PRIVATE}]
    pod["spec"]["containers"][0] |= {
        "image": PRIVATE,
        "command": [PRIVATE],
        "args": [PRIVATE],
        "env": [{"name": PRIVATE, "value": PRIVATE}, {"name": "A", "valueFrom": {"secretKeyRef": secret}}],
        "envFrom": [{"secretRef": {"name": PRIVATE}}],
    }
    pod["spec"] |= {
        "serviceAccountName": PRIVATE,
        "imagePullSecrets": [{"name": PRIVATE}],
        "volumes": [{"name": PRIVATE, "secret": {"secretName": PRIVATE}}],
    }
    pod["status"]["message"] = PRIVATE
    return pod


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns a cluster with two UltraServers and three jobs. Two jobs fit. One worker has ended."""
    cluster = Cluster()
    store_nodes(cluster, 2)
    for path in [*cluster.objects]:
        cluster.objects[path]["metadata"]["labels"]["example.com/room"] = PRIVATE
        cluster.objects[path]["status"]["addresses"] = [{"address": PRIVATE}]
    cluster.put("/apis", {"groups": []})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (cluster, "team"))
    monkeypatch.setattr("kubectl_ultraserver.listing.datetime", SimpleNamespace(now=lambda _: NOW))
    for name, workers in (("train", 4), ("eval", 8)):
        store_job(cluster, name, workers)
    for number in range(4):
        pod = worker("rest", number, 4, "other")
        pod["metadata"]["creationTimestamp"] = "2026-11-21T11:50:00Z"
        cluster.put(path_of(pod), pod)
    cluster.objects["/api/v1/namespaces/other/pods/rest-worker-0"]["status"] = {"phase": "Succeeded"}
    for path, pod in cluster.objects.items():
        if "/pods/" in path:
            add_private_fields(pod)
    return cluster


def replay(text: str, folder: Path) -> Any:
    (folder / "snapshot.json").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(placement, ["replay", str(folder / "snapshot.json"), "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_replay_decides_as_the_queue_shows(api: Cluster, tmp_path: Path) -> None:
    jobs = json.loads(run_plugin("queue", "-o", "json")[1])["jobs"]
    code, out, err = run_plugin("snapshot")
    assert (code, err) == (0, "")
    result = replay(out, tmp_path)
    assert [(job["job"], "fits") for job in result["admit"]] + [
        (job["job"], job["reason"]) for job in result["wait"]
    ] == [(job["job"], job["reason"]) for job in jobs]
    assert [job["reason"] for job in jobs] == ["fits", "fits", "units"]
    hidden = replay(run_plugin("snapshot", "--hide-names")[1], tmp_path)
    assert [len(hidden[verdict]) for verdict in ("admit", "wait")] == [2, 1]
    assert not any("secrets" in path for path in api.paths)


def test_a_snapshot_has_no_private_fields_and_no_names_if_names_are_hidden(api: Cluster) -> None:
    assert api.objects
    _, with_names, _ = run_plugin("snapshot")
    _, without_names, _ = run_plugin("snapshot", "--hide-names")
    assert PRIVATE not in with_names
    for name in ("train", "eval", "rest", "team", "other", "n1-0", "us-01", "us-02-a"):
        assert name in with_names
        assert f'"{name}' not in without_names


def test_without_the_right_to_list_all_pods_a_snapshot_has_the_pods_of_one_namespace(
    api: Cluster, tmp_path: Path
) -> None:
    api.refuse = "GET /api/v1/pods?"
    code, out, err = run_plugin("snapshot")
    assert code == 0
    assert "note: pods of other namespaces were not examined: cannot list pods" in err
    assert {pod["namespace"] for pod in json.loads(out)["pods"]} == {"team"}
    assert json.loads(out)["complete"] is False
    assert len(replay(out, tmp_path)["wait"]) == 1

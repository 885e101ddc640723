"""The command that prints what a decision sees: nothing else of the objects, and all that replaying takes."""

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
from tests.kubectl_ultraserver.build import run
from tests.placement.stored import path_of, store_job, store_nodes, worker
from tests.placement.world import NOW

PRIVATE = "private"
"""A part of all that a snapshot must not have."""


def with_secrets(pod: Object) -> Object:
    """Returns a pod with everything in it that is no one's business."""
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
    """Two UltraServers and three jobs, of which two have room; one worker of another has ended."""
    made = Cluster()
    store_nodes(made, 2)
    for path in [*made.objects]:
        made.objects[path]["metadata"]["labels"]["example.com/room"] = PRIVATE
        made.objects[path]["status"]["addresses"] = [{"address": PRIVATE}]
    made.put("/apis", {"groups": []})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (made, "team"))
    monkeypatch.setattr("kubectl_ultraserver.listing.datetime", SimpleNamespace(now=lambda _: NOW))
    for name, workers in (("train", 4), ("eval", 8)):
        store_job(made, name, workers)
    for number in range(4):
        pod = worker("rest", number, 4, "other")
        pod["metadata"]["creationTimestamp"] = "2026-11-21T11:50:00Z"
        made.put(path_of(pod), pod)
    made.objects["/api/v1/namespaces/other/pods/rest-worker-0"]["status"] = {"phase": "Succeeded"}
    for path, pod in made.objects.items():
        if "/pods/" in path:
            with_secrets(pod)
    return made


def replayed(text: str, folder: Path) -> Any:
    (folder / "snapshot.json").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(placement, ["replay", str(folder / "snapshot.json"), "-o", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_replay_decides_as_the_queue_shows(api: Cluster, tmp_path: Path) -> None:
    jobs = json.loads(run("queue", "-o", "json")[1])["jobs"]
    code, out, err = run("snapshot")
    assert (code, err) == (0, "")
    result = replayed(out, tmp_path)
    assert [(each["job"], "fits") for each in result["admit"]] + [
        (each["job"], each["reason"]) for each in result["wait"]
    ] == [(job["job"], job["reason"]) for job in jobs]
    assert [job["reason"] for job in jobs] == ["fits", "fits", "units"]
    hidden = replayed(run("snapshot", "--hide-names")[1], tmp_path)
    assert [len(hidden[what]) for what in ("admit", "wait")] == [2, 1]
    assert not any("secrets" in path for path in api.paths)


def test_nothing_private_is_in_a_snapshot_and_no_name_if_they_are_hidden(api: Cluster) -> None:
    assert api.objects
    _, shown, _ = run("snapshot")
    _, hidden, _ = run("snapshot", "--hide-names")
    assert PRIVATE not in shown
    for name in ("train", "eval", "rest", "team", "other", "n1-0", "us-01", "us-02-a"):
        assert name in shown
        assert f'"{name}' not in hidden


def test_without_the_right_to_list_all_pods_a_snapshot_has_those_of_one_namespace(
    api: Cluster, tmp_path: Path
) -> None:
    api.refuse = "GET /api/v1/pods?"
    code, out, err = run("snapshot")
    assert code == 0
    assert "note: pods of other namespaces were not examined: cannot list pods" in err
    assert {pod["namespace"] for pod in json.loads(out)["pods"]} == {"team"}
    assert json.loads(out)["complete"] is False
    assert len(replayed(out, tmp_path)["wait"]) == 1

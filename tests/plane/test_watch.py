"""Tests that a mirror follows the objects of a real API server, through a restart of the API server."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.client import connect
from kube.watch import Mirror
from testbed.plane.controlplane import ControlPlane
from testbed.waiting import PATIENCE, until

PATH = "/api/v1/namespaces/default/configmaps"


class ApiServerOnly(ControlPlane):
    """etcd and an API server that can be stopped and started again on its port."""

    def _define_jobs(self) -> None: ...

    def _start_controllers(self) -> None: ...

    def _start_operator(self) -> None: ...

    @contextlib.contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Stops the API server, and starts it again after the block."""
        (server,) = [program for program in self.programs.running if program.name == "kube-apiserver"]
        self.programs.stop(server)
        yield
        self._start_api_server()


@pytest.fixture(scope="module")
def plane(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerOnly]:
    with ApiServerOnly(tmp_path_factory.mktemp("api-server"), tools) as running:
        yield running


def config_map(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"of": "the-test"}}, "data": {"value": value}}


def mirror(plane: ApiServerOnly, changed: threading.Event | None = None) -> Mirror[str]:
    path = f"{PATH}?labelSelector=of%3Dthe-test"
    on_change = changed.set if changed else lambda: None
    api = connect(plane.kubeconfig)
    return Mirror(api, path, lambda raw: raw["data"]["value"], on_change)


@pytest.mark.limit(40, "an API server starts again")
def test_a_mirror_follows_created_changed_and_deleted_objects_through_a_restart(plane: ApiServerOnly) -> None:
    api, changed = connect(plane.kubeconfig), threading.Event()
    api.create(PATH, config_map("first", "1"))
    with mirror(plane, changed) as mirrored:
        assert mirrored.wait(PATIENCE)
        assert mirrored.items() == {("default", "first"): "1"}
        changed.clear()
        api.create(PATH, config_map("second", "1"))
        assert changed.wait(PATIENCE)
        third = api.create(PATH, config_map("third", "1"))
        api.replace(f"{PATH}/third", {**third, "data": {"value": "2"}})
        api.delete(f"{PATH}/first")
        until(
            lambda: mirrored.items() == {("default", "second"): "1", ("default", "third"): "2"},
            "three changes in the mirror",
        )
        with plane.without_api_server():
            until(lambda: mirrored.stale_reason, "the mirror to be stale")
            assert len(mirrored.items()) == 2
        connect(plane.kubeconfig).delete(f"{PATH}/second")
        until(
            lambda: mirrored.items() == {("default", "third"): "2"},
            "a change after the restart in the mirror",
        )
        assert mirrored.stale_reason == ""
    connect(plane.kubeconfig).delete(f"{PATH}/third")

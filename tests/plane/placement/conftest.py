"""One control plane for the tests of this folder, with a few UltraServers and the rows of the component."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.experiment.stage import Stage, staged
from testbed.plane.controlplane import ControlPlane

ULTRASERVERS = 6


class BreakablePlane(ControlPlane):
    """A control plane of which parts can be stopped and started again."""

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Yields the API server, or what schedules, is down."""
        self._end(name)
        try:
            yield
        finally:
            if name == "kube-apiserver":
                self._start_api_server()
            self._end("kube-controller-manager")
            self._end("kube-scheduler")
            self._start_controllers()

    def _end(self, name: str) -> None:
        for program in self.programs.running:
            if program.name == name:
                self.programs.stop(program)


@pytest.fixture(scope="package")
def whole_stage(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage; `stage` clears it after each test."""
    assert tools
    with staged(
        tmp_path_factory.mktemp("placement"), ultraservers=ULTRASERVERS, plane=BreakablePlane
    ) as made:
        yield made


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """The stage with nothing on it, and no program yet."""
    yield whole_stage
    for program in list(whole_stage.plane.programs.running):
        if program.name.startswith("placement"):
            whole_stage.plane.programs.stop(program)
    whole_stage.clear()

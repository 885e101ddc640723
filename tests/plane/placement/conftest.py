"""Fixtures: a control plane with six UltraServers and the rows of whole-job admission."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.experiment.stage import Stage, staged
from testbed.plane.controlplane import ControlPlane

ULTRASERVERS = 6


class BreakablePlane(ControlPlane):
    """A control plane whose programs can be stopped and started again."""

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Stops the API server or the scheduler, and starts the stopped programs again at the end."""
        self._stop_program(name)
        try:
            yield
        finally:
            if name == "kube-apiserver":
                self._start_api_server()
            self._stop_program("kube-controller-manager")
            self._stop_program("kube-scheduler")
            self._start_controllers()

    def _stop_program(self, name: str) -> None:
        for program in self.programs.running:
            if program.name == name:
                self.programs.stop(program)


@pytest.fixture(scope="package")
def package_stage(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage of all tests. The fixture `stage` clears it after each test."""
    assert tools
    with staged(
        tmp_path_factory.mktemp("placement"), ultraservers=ULTRASERVERS, plane=BreakablePlane
    ) as new_stage:
        yield new_stage


@pytest.fixture
def stage(package_stage: Stage) -> Iterator[Stage]:
    """The stage without jobs and sick nodes, on which no placement program runs yet."""
    yield package_stage
    for program in list(package_stage.plane.programs.running):
        if program.name.startswith("placement"):
            package_stage.plane.programs.stop(program)
    package_stage.clear()

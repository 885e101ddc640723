"""One control plane of which half the UltraServers have the device plugin and half the Neuron DRA driver.

MPIJobs, JobSets and LeaderWorkerSets have their real controllers; the program runs all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from contract.keys import NEURON
from testbed.experiment.stage import OF_AWS, TEAMS, Stage, staged
from testbed.plane import nodes
from testbed.plane.controllers import Controllers
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import end
from testbed.plane.kubectl import Object
from testbed.plane.process import Program

ULTRASERVERS = 24
MAKERS = ("leaderworkersets", "jobsets")


class ClaimsPlane(ControlPlane):
    """A control plane with two more kinds of job."""

    def _define_jobs(self) -> None:
        super()._define_jobs()
        self._others = Controllers(self, "jobset", "lws")
        self._others.define()

    def _start_operator(self) -> None:
        super()._start_operator()
        self._others.start()


class Fleet(NamedTuple):
    """The plane, as jobs of each sort see it.

    Attributes:
        plugin: Eleven UltraServers with the device plugin. On the last a DeviceClass serves what the plugin
            offers on the others.
        driver: Twelve with the Neuron DRA driver, for jobs that claim nodes.
        served: The id of the UltraServer with that class.
        both: The id of one with plugin and driver, all of whose nodes are cordoned.
        program: Whole-job admission.
    """

    plugin: Stage
    driver: Stage
    served: str
    both: str
    program: Program


@pytest.fixture(scope="package")
def whole_fleet(
    tools: Path, controller_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """The fleet; `fleet` clears it after each test."""
    assert tools
    assert controller_tools is None
    made = nodes.ultraserver_nodes(ULTRASERVERS)
    plugin, served, both, driver = made[:40], made[40:44], made[44:48], made[48:]
    for node in both:
        node["spec"] = {"unschedulable": True}
    everything = [*plugin, *nodes.driven(served, nodes.DEVICE), *nodes.driven(both, plugin=True)]
    folder = tmp_path_factory.mktemp("claims")
    with staged(folder, "claims", everything + nodes.driven(driver), plane=ClaimsPlane) as stage:
        stage.plane.kubectl.create(nodes.device_class(NEURON))
        stage.plane.kubectl.in_namespace(TEAMS[0]).create(nodes.claim_template(4, OF_AWS))

        def part(*found: Object, claims: bool) -> Stage:
            labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in found}
            return replace(stage, labels=labels, claims=claims, jobs={}, sick=set())

        halves = part(*plugin, *served, claims=False), part(*driver, claims=True)
        first, second = (of[0]["metadata"]["labels"][nodes.SERVER_ID_4] for of in (served, both))
        yield Fleet(*halves, first, second, stage.start_program(interval_seconds=1))


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with nothing on it."""
    yield whole_fleet
    for stage in whole_fleet[:2]:
        for key in list(stage.jobs):
            stage.finish(key)
    for team in TEAMS:
        inside = whole_fleet.driver.plane.kubectl.in_namespace(team)
        inside.delete(",".join(MAKERS))
        for kind in MAKERS:
            inside.wait_for(lambda found: not found["items"], kind)
        end(inside, "pods")
    for stage in whole_fleet[:2]:
        stage.clear()

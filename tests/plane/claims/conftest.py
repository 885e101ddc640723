"""One control plane of which half the UltraServers have the device plugin and half the Neuron DRA driver.

MPIJobs, JobSets and LeaderWorkerSets have their real controllers; the program runs all the time.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from contract.keys import NEURON
from testbed.experiment.stage import TEAMS, Stage, staged
from testbed.plane import nodes
from testbed.plane.controllers import Controllers
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import end
from testbed.plane.process import Program

ULTRASERVERS, HALF, LAST, BOTH = 24, 48, 44, 40
"""How many, and from which node on they have the driver, of which it publishes each device before, and
which it shares before that with the device plugin."""

OF_AWS = "efa-neurons-4-devices"
"""The name of a claim template in AWS's document, which leaves to a cluster what it says: here, a node."""


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
        plugin: Eleven UltraServers with the device plugin; on one a DeviceClass serves what it would offer.
        driver: Twelve with the Neuron DRA driver, for jobs that claim nodes.
        served: The id of the UltraServer with that class.
        both: The nodes of one with plugin and driver, which are cordoned.
        program: Whole-job admission.
    """

    plugin: Stage
    driver: Stage
    served: str
    both: list[str]
    program: Program


@pytest.fixture(scope="package")
def whole_fleet(
    tools: Path, controller_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """The fleet; `fleet` clears it after each test."""
    assert tools
    assert controller_tools is None
    made = nodes.ultraserver_nodes(ULTRASERVERS)
    names = {node["metadata"]["name"]: node["metadata"]["labels"] for node in made}
    plugin, driver = dict(list(names.items())[:HALF]), dict(list(names.items())[HALF:])
    served, both = list(plugin.values())[LAST][nodes.SERVER_ID_4], list(plugin)[BOTH:LAST]
    plugin = {name: labels for name, labels in plugin.items() if name not in both}
    shared = nodes.with_driver(made[BOTH:LAST], plugin=True)
    made = (
        made[:BOTH]
        + shared
        + nodes.with_driver(made[LAST:HALF], nodes.DEVICE)
        + nodes.with_driver(made[HALF:])
    )
    folder = tmp_path_factory.mktemp("claims")
    with staged(folder, "claims", made, plane=ClaimsPlane) as stage:
        stage.plane.kubectl.create(nodes.device_class(NEURON))
        stage.plane.kubectl.in_namespace(TEAMS[0]).create(nodes.claim_template(4, OF_AWS, with_mode=False))
        evil = stage.plane.kubectl.create_namespace("claims-evil")
        evil.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor")
        evil.run("create", "role", "jobs", "--verb=*", "--resource=mpijobs.kubeflow.org")
        evil.run("create", "rolebinding", "jobs", "--role=jobs", "--user=editor")
        first = replace(stage, labels=plugin, claims=False)
        other = replace(stage, labels=driver, jobs={}, sick=set())
        stage.plane.kubectl.run("cordon", *both)
        yield Fleet(first, other, served, both, stage.start_program(interval_seconds=1))


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with nothing on it."""
    yield whole_fleet
    for stage in whole_fleet[:2]:
        for key in list(stage.jobs):
            stage.finish(key)
    for team in TEAMS:
        inside = whole_fleet.driver.plane.kubectl.in_namespace(team)
        for kind in ("leaderworkersets", "jobsets", "statefulsets", "jobs", "pods"):
            end(inside, kind)
    for stage in whole_fleet[:2]:
        stage.clear()

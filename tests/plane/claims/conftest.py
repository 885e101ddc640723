"""A control plane: half of the UltraServers have the device plugin, and half have the Neuron DRA driver.

The real controllers of MPIJobs, JobSets and LeaderWorkerSets run, and so does the placement program.
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
from testbed.plane.jobs import delete_all
from testbed.plane.process import Program

ULTRASERVERS = 24
SHARED_BEGIN, DEVICES_BEGIN, DRIVER_BEGIN = 40, 44, 48
"""Numbers of nodes: the first node with plugin and driver, the first node whose driver publishes single
devices, and the first node whose driver publishes the whole node. Nodes below 40 have only the plugin."""

AWS_TEMPLATE = "efa-neurons-4-devices"
"""The name of a claim template that AWS's document uses but does not define. Here, it claims a whole node."""


class ClaimsPlane(ControlPlane):
    """A control plane that also has the controllers of JobSets and LeaderWorkerSets."""

    def _define_jobs(self) -> None:
        super()._define_jobs()
        self._controllers = Controllers(self, "jobset", "lws")
        self._controllers.define()

    def _start_operator(self) -> None:
        super()._start_operator()
        self._controllers.start()


class Fleet(NamedTuple):
    """The control plane, with a stage for jobs that request devices and a stage for jobs that claim nodes.

    Attributes:
        plugin: Eleven UltraServers for jobs that request devices. Ten have the device plugin. On the last,
            a DeviceClass serves these requests with devices of the driver.
        driver: Twelve UltraServers with the Neuron DRA driver, for jobs that claim nodes.
        class_server: The id of the UltraServer that only the DeviceClass serves.
        shared_nodes: The nodes of an UltraServer with plugin and driver. They are cordoned.
        program: The placement program.
    """

    plugin: Stage
    driver: Stage
    class_server: str
    shared_nodes: list[str]
    program: Program


@pytest.fixture(scope="package")
def whole_fleet(
    tools: Path, controller_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """The fleet for all tests. The fixture `fleet` clears it after each test."""
    assert tools
    assert controller_tools is None
    servers = nodes.ultraserver_nodes(ULTRASERVERS)
    labels_of = {node["metadata"]["name"]: node["metadata"]["labels"] for node in servers}
    plugin_labels = dict(list(labels_of.items())[:DRIVER_BEGIN])
    driver_labels = dict(list(labels_of.items())[DRIVER_BEGIN:])
    class_server = list(plugin_labels.values())[DEVICES_BEGIN][nodes.SERVER_ID_4]
    shared_nodes = list(plugin_labels)[SHARED_BEGIN:DEVICES_BEGIN]
    plugin_labels = {name: labels for name, labels in plugin_labels.items() if name not in shared_nodes}
    objects = (
        servers[:SHARED_BEGIN]
        + nodes.with_driver(servers[SHARED_BEGIN:DEVICES_BEGIN], plugin=True)
        + nodes.with_driver(servers[DEVICES_BEGIN:DRIVER_BEGIN], nodes.DEVICE)
        + nodes.with_driver(servers[DRIVER_BEGIN:])
    )
    folder = tmp_path_factory.mktemp("claims")
    with staged(folder, "claims", objects, plane=ClaimsPlane) as stage:
        stage.plane.kubectl.create(nodes.device_class(NEURON))
        stage.plane.kubectl.in_namespace(TEAMS[0]).create(
            nodes.claim_template(4, AWS_TEMPLATE, with_mode=False)
        )
        evil = stage.plane.kubectl.create_namespace("claims-evil")
        evil.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor")
        evil.run("create", "role", "jobs", "--verb=*", "--resource=mpijobs.kubeflow.org")
        evil.run("create", "rolebinding", "jobs", "--role=jobs", "--user=editor")
        plugin = replace(stage, labels=plugin_labels, claims=False)
        driver = replace(stage, labels=driver_labels, jobs={}, sick=set())
        stage.plane.kubectl.run("cordon", *shared_nodes)
        program = stage.start_program(interval_seconds=1)
        yield Fleet(plugin, driver, class_server, shared_nodes, program)


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """The fleet without jobs. The jobs of a test are deleted after the test."""
    yield whole_fleet
    for stage in whole_fleet[:2]:
        for key in list(stage.jobs):
            stage.finish(key)
    for team in TEAMS:
        inside = whole_fleet.driver.plane.kubectl.in_namespace(team)
        for kind in ("leaderworkersets", "jobsets", "statefulsets", "jobs", "pods"):
            delete_all(inside, kind)
    for stage in whole_fleet[:2]:
        stage.clear()

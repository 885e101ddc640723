"""Tests of ``kubectl ultraserver preview --fit`` for jobs that claim their nodes."""

from collections.abc import Iterator

import pytest

from contract.keys import SERVER_4
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import TEAMS
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.placement import NAMESPACE
from testbed.plane.plugin import eventually, run_preview
from testbed.plane.previews import run_preview_service, wait_until_served
from tests.plane.bound import wait_count
from tests.plane.claims.conftest import Fleet
from tests.plane.claims.pods import GROUP_INDEX, units, vllm_set


@pytest.fixture(scope="module")
def preview_service(whole_fleet: Fleet, passed_on: None) -> Iterator[None]:
    """Runs the preview service of the installation."""
    assert passed_on is None
    stage = whole_fleet.driver
    with run_preview_service(stage.plane, NAMESPACE, stage.rules) as inside:
        wait_until_served(inside)
        yield


pytestmark = pytest.mark.usefixtures("preview_service")


def test_a_job_with_claims_gets_the_previewed_units_and_waits_for_a_missing_template(fleet: Fleet) -> None:
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    fleet.plugin.apply("plain", 4)
    fleet.plugin.wait(all_whole)
    with_template = mpijob(8, name="c-train", claim=nodes.template_name(4))
    without_template = mpijob(4, name="lacking", claim="us-4-node-config")
    with_template["metadata"]["namespace"] = TEAMS[0]
    without_template["metadata"]["namespace"] = "claims-evil"
    jobs = (with_template, without_template)
    _, (fits, waits) = run_preview(fleet.driver.plane.kubectl, *jobs, options=["--fit"])
    assert fits["fit"]["fits"], fits
    reason = "there is no ResourceClaimTemplate us-4-node-config in namespace claims-evil: create it"
    assert waits["fit"]["text"] == f"would wait: lacking-0-0: {reason}"
    fleet.driver.apply("train", 8)
    fleet.driver.wait(all_whole)
    rows = eventually(inside, ["verify", "c-train"], lambda obj: obj["whole"])["rows"]
    servers = {row["labels"][SERVER_4] for row in rows}
    assert servers == {*fits["fit"]["units"]}
    assert servers <= {labels[nodes.SERVER_ID_4] for labels in fleet.driver.labels.values()}


def test_the_preview_finds_units_for_each_group_of_a_leaderworkerset(fleet: Fleet) -> None:
    """If a group has exclusive-topology, the scheduler chooses its nodes, not whole-job admission."""
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    first, second, exclusive = (
        vllm_set(4) | {"metadata": {"name": name}} for name in ("one", "more", "exclusive")
    )
    exclusive["metadata"]["annotations"] = vllm_set(4)["metadata"]["annotations"]
    inside.create(first)
    first_units = set.union(*units(fleet.driver, wait_count(inside, 8), GROUP_INDEX))
    _, (fits, scheduled) = run_preview(inside, second, exclusive, options=["--fit"])
    assert scheduled["fit"]["text"].startswith("the scheduler chooses the nodes, for example ")
    inside.create(second)
    all_units = set.union(*units(fleet.driver, wait_count(inside, 16), GROUP_INDEX))
    assert len(first_units) == 2
    assert all_units - first_units == {*fits["fit"]["units"]}

"""``kubectl ultraserver preview --fit`` of jobs that claim their nodes."""

from collections.abc import Iterator

import pytest

from contract.keys import SERVER_4
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import TEAMS
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.placement import NAMESPACE
from testbed.plane.plugin import eventually, previewed
from testbed.plane.previews import previews, wait_until_served
from tests.plane.bound import wait_count
from tests.plane.claims.conftest import Fleet
from tests.plane.claims.pods import GROUP, units, vllm


@pytest.fixture(scope="module")
def served(whole_fleet: Fleet, passed_on: None) -> Iterator[None]:
    """The installation's preview service."""
    assert passed_on is None
    stage = whole_fleet.driver
    with previews(stage.plane, NAMESPACE, stage.rules) as inside:
        wait_until_served(inside)
        yield


pytestmark = pytest.mark.usefixtures("served")


def test_a_job_with_claims_gets_the_nodes_of_its_preview_and_none_without_a_template(fleet: Fleet) -> None:
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    fleet.plugin.apply("plain", 4)
    fleet.plugin.wait(all_whole)
    claiming = mpijob(8, name="c-train", claim=nodes.template_name(4))
    lacking = mpijob(4, name="lacking", claim="us-4-node-config")
    claiming["metadata"]["namespace"], lacking["metadata"]["namespace"] = TEAMS[0], "claims-evil"
    _, (fits, waits) = previewed(fleet.driver.plane.kubectl, claiming, lacking, options=["--fit"])
    assert fits["fit"]["fits"], fits
    why = "there is no ResourceClaimTemplate us-4-node-config in namespace claims-evil: create it"
    assert waits["fit"]["text"] == f"would wait: lacking-0-0: {why}"
    fleet.driver.apply("train", 8)
    fleet.driver.wait(all_whole)
    rows = eventually(inside, ["verify", "c-train"], lambda obj: obj["whole"])["rows"]
    servers = {row["labels"][SERVER_4] for row in rows}
    assert servers == {*fits["fit"]["units"]}
    assert servers <= {labels[nodes.SERVER_ID_4] for labels in fleet.driver.labels.values()}


def test_each_group_of_a_leaderworkerset_is_a_job_of_its_own(fleet: Fleet) -> None:
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    one, more, exclusive = (vllm(4) | {"metadata": {"name": name}} for name in ("one", "more", "exclusive"))
    exclusive["metadata"]["annotations"] = vllm(4)["metadata"]["annotations"]
    inside.create(one)
    first = set.union(*units(fleet.driver, wait_count(inside, 8), GROUP))
    _, (fits, other) = previewed(inside, more, exclusive, options=["--fit"])
    assert other["fit"]["text"].startswith("the scheduler chooses the nodes, for example ")
    inside.create(more)
    both = set.union(*units(fleet.driver, wait_count(inside, 16), GROUP))
    assert len(first) == 2
    assert both - first == {*fits["fit"]["units"]}

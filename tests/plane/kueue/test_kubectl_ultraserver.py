"""``kubectl ultraserver`` on jobs in a queue: what the real Kueue says about them is found and explained."""

import pytest

from testbed.experiment.stage import TEAMS, Stage
from testbed.plane import kueue as program
from testbed.plane.kubectl import Kubectl
from testbed.plane.plugin import eventually, plugin, texts
from tests.plane.kueue.jobs import leave, wait_whole

pytestmark = pytest.mark.limit(90, "Kueue comes back to what it could not admit when its own backoff is over")


def inside(stage: Stage) -> Kubectl:
    return stage.plane.kubectl.in_namespace(TEAMS[0])


def test_a_job_that_waits_in_kueue_is_explained_by_its_queue_and_kueues_message(stage: Stage) -> None:
    leave(stage, 1)
    key = stage.apply("train", 8)
    people = inside(stage)
    value = eventually(people, ["why", "train"], lambda answer: "slice(s)" in str(answer))
    (finding,) = value["findings"]
    assert (finding["kind"], finding["name"]) == ("queue", program.LOCAL_QUEUE)
    assert finding["text"].startswith("waits for nodes: "), finding
    assert "allows to fit only 1 out of 2 slice(s)" in finding["text"], finding
    verdict = eventually(people, ["verify", "train"], lambda _: True)
    assert verdict["text"] == "not placed whole: waiting for nodes"
    assert [problem["text"] for problem in verdict["problems"]] == ["0 of 8 workers exist"]
    assert plugin(people, "verify", "train").returncode == 1

    for name in sorted(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_whole(stage, key)
    verdict = eventually(people, ["verify", "train"], lambda obj: obj["whole"])
    assert verdict["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    assert texts(eventually(people, ["why", "train"], lambda _: True)) == []

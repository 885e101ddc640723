"""Tests that ``kubectl ultraserver`` shows and explains the real Kueue's messages about jobs in a queue."""

import pytest

from testbed.experiment.stage import TEAMS, Stage
from testbed.plane import kueue as program
from testbed.plane.kubectl import Kubectl
from testbed.plane.plugin import eventually, finding_texts, plugin
from tests.plane.kueue.jobs import cordon_all_except, wait_until_whole

pytestmark = pytest.mark.limit(90, "Kueue tries again to admit a job only after its own backoff")


def team_kubectl(stage: Stage) -> Kubectl:
    return stage.plane.kubectl.in_namespace(TEAMS[0])


def test_why_shows_the_queue_of_a_waiting_job_and_kueues_message(stage: Stage) -> None:
    cordon_all_except(stage, 1)
    key = stage.apply("train", 8)
    inside = team_kubectl(stage)
    value = eventually(inside, ["why", "train"], lambda answer: "slice(s)" in str(answer))
    (finding,) = value["findings"]
    assert (finding["kind"], finding["name"]) == ("queue", program.LOCAL_QUEUE)
    assert finding["text"].startswith("waits for nodes: "), finding
    assert "allows to fit only 1 out of 2 slice(s)" in finding["text"], finding
    verdict = eventually(inside, ["verify", "train"], lambda _: True)
    assert verdict["text"] == "not placed whole: waiting for nodes"
    assert [problem["text"] for problem in verdict["problems"]] == ["0 of 8 workers exist"]
    assert plugin(inside, "verify", "train").returncode == 1

    for name in sorted(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_until_whole(stage, key)
    verdict = eventually(inside, ["verify", "train"], lambda obj: obj["whole"])
    assert verdict["text"] == "placed whole: 8 workers on 2 UltraServers, as node config 4 needs"
    assert finding_texts(eventually(inside, ["why", "train"], lambda _: True)) == []

"""``kubectl ultraserver`` where the placement program places jobs, and where it does not run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.keys import SERVER_2, SERVER_4
from kube.api import leases
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import ACCOUNT, NAMESPACE, TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane.plugin import eventually, previewed, texts
from testbed.plane.previews import answering, previews


def test_a_program_that_does_not_run_is_named(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.api.delete(f"{leases(NAMESPACE)}/{ACCOUNT}")
    stage.apply("waits", 4)
    found = eventually(inside, ["why", "waits"], lambda found: len(found["findings"]) == 2)
    about, silent = texts(found)
    assert about.startswith("program ultraserver-placement: would admit the job to ")
    assert silent.startswith("program ultraserver-placement: does not run: it has no Lease")
    stage.start_program()
    eventually(inside, ["verify", "waits"], lambda found: found["whole"])
    onto = about.rpartition(" ")[2]
    rows = eventually(inside, ["verify", "waits"], lambda found: found["whole"])["rows"]
    assert {row["labels"][SERVER_4] for row in rows} == {onto}


@pytest.fixture
def served(stage: Stage, passed_on: None) -> Iterator[None]:
    """The installation's preview service."""
    assert passed_on is None
    with previews(stage.plane, NAMESPACE, stage.rules) as inside:
        answering(inside)
        yield


@pytest.mark.usefixtures("served")
def test_what_fits_gets_what_the_preview_says_and_what_waits_waits_for_that(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.start_program()
    stage.apply("pair", 2)
    stage.wait(all_whole)
    jobs = [mpijob(workers, name=f"of-{workers}") for workers in (2, 16, 8)]
    _, (small, large, late) = previewed(inside, *jobs, options=["--fit"])
    assert [item["fit"]["fits"] for item in (small, large, late)] == [True, True, False]
    for item, workers in ((small, 2), (large, 16)):
        stage.apply(f"of-{workers}", workers)
        rows = eventually(inside, ["verify", f"of-{workers}"], lambda found: found["whole"])["rows"]
        key = SERVER_4 if workers > 2 else SERVER_2
        assert {row["labels"][key] for row in rows} == {*item["fit"]["units"]}
    stage.apply("of-8", 8)
    # Before that it waits for its own pods.
    needs = "program ultraserver-placement: does not admit the job: needs"
    found = eventually(inside, ["why", "of-8"], lambda found: needs in "".join(texts(found)[:1]))
    (finding,) = found["findings"]
    assert late["fit"]["text"] == f"would wait: {finding['text'].removeprefix('does not admit the job: ')}"
    assert late["fit"]["details"] == finding["details"]
    stage.finish((TEAMS[0], "of-16"))
    eventually(inside, ["verify", "of-8"], lambda found: found["whole"])

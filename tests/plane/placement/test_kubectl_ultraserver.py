"""Tests of ``kubectl ultraserver`` while the placement program runs, and while it does not run."""

import re
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.test import Client

from common.times import stamp, time_of
from contract.keys import OPENED, SERVER_2, SERVER_4
from kube.api import leases_path
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import ACCOUNT, NAMESPACE, TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane.plugin import eventually, finding_texts, run_preview
from testbed.plane.previews import run_preview_service, wait_until_served
from testbed.plane.process import free_ports
from testbed.waiting import until
from webhook.app import create_app
from webhook.documents import dump_yaml
from webhook.preview.fit import ask_placement
from webhook.preview.views import preview_blueprint
from webhook.rules.source import TableSource


def test_why_reports_that_the_placement_program_does_not_run(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.api.delete(f"{leases_path(NAMESPACE)}/{ACCOUNT}")
    stage.apply("waits", 4)
    value = eventually(inside, ["why", "waits"], lambda obj: len(obj["findings"]) == 2)
    admission, missing = finding_texts(value)
    assert admission.startswith("program ultraserver-placement: would admit the job to ")
    assert missing.startswith("program ultraserver-placement: does not run: it has no Lease")
    stage.start_program()
    eventually(inside, ["verify", "waits"], lambda obj: obj["whole"])
    unit = admission.rpartition(" ")[2]
    rows = eventually(inside, ["verify", "waits"], lambda obj: obj["whole"])["rows"]
    assert {row["labels"][SERVER_4] for row in rows} == {unit}


@pytest.mark.limit(60, "starts the program, and waits for the jobs of two teams")
def test_queue_shows_the_order_and_the_starts_of_waiting_jobs_and_preview_shows_whether_a_job_fits(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    (port,) = free_ports(1)
    stage.start_program(metrics_port=port, metrics_host="127.0.0.1", answers=True)
    stage.apply("eval", 16, TEAMS[1], runPolicy={"activeDeadlineSeconds": 7200})
    stage.wait(all_whole)
    stage.apply("train", 16)
    stage.apply("huge", 32)

    def waits(obj: Any) -> bool:
        return [job["reason"] for job in obj["jobs"]] == ["units", "nodes"]

    shown = eventually(inside, ["queue"], waits)
    # The job is too young for a reservation. Its start is an estimate, by the deadline of the other job.
    count, _, start = shown["text"].partition("; ")
    assert re.fullmatch(r"2 jobs wait at ..:.. UTC, 1 of them blocked", count)
    assert re.fullmatch(r"team-a/train is next and starts in 2 h \(about .* UTC\)\.", start)
    assert [(job["position"], job["text"], job["after"]) for job in shown["jobs"]] == [
        (1, "needs 4 whole UltraServers; 2 free", [f"{TEAMS[1]}/eval"]),
        (None, "needs 8 whole UltraServers; 2 free; at most 6 can become free", []),
    ]
    (standing,) = eventually(inside, ["why", "train"], lambda obj: obj["jobs"])["jobs"]
    assert standing | {"start": ""} == shown["jobs"][0] | {"start": ""}
    for sample in (
        'waiting_jobs{reason="units"} 1.0',
        'waiting_jobs{reason="nodes"} 1.0',
        'units{nodes="4",state="used"} 4.0',
        'units{nodes="4",state="free"} 2.0',
    ):
        until(lambda sample=sample: f"ultraserver_placement_{sample}\n" in metrics(port), sample)
    assert fit(stage, port, 8).startswith("fits now on ")
    until(
        lambda: fit(stage, port, 16).startswith("would be second in the queue, and may start in "),
        "an answer about a job of 16 workers",
    )
    # A job that has waited for a quarter of an hour gets a reservation.
    later = timedelta(minutes=15)
    clock = SimpleNamespace(now=lambda zone: datetime.now(zone) + later)
    monkeypatch.setattr("kubectl_ultraserver.listing.datetime", clock)
    monkeypatch.setattr("kubectl_ultraserver.scheduling.LEASE_TIMEOUT", 2 * later)
    shown = eventually(inside, ["queue"], lambda shown: shown["jobs"][0]["units"])
    notes = (pod["metadata"]["annotations"].get(OPENED) for pod in stage.workers())
    (admitted,) = {time_of(note.split()[0]) for note in notes if note}
    assert admitted
    train, _ = shown["jobs"]
    assert train["start"] == train["latest"] == stamp(admitted + timedelta(hours=2))
    assert len(train["units"]) == 4
    assert (train["text"], train["after"]) == ("needs 4 whole UltraServers; 2 free", [f"{TEAMS[1]}/eval"])
    assert [note.split(":")[0] for note in shown["notes"]] == ["POSITION", "RESERVED", "START by"]


def fit(stage: Stage, port: int, workers: int) -> str:
    """Returns the sentence of the preview service about a job, by the program's answer."""
    ask = partial(ask_placement, f"http://127.0.0.1:{port}")
    client = Client(create_app(preview_blueprint(TableSource(stage.rules), ask=ask)))
    document = dump_yaml(mpijob(workers, name="asked"))
    answer = client.post(f"/v1/fit?namespace={TEAMS[0]}", data=document).get_json()
    return str(answer.get("text") or answer)


def metrics(port: int) -> str:
    """Returns the metrics of a program on this machine."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        return str(response.read().decode())


@pytest.fixture
def served(stage: Stage, passed_on: None) -> Iterator[None]:
    """The preview service of the installation."""
    assert passed_on is None
    with run_preview_service(stage.plane, NAMESPACE, stage.rules) as inside:
        wait_until_served(inside)
        yield


@pytest.mark.usefixtures("served")
def test_jobs_get_the_units_of_their_preview_or_wait_for_the_previewed_reason(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.start_program()
    stage.apply("pair", 2)
    stage.wait(all_whole)
    jobs = [mpijob(workers, name=f"of-{workers}") for workers in (2, 16, 8)]
    _, (small, large, late) = run_preview(inside, *jobs, options=["--fit"])
    assert [item["fit"]["fits"] for item in (small, large, late)] == [True, True, False]
    for item, workers in ((small, 2), (large, 16)):
        stage.apply(f"of-{workers}", workers)
        rows = eventually(inside, ["verify", f"of-{workers}"], lambda obj: obj["whole"])["rows"]
        key = SERVER_4 if workers > 2 else SERVER_2
        assert {row["labels"][key] for row in rows} == {*item["fit"]["units"]}
    stage.apply("of-8", 8)
    # At first, the job waits for its own pods.
    needs = "program ultraserver-placement: does not admit the job: needs"
    value = eventually(inside, ["why", "of-8"], lambda obj: needs in "".join(finding_texts(obj)[:1]))
    (finding,) = value["findings"]
    assert late["fit"]["text"] == f"would wait: {finding['text'].removeprefix('does not admit the job: ')}"
    assert late["fit"]["details"] == finding["details"]
    stage.finish((TEAMS[0], "of-16"))
    eventually(inside, ["verify", "of-8"], lambda obj: obj["whole"])

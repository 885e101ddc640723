"""POST /v1/fit: the preview service asks the placement program, by HTTP, whether a job would start now."""

import json
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry
from werkzeug.test import Client, TestResponse

from contract.keys import NEURON, OPENED, PLACE, SERVER_4
from kube import metrics
from kube.metrics import Server, serve
from placement.act import answers
from placement.act.answers import PATH, AnswerApp
from placement.decide.answer import answer_for, pods_of
from placement.decide.decide import Scene
from placement.decide.plan import Failure, Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Guarantee, Pod
from testbed.mpijob import mpijob
from tests.placement.world import HOUR, MINUTE, NOW, SECOND, bound, job, on, servers
from webhook.app import create_app
from webhook.documents import dump_yaml
from webhook.preview.fit import NoAnswerError, ask_placement
from webhook.preview.views import preview_blueprint
from webhook.rules.source import TableSource

THREE = servers(3)
SECRET = "rival"  # noqa: S105 - the name of a team that no answer may contain


def running(name: str, unit: int, limit: timedelta | None = None) -> list[Pod]:
    there = on(THREE, *(f"n{unit}-{place}" for place in range(4)))
    pods = bound(job(name, 4, limit=limit, age=HOUR + MINUTE, namespace=SECRET), there, started=True)
    return [replace(pod, admitted_at=NOW - HOUR) for pod in pods]


def scene_of(*pods: Iterable[Pod], **more: Any) -> Scene:
    return Scene(Topology(THREE.values()), tuple(pod for each in pods for pod in each), NOW, **more)


class Placement:
    """A placement program that answers; what it sees can be changed."""

    def __init__(self, server: Server) -> None:
        self.scene: Scene | None = scene_of()
        self.now: datetime = NOW
        self.url = f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def placement(monkeypatch: pytest.MonkeyPatch) -> Iterator[Placement]:
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 0)
    app = AnswerApp(lambda: made.scene, lambda: made.now)
    server = serve("127.0.0.1", 0, CollectorRegistry(), {PATH: app})
    made = Placement(server)
    yield made
    server.shutdown()
    server.server_close()


def client(url: str | None) -> Client:
    ask = partial(ask_placement, url) if url else None
    return Client(create_app(preview_blueprint(TableSource(placement=True), ask=ask)))


def fit(placement: Placement, document: Any = None, **how: Any) -> TestResponse:
    body = document if isinstance(document, str) else dump_yaml(document or mpijob(4))
    return client(placement.url).post("/v1/fit", data=body, **how)


def full(workers: int = 4) -> list[list[Pod]]:
    """Returns jobs on all UltraServers, and one that waits with the reservation."""
    busy = [running("a", 1, 3 * HOUR), running("b", 2, 2 * HOUR), running("c", 3, 4 * HOUR)]
    return [*busy, job("first", workers, age=HOUR, namespace=f"{SECRET}s", limit=HOUR)]


def test_a_job_that_fits_has_its_units_and_a_repeated_name_is_another_job(placement: Placement) -> None:
    placement.scene = scene_of(running("a", 1))
    found = fit(placement).get_json()
    assert (found["text"], found["fits"], found["units"]) == ("fits now on us-02", True, ["us-02"])
    assert found["preview"].startswith("placed: 4 workers on one whole UltraServer")
    text = fit(placement, mpijob(8), headers={"Accept": "text/plain"}).text
    assert text.splitlines()[0] == "MPIJob default/train: fits now on us-02, us-03", text
    # A stored job of the same name is not the one that is asked about.
    placement.scene = scene_of(job("train", 4, namespace="default"))
    assert fit(placement).get_json()["units"] == ["us-02"]


def test_a_job_that_waits_has_its_position_and_an_estimate_and_names_no_job_of_others(
    placement: Placement,
) -> None:
    placement.scene = scene_of(*full())
    answer = fit(placement)
    found = answer.get_json()
    assert found["text"] == "would be second in the queue, and may start in 2 h, at 14:00 UTC (an estimate)"
    assert (found["position"], found["waiting"], found["start"]) == (2, 1, "2026-11-21T14:00:00Z")
    text = fit(placement, headers={"Accept": "text/plain"}).text
    assert text.splitlines()[2:] == [
        "  waits    needs 1 whole UltraServer; 0 free",
        "  seen     2026-11-21T12:00:00Z; 1 other job waits",
    ]
    for said in (answer.text, text):
        assert SECRET not in said


def test_what_cannot_start_and_what_is_not_placed_is_an_answer(placement: Placement) -> None:
    found = fit(placement, mpijob(16)).get_json()
    needs = "needs 4 whole UltraServers; 3 free; at most 3 can become free"
    assert (found["text"], found["position"]) == (f"cannot start: {needs}", None)
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    found = fit(placement, plain).get_json()
    assert found["fits"] is False
    assert found["text"].startswith("would not start: not placed: ")


@pytest.mark.parametrize("accept", ["application/json", "*/*"])
def test_answers_conform_to_the_description(placement: Placement, accept: str) -> None:
    described = client(None).get("/v1/openapi.json").get_json()["components"]["schemas"]["Fit"]
    for document in (mpijob(4), mpijob(16), {"apiVersion": "v1", "kind": "Secret"}):
        found = fit(placement, document, headers={"Accept": accept}).get_json()
        jsonschema.validate(found, described)
        assert found.keys() <= described["properties"].keys()


def test_without_an_answer_status_and_reason_explain_it(placement: Placement) -> None:
    off = client(None).post("/v1/fit", data=dump_yaml(mpijob(4)))
    assert (off.status_code, off.get_json()["code"]) == (404, "not-found")
    assert "fit: true" in off.get_json()["error"]
    placement.now = NOW + 61 * SECOND
    old = fit(placement)
    assert (old.status_code, old.get_json()["error"]) == (
        503,
        "the placement program does not answer now: the last decision was made at 12:00:00 UTC",
    )
    placement.scene = None
    assert "this replica does not decide" in fit(placement).get_json()["error"]
    placement.url = "http://127.0.0.1:9"
    gone = fit(placement)
    assert (gone.status_code, "does not answer" in gone.get_json()["error"]) == (503, True)


def test_questions_that_are_no_jobs_cause_one_error_a_minute_in_the_log(
    placement: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="no answer because of an error"):
            ask_placement(placement.url, b'{"sets": 1, "pods": 7}')
    assert [record.getMessage() for record in caplog.records if record.name == "placement"] == [
        "a question about a job could not be answered"
    ]


def test_a_question_that_is_wrong_is_400(placement: Placement) -> None:
    two = "---\n".join([dump_yaml(mpijob(4))] * 2)
    claims = mpijob(4)
    pod = claims["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "a", "resourceClaimTemplateName": "b"}]
    for document, reason in ((two, "2 objects: send one job"), (claims, "it claims devices")):
        answer = fit(placement, document)
        assert (answer.status_code, reason in answer.get_json()["error"]) == (400, True), answer.text
    wrong = client(placement.url).post("/v1/fit?pods=true", data=dump_yaml(mpijob(4)))
    assert wrong.get_json()["error"].startswith(
        "unknown parameter 'pods'; the allowed ones are namespace, default-namespace"
    )


def test_answers_leave_the_processor_to_decisions(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    assert fit(placement).status_code == 200
    busy = fit(placement)
    assert (busy.status_code, "try again in" in busy.get_json()["error"]) == (503, True)


def test_a_peer_that_sends_nothing_keeps_no_other_one_from_its_answer(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    monkeypatch.setattr(metrics.ConnectionHandler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", int(placement.url.rpartition(":")[2])), timeout=3) as peer:
        peer.sendall(b"POST /v1/fit HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        assert b" 400 " in peer.makefile("rb").readline()
    assert fit(placement).status_code == 200, "that time is not the program's"


def test_a_question_that_fails_costs_its_peer_the_same_pause(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions whose last Pod is invalid took all of the program's time."""
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    with pytest.raises(ValueError, match="no answer because of an error"):
        ask_placement(placement.url, b'{"sets": 1, "pods": [{}]}')
    with pytest.raises(NoAnswerError, match="try again in"):
        ask_placement(placement.url, b"{}")


@pytest.mark.parametrize(
    ("scene", "why"),
    [
        (
            scene_of(*full(8)[1:]),
            "needs 1 whole UltraServer; such units are free, but reserved for an earlier job",
        ),
        (
            scene_of(tuning=Tuning(units=replace(UNITS, guarantees=(Guarantee((SECRET,), SERVER_4, 3),)))),
            "other teams are guaranteed too many of the units that can be used",
        ),
    ],
)
def test_no_reason_names_others(scene: Scene, why: str) -> None:
    own = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    answer = answer_for(scene, own)
    assert SECRET not in json.dumps(answers.as_json(answer))
    assert answer.why == why


def test_a_job_without_workers_or_with_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="does not place it"):
        pods_of({"namespace": "a", "name": "b", "sets": 1, "pods": []}, NOW)
    place = {"annotations": {"ultraserver-webhook.io/place": str(job("a", 4)[0].place)}}
    part = {"count": 4, "pod": {"metadata": place, "spec": {"containers": []}}}
    for sets, count in ((1000, 4), (1, 10**12), (0, 10**12), (-1, 10**12)):  # this many would fill the memory
        question = {"namespace": "a", "name": "b", "sets": sets, "pods": [part | {"count": count}]}
        with pytest.raises(ValueError, match="more than 1024"):
            pods_of(question, NOW)


def question(unit: str, name: str = "b", sets: int = 1, **more: Any) -> dict[str, Any]:
    place = {PLACE: f"placer=whole-job workers=4 size=4 unit={unit} index=name"}
    resources = {"requests": {NEURON: "16"}}
    spec = {"containers": [{"name": "a", "resources": resources}], **more}
    part = {"count": 4, "pod": {"metadata": {"annotations": place}, "spec": spec}}
    return {"namespace": "a", "name": name, "sets": sets, "pods": [part]}


def test_a_job_for_units_that_placement_does_not_know_does_not_fit() -> None:
    answer = answer_for(scene_of(), pods_of(question("example.com/rack"), NOW))
    assert (answer.fits, answer.position, answer.waiting) == (False, None, 0)
    assert "the rule table has none" in answer.why


def test_replicas_are_sets_of_workers_only_in_jobs_with_groups() -> None:
    assert answer_for(scene_of(), pods_of(question(SERVER_4, sets=2), NOW)).units == ("us-01",)
    with pytest.raises(ValueError, match="at most 253"):
        pods_of(question(SERVER_4, "x" * 254), NOW)


@pytest.mark.parametrize(
    ("pinned", "more"),
    [({}, {"nodeName": "n1-0"}), ({OPENED: "2026-11-21T11:59:00Z"}, {"nodeSelector": {SERVER_4: "us-01"}})],
)
def test_a_pod_with_a_node_or_a_pin_does_not_tell_who_is_there(
    pinned: dict[str, str], more: dict[str, Any]
) -> None:
    asked = question(SERVER_4, **more)
    asked["pods"][0]["pod"]["metadata"]["annotations"] |= pinned
    answer = answer_for(scene_of(running("a", 1), running("b", 2), running("c", 3)), pods_of(asked, NOW))
    assert answer.why == "needs 1 whole UltraServer; 0 free"


def test_without_time_for_the_forecast_the_start_is_not_known() -> None:
    own = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    assert answer_for(scene_of(*full()), own).start
    answer = answer_for(scene_of(*full()), own, lambda: False)
    assert (answer.position, answer.start, answer.exact) == (2, None, False)


def test_failures_of_its_namespace_are_no_failures_of_the_job_that_is_asked_about() -> None:
    own = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    failed = Failure(3, NOW)
    memory = Memory(failures={("team", "team.mine"): failed}, failed_namespaces={"team": NOW})
    assert answer_for(scene_of(memory=memory), own).fits

"""Tests of POST /v1/fit, which forwards to the placement program the question whether a job would start."""

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

from contract.keys import NEURON, OPENED, PLACEMENT, SERVER_4
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
from tests.placement.world import HOUR, MINUTE, NOW, SECOND, bind_pods, job, select_nodes, servers
from webhook.app import create_app
from webhook.documents import dump_yaml
from webhook.preview import messages
from webhook.preview.fit import NoAnswerError, ask_placement
from webhook.preview.views import preview_blueprint
from webhook.rules.source import TableSource

NODES = servers(3)
SECRET = "rival"  # noqa: S105 - the name of a team that no answer may contain


def running_job(name: str, unit: int, limit: timedelta | None = None) -> list[Pod]:
    """Returns the Pods of another team's job, which has run on an UltraServer for an hour."""
    nodes = select_nodes(NODES, *(f"n{unit}-{number}" for number in range(4)))
    pods = bind_pods(job(name, 4, limit=limit, age=HOUR + MINUTE, namespace=SECRET), nodes, started=True)
    return [replace(pod, admitted_at=NOW - HOUR) for pod in pods]


def scene_of(*jobs: Iterable[Pod], **fields: Any) -> Scene:
    return Scene(Topology(NODES.values()), tuple(pod for pods in jobs for pod in pods), NOW, **fields)


class Placement:
    """A placement program that answers questions. A test can change its last decision and its clock."""

    def __init__(self, server: Server) -> None:
        self.scene: Scene | None = scene_of()
        self.now: datetime = NOW
        self.url = f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def placement(monkeypatch: pytest.MonkeyPatch) -> Iterator[Placement]:
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 0)
    app = AnswerApp(lambda: program.scene, lambda: program.now)
    server = serve("127.0.0.1", 0, CollectorRegistry(), {PATH: app})
    program = Placement(server)
    yield program
    server.shutdown()
    server.server_close()


def create_client(url: str | None) -> Client:
    ask = partial(ask_placement, url) if url else None
    return Client(create_app(preview_blueprint(TableSource(placement=True), ask=ask)))


def post_fit(placement: Placement, document: Any = None, **options: Any) -> TestResponse:
    body = document if isinstance(document, str) else dump_yaml(document or mpijob(4))
    return create_client(placement.url).post("/v1/fit", data=body, **options)


def full_cluster(workers: int = 4) -> list[list[Pod]]:
    """Returns jobs that use all UltraServers, and a job that waits and has the reservation."""
    running_jobs = [
        running_job("a", 1, 3 * HOUR),
        running_job("b", 2, 2 * HOUR),
        running_job("c", 3, 4 * HOUR),
    ]
    return [*running_jobs, job("first", workers, age=HOUR, namespace=f"{SECRET}s", limit=HOUR)]


def test_a_job_that_fits_gets_units_even_if_a_stored_job_has_its_name(placement: Placement) -> None:
    placement.scene = scene_of(running_job("a", 1))
    answer = post_fit(placement).get_json()
    assert (answer["text"], answer["fits"], answer["units"]) == ("fits now on us-02", True, ["us-02"])
    assert answer["preview"].startswith("placed: 4 workers on one whole UltraServer")
    text = post_fit(placement, mpijob(8), headers={"Accept": "text/plain"}).text
    assert text.splitlines()[0] == "MPIJob default/train: fits now on us-02, us-03", text
    # A stored job with this name waits, and the job in the question still fits.
    placement.scene = scene_of(job("train", 4, namespace="default"))
    assert post_fit(placement).get_json()["units"] == ["us-02"]


def test_the_answer_about_a_waiting_job_has_position_and_estimate_and_names_no_other_job(
    placement: Placement,
) -> None:
    placement.scene = scene_of(*full_cluster())
    response = post_fit(placement)
    answer = response.get_json()
    assert answer["text"] == "would be second in the queue, and may start in 2 h, at 14:00 UTC (an estimate)"
    assert (answer["position"], answer["waiting"], answer["start"]) == (2, 1, "2026-11-21T14:00:00Z")
    text = post_fit(placement, headers={"Accept": "text/plain"}).text
    assert text.splitlines()[2:] == [
        "  waits    needs 1 whole UltraServer; 0 free",
        "  seen     2026-11-21T12:00:00Z; 1 other job waits",
    ]
    for output in (response.text, text):
        assert SECRET not in output


def test_the_answer_explains_a_job_that_cannot_start_and_an_object_that_is_not_placed(
    placement: Placement,
) -> None:
    answer = post_fit(placement, mpijob(16)).get_json()
    needs = "needs 4 whole UltraServers; 3 free; at most 3 can become free"
    assert (answer["text"], answer["position"]) == (f"cannot start: {needs}", None)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    answer = post_fit(placement, config_map).get_json()
    assert answer["fits"] is False
    assert answer["text"] == messages.would_not_start(answer["preview"])
    assert answer["preview"].startswith("not placed: ")


@pytest.mark.parametrize("accept", ["application/json", "*/*"])
def test_answers_match_the_openapi_schema(placement: Placement, accept: str) -> None:
    schema = create_client(None).get("/v1/openapi.json").get_json()["components"]["schemas"]["Fit"]
    for document in (mpijob(4), mpijob(16), {"apiVersion": "v1", "kind": "Secret"}):
        answer = post_fit(placement, document, headers={"Accept": accept}).get_json()
        jsonschema.validate(answer, schema)
        assert answer.keys() <= schema["properties"].keys()


def test_a_missing_answer_has_a_status_and_a_reason(placement: Placement) -> None:
    response = create_client(None).post("/v1/fit", data=dump_yaml(mpijob(4)))
    assert (response.status_code, response.get_json()["code"]) == (404, "not-found")
    assert "fit: true" in response.get_json()["error"]
    placement.now = NOW + 61 * SECOND
    response = post_fit(placement)
    assert (response.status_code, response.get_json()["error"]) == (
        503,
        messages.no_answer_now("the last decision was made at 12:00:00 UTC"),
    )
    placement.scene = None
    assert "this replica does not decide" in post_fit(placement).get_json()["error"]
    placement.url = "http://127.0.0.1:9"
    response = post_fit(placement)
    assert response.status_code == 503
    assert messages.does_not_answer("127.0.0.1", "") in response.get_json()["error"]


def test_invalid_questions_write_one_error_a_minute_to_the_log(
    placement: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="no answer because of an error"):
            ask_placement(placement.url, b'{"sets": 1, "pods": 7}')
    assert [record.getMessage() for record in caplog.records if record.name == "placement"] == [
        "a question about a job could not be answered"
    ]


def test_a_request_with_an_unusable_job_or_parameter_is_400(placement: Placement) -> None:
    two_jobs = "---\n".join([dump_yaml(mpijob(4))] * 2)
    claiming_job = mpijob(4)
    pod = claiming_job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "a", "resourceClaimTemplateName": "b"}]
    for document, reason in ((two_jobs, messages.several_objects(2)), (claiming_job, "it claims devices")):
        response = post_fit(placement, document)
        assert (response.status_code, reason in response.get_json()["error"]) == (400, True), response.text
    response = create_client(placement.url).post("/v1/fit?pods=true", data=dump_yaml(mpijob(4)))
    assert response.get_json()["error"].startswith(
        "unknown parameter 'pods'; the allowed ones are namespace, default-namespace"
    )


def test_a_question_right_after_an_answer_is_refused(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the placement program's own decisions, which need the processor."""
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    assert post_fit(placement).status_code == 200
    response = post_fit(placement)
    assert (response.status_code, "try again in" in response.get_json()["error"]) == (503, True)


def test_a_client_that_sends_no_body_does_not_prevent_answers_to_other_clients(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    monkeypatch.setattr(metrics.ConnectionHandler, "timeout", 0.1)
    with socket.create_connection(
        ("127.0.0.1", int(placement.url.rpartition(":")[2])), timeout=3
    ) as connection:
        connection.sendall(b"POST /v1/fit HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        assert b" 400 " in connection.makefile("rb").readline()
    assert post_fit(placement).status_code == 200, "the wait for a slow client causes no pause"


def test_an_invalid_question_is_followed_by_a_pause_too(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the placement program's own decisions from many long questions whose last Pod is invalid."""
    monkeypatch.setattr(answers, "PAUSE_FACTOR", 10**9)
    with pytest.raises(ValueError, match="no answer because of an error"):
        ask_placement(placement.url, b'{"sets": 1, "pods": [{}]}')
    with pytest.raises(NoAnswerError, match="try again in"):
        ask_placement(placement.url, b"{}")


@pytest.mark.parametrize(
    ("scene", "why"),
    [
        (
            scene_of(*full_cluster(8)[1:]),
            "needs 1 whole UltraServer; such units are free, but reserved for an earlier job",
        ),
        (
            scene_of(tuning=Tuning(units=replace(UNITS, guarantees=(Guarantee((SECRET,), SERVER_4, 3),)))),
            "other teams are guaranteed too many of the units that can be used",
        ),
    ],
)
def test_an_answer_does_not_name_other_teams(scene: Scene, why: str) -> None:
    pods = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    answer = answer_for(scene, pods)
    assert SECRET not in json.dumps(answers.as_json(answer))
    assert answer.why == why


def test_a_job_without_workers_or_with_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="does not place it"):
        pods_of({"namespace": "a", "name": "b", "sets": 1, "pods": []}, NOW)
    placement = {"annotations": {"ultraserver-webhook.io/place": str(job("a", 4)[0].placement)}}
    part = {"count": 4, "pod": {"metadata": placement, "spec": {"containers": []}}}
    for sets, count in (
        (1000, 4),
        (1, 10**12),
        (0, 10**12),
        (-1, 10**12),
    ):  # this many Pods would need too much memory
        question = {"namespace": "a", "name": "b", "sets": sets, "pods": [part | {"count": count}]}
        with pytest.raises(ValueError, match="more than 1024"):
            pods_of(question, NOW)


def build_question(unit: str, name: str = "b", sets: int = 1, **fields: Any) -> dict[str, Any]:
    placement = {PLACEMENT: f"placer=whole-job workers=4 size=4 unit={unit} index=name"}
    resources = {"requests": {NEURON: "16"}}
    spec = {"containers": [{"name": "a", "resources": resources}], **fields}
    part = {"count": 4, "pod": {"metadata": {"annotations": placement}, "spec": spec}}
    return {"namespace": "a", "name": name, "sets": sets, "pods": [part]}


def test_a_job_for_units_that_the_rule_table_does_not_have_does_not_fit() -> None:
    answer = answer_for(scene_of(), pods_of(build_question("example.com/rack"), NOW))
    assert (answer.fits, answer.position, answer.waiting) == (False, None, 0)
    assert "the rule table has none" in answer.why


def test_a_job_without_groups_ignores_sets_and_a_long_name_is_refused() -> None:
    assert answer_for(scene_of(), pods_of(build_question(SERVER_4, sets=2), NOW)).units == ("us-01",)
    with pytest.raises(ValueError, match="at most 253"):
        pods_of(build_question(SERVER_4, "x" * 254), NOW)


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [({}, {"nodeName": "n1-0"}), ({OPENED: "2026-11-21T11:59:00Z"}, {"nodeSelector": {SERVER_4: "us-01"}})],
)
def test_a_question_with_a_node_or_a_pin_does_not_reveal_which_jobs_are_there(
    annotations: dict[str, str], spec: dict[str, Any]
) -> None:
    question = build_question(SERVER_4, **spec)
    question["pods"][0]["pod"]["metadata"]["annotations"] |= annotations
    answer = answer_for(
        scene_of(running_job("a", 1), running_job("b", 2), running_job("c", 3)), pods_of(question, NOW)
    )
    assert answer.why == "needs 1 whole UltraServer; 0 free"


def test_the_start_is_unknown_if_there_is_no_time_for_a_forecast() -> None:
    pods = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    assert answer_for(scene_of(*full_cluster()), pods).start
    answer = answer_for(scene_of(*full_cluster()), pods, lambda: False)
    assert (answer.position, answer.start, answer.exact) == (2, None, False)


def test_failed_admissions_in_a_namespace_do_not_delay_a_job_in_a_question() -> None:
    pods = [replace(pod, job="x y", created=NOW) for pod in job("mine", 4)]
    failure = Failure(3, NOW)
    memory = Memory(failures={("team", "team.mine"): failure}, failed_namespaces={"team": NOW})
    assert answer_for(scene_of(memory=memory), pods).fits

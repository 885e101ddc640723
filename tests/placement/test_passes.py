"""Passes with an API server in memory: order of the writes, what is refused, what is reported."""

import copy
import gc
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from contract.keys import ON_NODE_FAILURE, OPENED, SERVER_4
from kube.api import ApiError, ConflictError, ForbiddenError
from placement.act.events import PAUSE, PER_NAMESPACE, PER_PASS, REPEAT
from placement.act.write import delete, gate_removal, opened_value, patch, pin_operations
from placement.decide.decide import Scene
from placement.decide.plan import FIRST_BACKOFF
from placement.observe.model import UNITS, Guarantee, UnitKind, UnitSettings
from placement.observe.read import read_pod
from testbed.plane.nodes import INSTANCE_TYPE
from tests.kube.fake import NOW, FakeApi
from tests.placement.stored import (
    Program,
    launcher,
    path_of,
    pods,
    state,
    store_job,
    store_nodes,
    stored_events,
    worker,
)


@pytest.fixture
def crowded(api: FakeApi) -> Program:
    """A program on whose only whole UltraServer a job runs; one of higher priority waits, and may end it."""
    units = replace(UNITS, guarantees=(Guarantee(("prod",), SERVER_4, 0, preempts=True),))
    program = Program(api)
    program.run.units = lambda: units
    store_job(api, "batch", 8)
    for pod in pods(api):
        pod["metadata"]["annotations"][ON_NODE_FAILURE] = "restart"
    program.run()
    names = Counter[str]()
    for pod in pods(api):
        server = pod["spec"].get("nodeSelector", {}).get(SERVER_4, "us-0")
        pod["spec"]["nodeName"], pod["status"]["phase"] = f"n{server[-1]}-{names[server]}", "Running"
        names[server] += 1
    store_job(api, "own", 4, "prod")
    for pod in pods(api, "own"):
        pod["spec"]["priority"] = 9
        pod["metadata"]["creationTimestamp"] = "2026-11-21T11:00:00Z"
    program.clock.forward(timedelta(minutes=10))
    api.writes.clear()
    return program


WORKERS = [f"DELETE batch-worker-{number}" for number in range(8)]


def test_a_job_of_lower_priority_ends_its_launcher_first(api: FakeApi, crowded: Program) -> None:
    crowded.run()
    assert [text for text in api.writes if text.startswith("DELETE")] == ["DELETE batch-launcher"]
    crowded.run()
    assert sorted(text for text in api.writes if text.startswith("DELETE batch-w")) == WORKERS
    events = stored_events(api)
    why = "waits again, with all workers: preempted by prod/own, which has a higher priority"
    assert ("batch-worker-0", "Preempted", why) in events
    assert ("own-worker-0", "Preempts", "preempts team/batch, which has a lower priority") in events
    assert crowded.figure("ultraserver_placement_preemptions_total") == 1
    crowded.run()
    assert state(api, "own-worker-0")["own-worker-0"] in (("us-01", 0), ("us-02", 0))


def unmark(pod: dict[str, Any]) -> None:
    del pod["metadata"]["annotations"][ON_NODE_FAILURE]


def replaced(pod: dict[str, Any]) -> None:
    pod["metadata"]["uid"] = "another"


@pytest.mark.parametrize(
    ("name", "change"), [("batch", unmark), ("batch", replaced), ("own-worker-0", replaced)]
)
def test_no_job_ends_whose_pods_have_changed(
    name: str, change: Callable[[dict[str, Any]], None], api: FakeApi, crowded: Program
) -> None:
    crowded.pods.fall_behind()
    for pod in pods(api, name):
        change(pod)
    crowded.run()
    crowded.run()
    assert not [text for text in api.writes if text.startswith("DELETE")]


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    store_nodes(made, 2)
    return made


def test_a_job_is_pinned_and_opened_with_its_launcher(api: FakeApi) -> None:
    store_job(api, "a", 4)
    Program(api).run()
    workers = {f"a-worker-{index}": ("us-01", 0) for index in range(4)}
    assert state(api) == workers | {"a-launcher": (None, 0)}
    assert [pod["metadata"]["annotations"][OPENED] for pod in pods(api, "a-worker")] == [
        "2026-11-21T12:00:00Z"
    ] * 4
    assert stored_events(api) == [
        ("a-worker-0", "Admitted", "admitted to us-01"),
        ("a-launcher", "Admitted", "admitted to us-01"),
    ]


def test_garbage_is_collected_after_a_decision(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def decision(_: Scene) -> None:
        seen.append(gc.isenabled())
        raise ZeroDivisionError

    monkeypatch.setattr(Scene, "decision", decision)
    with pytest.raises(ZeroDivisionError):
        Program(api).run()
    assert seen == [False]
    assert gc.isenabled()


def test_several_pods_are_written_at_a_time(monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> None:
    meet, patch = threading.Barrier(2), api.patch

    def together(path: str, operations: list[Any]) -> Any:
        if any(operation["path"].startswith("/spec/schedulingGates") for operation in operations):
            meet.wait(60)
        return patch(path, operations)

    monkeypatch.setattr(api, "patch", together)
    store_job(api, "a", 8)
    api.delete(path_of(next(pods(api, "a-launcher"))))
    Program(api).run()
    assert set(state(api).values()) == {("us-01", 0), ("us-02", 0)}


def test_every_block_has_its_unit_before_the_first_gate_goes(api: FakeApi) -> None:
    """All but the first worker are written once: the API server computes for each write."""
    store_job(api, "a", 8)
    Program(api).run()
    patches = [write for write in api.writes if write.startswith("PATCH")]
    names = [f"PATCH a-worker-{index}" for index in range(8)]
    assert patches[0] == names[0]
    assert sorted(patches[1:]) == sorted([*names, "PATCH a-launcher"])
    (first, *_) = pods(api, "a-worker-0")
    assert first["metadata"]["annotations"][OPENED] == "2026-11-21T12:00:00Z 1=us-02"


def test_of_two_leaders_who_decide_from_the_same_one_opens_a_job(api: FakeApi) -> None:
    """Each may have other units: a plan of the second would stand next to pins of the first."""
    store_job(api, "a", 8)
    behind = Program(api)
    behind.pods.fall_behind()
    api.refuse = f"PATCH {path_of(worker('a', 5, 8))}"
    Program(api).run()
    before = len(api.writes)
    behind.run()
    assert [write for write in api.writes[before:] if write.startswith("PATCH")] == []
    assert state(api)["a-worker-5"] == (None, 1)
    api.refuse = ""
    behind.pods.catch_up()
    behind.clock.forward(FIRST_BACKOFF)
    behind.run()
    pods = state(api, "a-worker")
    assert [pods[f"a-worker-{index}"] for index in range(8)] == [("us-01", 0)] * 4 + [("us-02", 0)] * 4


@pytest.mark.parametrize("refused", [0, 3, 4, 7])
def test_what_is_refused_in_the_middle_is_finished_by_another(api: FakeApi, refused: int) -> None:
    store_job(api, "a", 8)
    first = Program(api)
    api.refuse = f"PATCH {path_of(worker('a', refused, 8))}"
    first.run()
    if refused == 0:  # nothing was decided
        assert {gates for _, gates in state(api).values()} == {1}
    assert state(api)[f"a-worker-{refused}"] == (None, 1)
    assert (
        first.metrics.registry.get_sample_value("ultraserver_placement_failures_total", {"kind": "write"})
        == 1
    )
    api.refuse = ""
    Program(api).run()
    pods = state(api, "a-worker")
    assert {gates for _, gates in pods.values()} == {0}
    assert [pods[f"a-worker-{index}"][0] for index in range(8)] == ["us-01"] * 4 + ["us-02"] * 4


def test_what_was_written_counts_while_the_watch_is_behind(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.pods.fall_behind()
    program.run()
    writes = len(api.writes)
    program.run()
    assert len(api.writes) == writes
    program.pods.catch_up()
    store_job(api, "b", 4)
    program.run()
    assert {unit for unit, _ in state(api, "b-worker").values()} == {"us-02"}


def test_who_cannot_see_does_nothing(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.nodes.stale_reason = "connection refused"
    assert 8 <= program.run() <= 12
    assert not program.run.is_fresh()
    program.nodes.stale_reason, program.pods.listed = "", False
    program.run()
    assert not program.run.is_fresh()
    assert not api.writes
    program.pods.listed = True
    assert program.run.is_fresh()


def test_a_refused_write_is_retried_after_a_pause_with_an_event(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    api.refuse = "PATCH /api/v1/namespaces/team/pods/a-worker-0"
    patched, patch = list[str](), api.patch
    monkeypatch.setattr(api, "patch", lambda path, *given: (patched.append(path), patch(path, *given))[1])
    program = Program(api)
    program.run()
    tried = len(patched)
    program.run()
    program.run()
    assert len(patched) == tried
    [text] = [text for name, _, text in stored_events(api) if name == "a-worker-0"]
    assert "refused to change its pods: PATCH /api/v1/namespaces/team/pods/a-worker-0" in text
    store_job(api, "b", 8)  # all there is: nothing is held by what was pinned already
    program.run()
    assert {gates for _, gates in state(api, "b-").values()} == {0}


def test_once_a_pod_of_a_job_was_refused_the_many_others_are_not_tried(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched = list[str]()

    def refuse(path: str, *_: Any) -> Any:
        patched.append(path)
        threading.Event().wait(0.01)  # as long as a call takes
        raise ApiError("PATCH: 422")

    monkeypatch.setattr(api, "patch", refuse)
    store_nodes(api, 50)
    store_job(api, "a", 200)
    Program(api).run()
    assert 1 <= len(patched) < 100


def test_a_conflict_is_a_refusal_and_the_next_job_has_the_units_in_the_next_pass(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its author decides how often its Pods change: the job waits for that, and no other user."""
    patched, patch = list[str](), api.patch

    def conflict(path: str, operations: list[Any]) -> Any:
        patched.append(path)
        if "/a-" in path:
            raise ConflictError("PATCH: 409")
        return patch(path, operations)

    store_job(api, "a", 8)
    store_job(api, "b", 8)
    for pod in pods(api, "b-"):
        pod["metadata"]["creationTimestamp"] = "2026-11-21T11:59:01Z"
    program = Program(api)
    monkeypatch.setattr(api, "patch", conflict)
    assert program.run() == 0.0
    program.run()
    assert {gates for _, gates in state(api, "b-").values()} == {0}
    program.run()
    assert sum("/a-" in path for path in patched) == 1
    assert "refused to change its pods: PATCH: 409" in stored_events(api)[-1][2]


def test_constant_changes_of_a_pod_do_not_prevent_a_write(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An annotation fifty times a second kept a unit empty, and a job without nodes from deletion."""
    ticks, patch, delete = iter(range(1000)), api.patch, api.delete

    def annotate(path: str) -> None:
        raw = copy.deepcopy(api.objects[path])
        raw["metadata"]["annotations"]["tick"] = str(next(ticks))
        api.put(path, raw)

    def patched(path: str, operations: list[Any]) -> Any:
        annotate(path)
        return patch(path, operations)

    def deleted(path: str, preconditions: Any) -> Any:
        annotate(path)
        return delete(path, preconditions)

    monkeypatch.setattr(api, "patch", patched)
    monkeypatch.setattr(api, "delete", deleted)
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    assert {gates for _, gates in state(api).values()} == {0}
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.run()
    assert list(state(api)) == ["a-launcher"]


def test_a_pass_ends_before_the_lease_and_the_next_continues(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 4)
    ticks = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    program = Program(api, max_seconds=2.0)
    assert program.run() == 0.0
    assert {gates for _, gates in state(api, "a-").values()} == {0}
    assert {gates for _, gates in state(api, "b-").values()} == {1}
    program.run()
    assert {gates for _, gates in state(api).values()} == {0}


def test_a_decision_that_takes_all_the_time_of_a_pass_still_opens_a_job(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 4)
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    program = Program(api, max_seconds=3.0)
    assert program.run() == 0.0
    assert {gates for _, gates in state(api, "a-").values()} == {0}
    program.run()
    assert {gates for _, gates in state(api).values()} == {0}


def test_workers_without_a_node_are_deleted_in_time_and_recreated_elsewhere(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    api.objects["/api/v1/nodes/n1-2"]["spec"] = {"unschedulable": True}
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.run()
    assert list(state(api)) == ["a-launcher"]
    assert (
        "a-worker-0",
        "Recreated",
        "admitted, but without all its nodes after 120 s: not every worker got a node",
    ) in stored_events(api)
    for index in range(4):
        again = worker("a", index, 4)
        again["metadata"]["uid"] += "/again"
        api.put(path_of(again), again)
    program.run()
    assert {unit for unit, _ in state(api, "a-worker").values()} == {"us-02"}


def test_what_started_since_it_was_seen_is_not_deleted(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.pods.fall_behind()
    for pod in list(pods(api, "a-worker")):
        api.put(path_of(pod), pod | {"status": {"phase": "Running"}})
    program.run()
    assert len(state(api, "a-worker")) == 4


def test_a_leader_that_comes_back_gives_all_the_time_again(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    program.run()
    program.run.set_leader(is_leader=False)
    program.clock.forward(timedelta(minutes=5))
    program.run.set_leader(is_leader=True)
    program.run()
    assert len(state(api, "a-worker")) == 4


def test_the_figures(api: FakeApi) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 8)
    program = Program(api)
    program.run.units = lambda: UNITS | UnitSettings({INSTANCE_TYPE: UnitKind(8)})
    prefix = "ultraserver_placement"

    def waiting() -> dict[str, float]:
        (family,) = (
            each for each in program.metrics.registry.collect() if each.name == f"{prefix}_waiting_jobs"
        )
        return {sample.labels["reason"]: sample.value for sample in family.samples}

    assert not any(waiting().values())
    assert len(waiting()) == 7
    program.run()
    assert waiting() == {
        "units": 1,
        **dict.fromkeys(("pods", "backoff", "guarantee", "reserved", "nodes", "bug"), 0),
    }
    assert program.figure(f"{prefix}_oldest_wait_seconds") == 60
    assert program.figure(f"{prefix}_admissions_total") == 1
    assert program.figure(f"{prefix}_last_decision_timestamp_seconds") == NOW.timestamp()
    for nodes, kind, count in (("4", "free", 1), ("4", "used", 1), ("2", "free", 2), ("8", "part", 1)):
        labels = {"nodes": nodes, "state": kind}
        assert program.metrics.registry.get_sample_value(f"{prefix}_node_groups", labels) == count, labels
    program.run.set_leader(is_leader=False)
    assert not any(waiting().values())


# ---- Events ------------------------------------------------------------------------------------------------


def test_a_reason_is_an_event_once_and_again_after_a_change_or_a_long_time(api: FakeApi) -> None:
    store_job(api, "a", 12)
    program = Program(api)

    def news() -> list[tuple[str, str, str]]:
        before = len(stored_events(api))
        program.run()
        return stored_events(api)[before:]

    assert [(name, reason) for name, reason, _ in news()] == [
        ("a-worker-0", "Waiting"),
        ("a-launcher", "Waiting"),
    ]
    assert news() == []
    api.objects["/api/v1/nodes/n1-2"]["spec"] = {"unschedulable": True}
    assert news() == []
    program.clock.forward(PAUSE)
    assert "node n1-2 is cordoned" in news()[0][2]
    program.clock.forward(PAUSE)
    assert news() == []
    program.clock.forward(REPEAT)
    assert len(news()) == 2


def test_a_job_whose_pods_are_being_made_is_not_worth_telling(api: FakeApi) -> None:
    young = worker("a", 0, 4)
    young["metadata"]["creationTimestamp"] = "2026-11-21T11:59:56Z"
    api.put(path_of(young), young)
    program = Program(api)
    program.run()
    assert not stored_events(api)
    program.clock.forward(timedelta(seconds=1))
    program.run()
    assert stored_events(api) == [("a-worker-0", "Waiting", "1 of 4 workers exist")]


def test_a_burst_of_jobs_is_not_one_of_events_and_keeps_no_other_namespace_waiting(api: FakeApi) -> None:
    for number in range(PER_PASS + 10):
        pod = worker(f"j{number}", 0, 4, "many")
        api.put(path_of(pod), pod)
    for number in range(PER_PASS):
        pod = worker("other", 0, 4, f"n{number}")
        api.put(path_of(pod), pod)
    program = Program(api)
    program.run()
    assert sum(name.startswith("j") for name, _, _ in stored_events(api)) == PER_NAMESPACE
    assert len(stored_events(api)) == PER_PASS
    program.run()
    assert len(stored_events(api)) == PER_PASS + 2 * PER_NAMESPACE


def test_an_event_that_cannot_be_written_stops_nothing(api: FakeApi) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 8)
    api.refuse = "/events/"
    Program(api).run()
    assert {gates for _, gates in state(api, "a-").values()} == {0}
    assert not stored_events(api)


def test_events_that_fail_slowly_are_not_tried_one_after_the_other(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        pod = worker(f"j{number}", 0, 4)
        api.put(path_of(pod), pod)
    tried: list[str] = []

    def create(path: str, _: Any) -> Any:
        tried.append(path)
        raise ApiError("timed out")

    program, working = Program(api), api.create
    monkeypatch.setattr(api, "create", create)
    program.run()
    program.run()
    assert len(tried) == 1
    monkeypatch.setattr(api, "create", working)
    program.clock.forward(PAUSE)
    program.run()
    assert len(stored_events(api)) == 5


def test_events_that_one_namespace_refuses_are_written_in_others(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        pod = worker(f"j{number}", 0, 4)
        api.put(path_of(pod), pod)
    create, refusals = api.create, [ForbiddenError("403")]

    def refuse_first(path: str, document: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return create(path, document)

    monkeypatch.setattr(api, "create", refuse_first)
    Program(api).run()
    assert len(stored_events(api)) == 1


# ---- Single writes -----------------------------------------------------------------------------------------


def stored(api: FakeApi, raw: dict[str, Any]) -> Any:
    api.put(path_of(raw), raw)
    return read_pod(api.objects[path_of(raw)])


def test_a_recreated_pod_of_the_same_name_is_another_pod(api: FakeApi) -> None:
    old = stored(api, worker("a", 0, 4))
    anew = worker("a", 0, 4)
    anew["metadata"]["uid"] = "another"
    api.put(path_of(anew), anew)
    with pytest.raises(ApiError, match=r": 422 .*test"):
        patch(api, old, gate_removal(old))
    assert not delete(api, old)
    assert len(api.objects[path_of(anew)]["spec"]["schedulingGates"]) == 1


def test_gates_of_others_stay(api: FakeApi) -> None:
    raw = launcher("a")
    raw["spec"]["schedulingGates"] = [{"name": "other"}, *raw["spec"]["schedulingGates"], {"name": "third"}]
    pod = stored(api, raw)
    patch(api, pod, gate_removal(pod))
    assert api.objects[path_of(raw)]["spec"]["schedulingGates"] == [{"name": "other"}, {"name": "third"}]


def test_a_pod_without_any_selector_can_be_pinned(api: FakeApi) -> None:
    raw = copy.deepcopy(worker("a", 0, 4))
    del raw["spec"]["nodeSelector"]
    pod = stored(api, raw)
    pinned = patch(api, pod, pin_operations(pod, SERVER_4, "us-02", opened_value(NOW, {})))
    assert pinned
    assert (pinned.pin, pinned.admitted_at) == ("us-02", NOW)


def test_events_that_are_slow_end_before_the_lease_does(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass of 50 s has two leaders, and neither remembers anything."""
    now, create = [0.0], api.create
    for number in range(20):
        pod = worker("a", 0, 4, f"n{number}")
        api.put(path_of(pod), pod)

    def slow(*given: Any) -> Any:
        now[0] += 0.5
        return create(*given)

    program = Program(api)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(api, "create", slow)
    program.run()
    assert now[0] < 5
    for _ in range(10):
        program.run()
    assert len(stored_events(api)) == 20


def test_a_worker_that_started_stays_and_the_others_are_deleted_several_at_a_time(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,024 workers one after the other are more than 20 s, and the Lease lasts 15."""
    store_job(api, "a", 8)
    program = Program(api)
    program.run()
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.pods.fall_behind()
    (started,) = pods(api, "a-worker-2")
    api.put(path_of(started), started | {"status": {"phase": "Running"}})
    meet, get = threading.Barrier(2), api.get

    def together(path: str) -> Any:
        meet.wait(60)
        return get(path)

    monkeypatch.setattr(api, "get", together)
    program.run()
    assert list(state(api, "a-worker")) == ["a-worker-2"]


def test_what_another_leader_let_through_meanwhile_ends_no_program(api: FakeApi) -> None:
    store_job(api, "a", 4)
    behind = Program(api)
    behind.pods.fall_behind()
    Program(api).run()
    behind.run()
    assert {gates for _, gates in state(api).values()} == {0}


def test_what_the_last_decision_saw_is_kept_for_answers_while_the_replica_leads(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    assert program.run.scene is None
    program.run()
    assert program.run.scene is not None
    assert [pod.gated for pod in program.run.scene.pods] == [True] * 5
    program.run()
    assert [pod.gated for pod in program.run.scene.pods] == [False] * 5
    program.run.set_leader(is_leader=False)
    assert program.run.scene is None

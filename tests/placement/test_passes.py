"""Tests of passes with a fake API server: the order of writes, refused writes, metrics and Events."""

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
    pins_and_gates,
    pods,
    store_job,
    store_nodes,
    stored_events,
    worker,
)


@pytest.fixture
def preempting_program(api: FakeApi) -> Program:
    """Returns a program in a full cluster, in which a waiting job may preempt the running job."""
    units = replace(UNITS, guarantees=(Guarantee(("prod",), SERVER_4, 0, preempts=True),))
    program = Program(api)
    program.run.units = lambda: units
    store_job(api, "batch", 8)
    for pod in pods(api):
        pod["metadata"]["annotations"][ON_NODE_FAILURE] = "restart"
    program.run()
    bound_counts = Counter[str]()
    for pod in pods(api):
        server = pod["spec"].get("nodeSelector", {}).get(SERVER_4, "us-0")
        pod["spec"]["nodeName"], pod["status"]["phase"] = f"n{server[-1]}-{bound_counts[server]}", "Running"
        bound_counts[server] += 1
    store_job(api, "own", 4, "prod")
    for pod in pods(api, "own"):
        pod["spec"]["priority"] = 9
        pod["metadata"]["creationTimestamp"] = "2026-11-21T11:00:00Z"
    program.clock.forward(timedelta(minutes=10))
    api.writes.clear()
    return program


WORKER_DELETIONS = [f"DELETE batch-worker-{number}" for number in range(8)]


def test_the_launcher_of_a_preempted_job_is_deleted_before_its_workers(
    api: FakeApi, preempting_program: Program
) -> None:
    preempting_program.run()
    assert [text for text in api.writes if text.startswith("DELETE")] == ["DELETE batch-launcher"]
    preempting_program.run()
    assert sorted(text for text in api.writes if text.startswith("DELETE batch-w")) == WORKER_DELETIONS
    events = stored_events(api)
    why = "waits again, with all workers: preempted by prod/own, which has a higher priority"
    assert ("batch-worker-0", "Preempted", why) in events
    assert ("own-worker-0", "Preempts", "preempts team/batch, which has a lower priority") in events
    assert preempting_program.metric_value("ultraserver_placement_preemptions_total") == 1
    assert preempting_program.metric_value("ultraserver_placement_evictions_total") == 0
    preempting_program.run()
    assert pins_and_gates(api, "own-worker-0")["own-worker-0"] in (("us-01", 0), ("us-02", 0))


def forbid_restart(pod: dict[str, Any]) -> None:
    del pod["metadata"]["annotations"][ON_NODE_FAILURE]


def change_uid(pod: dict[str, Any]) -> None:
    pod["metadata"]["uid"] = "another"


@pytest.mark.parametrize(
    ("name", "change"), [("batch", forbid_restart), ("batch", change_uid), ("own-worker-0", change_uid)]
)
def test_no_job_is_preempted_if_pods_of_the_victim_or_the_preemptor_have_changed(
    name: str, change: Callable[[dict[str, Any]], None], api: FakeApi, preempting_program: Program
) -> None:
    preempting_program.pods.fall_behind()
    for pod in pods(api, name):
        change(pod)
    preempting_program.run()
    preempting_program.run()
    assert not [text for text in api.writes if text.startswith("DELETE")]


@pytest.fixture
def api() -> FakeApi:
    fake_api = FakeApi()
    store_nodes(fake_api, 2)
    return fake_api


def test_all_pods_of_a_job_are_admitted_and_its_workers_are_pinned(api: FakeApi) -> None:
    store_job(api, "a", 4)
    Program(api).run()
    workers = {f"a-worker-{index}": ("us-01", 0) for index in range(4)}
    assert pins_and_gates(api) == workers | {"a-launcher": (None, 0)}
    assert [pod["metadata"]["annotations"][OPENED] for pod in pods(api, "a-worker")] == [
        "2026-11-21T12:00:00Z"
    ] * 4
    assert stored_events(api) == [
        ("a-worker-0", "Admitted", "admitted to us-01"),
        ("a-launcher", "Admitted", "admitted to us-01"),
    ]


def test_garbage_collection_is_off_only_during_a_decision(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc_states = []

    def failing_decision(_: Scene) -> None:
        gc_states.append(gc.isenabled())
        raise ZeroDivisionError

    monkeypatch.setattr(Scene, "decision", failing_decision)
    with pytest.raises(ZeroDivisionError):
        Program(api).run()
    assert gc_states == [False]
    assert gc.isenabled()


def test_several_pods_are_written_in_parallel(monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> None:
    barrier, patch = threading.Barrier(2), api.patch

    def patch_in_parallel(path: str, operations: list[Any]) -> Any:
        if any(operation["path"].startswith("/spec/schedulingGates") for operation in operations):
            barrier.wait(60)
        return patch(path, operations)

    monkeypatch.setattr(api, "patch", patch_in_parallel)
    store_job(api, "a", 8)
    api.delete(path_of(next(pods(api, "a-launcher"))))
    Program(api).run()
    assert set(pins_and_gates(api).values()) == {("us-01", 0), ("us-02", 0)}


def test_the_units_of_all_blocks_are_stored_before_a_gate_is_removed(api: FakeApi) -> None:
    """Each worker except the first is written only once, because each write costs time."""
    store_job(api, "a", 8)
    Program(api).run()
    patches = [write for write in api.writes if write.startswith("PATCH")]
    names = [f"PATCH a-worker-{index}" for index in range(8)]
    assert patches[0] == names[0]
    assert sorted(patches[1:]) == sorted([*names, "PATCH a-launcher"])
    (first_pod, *_) = pods(api, "a-worker-0")
    assert first_pod["metadata"]["annotations"][OPENED] == "2026-11-21T12:00:00Z 1=us-02"


def test_only_one_of_two_leaders_with_the_same_copies_admits_a_job(api: FakeApi) -> None:
    """Two leaders may choose different units. A job must not get pins of one and the plan of the other."""
    store_job(api, "a", 8)
    stale_program = Program(api)
    stale_program.pods.fall_behind()
    api.refuse = f"PATCH {path_of(worker('a', 5, 8))}"
    Program(api).run()
    write_count = len(api.writes)
    stale_program.run()
    assert [write for write in api.writes[write_count:] if write.startswith("PATCH")] == []
    assert pins_and_gates(api)["a-worker-5"] == (None, 1)
    api.refuse = ""
    stale_program.pods.catch_up()
    stale_program.clock.forward(FIRST_BACKOFF)
    stale_program.run()
    worker_states = pins_and_gates(api, "a-worker")
    assert [worker_states[f"a-worker-{index}"] for index in range(8)] == [("us-01", 0)] * 4 + [
        ("us-02", 0)
    ] * 4


@pytest.mark.parametrize("refused", [0, 3, 4, 7])
def test_an_admission_with_a_refused_write_is_finished_by_the_next_leader(api: FakeApi, refused: int) -> None:
    store_job(api, "a", 8)
    first_program = Program(api)
    api.refuse = f"PATCH {path_of(worker('a', refused, 8))}"
    first_program.run()
    if refused == 0:  # no plan was stored
        assert {gates for _, gates in pins_and_gates(api).values()} == {1}
    assert pins_and_gates(api)[f"a-worker-{refused}"] == (None, 1)
    assert (
        first_program.metrics.registry.get_sample_value(
            "ultraserver_placement_failures_total", {"kind": "write"}
        )
        == 1
    )
    api.refuse = ""
    Program(api).run()
    worker_states = pins_and_gates(api, "a-worker")
    assert {gates for _, gates in worker_states.values()} == {0}
    assert [worker_states[f"a-worker-{index}"][0] for index in range(8)] == ["us-01"] * 4 + ["us-02"] * 4


def test_own_writes_are_used_while_the_watch_is_behind(api: FakeApi) -> None:
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
    assert {unit for unit, _ in pins_and_gates(api, "b-worker").values()} == {"us-02"}


def test_a_program_with_stale_copies_writes_nothing(api: FakeApi) -> None:
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


def test_a_job_with_a_refused_write_backs_off_and_an_event_has_the_reason(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    api.refuse = "PATCH /api/v1/namespaces/team/pods/a-worker-0"
    patched_paths, patch = list[str](), api.patch
    monkeypatch.setattr(
        api, "patch", lambda path, *operations: (patched_paths.append(path), patch(path, *operations))[1]
    )
    program = Program(api)
    program.run()
    patch_count = len(patched_paths)
    program.run()
    program.run()
    assert len(patched_paths) == patch_count
    [message] = [message for name, _, message in stored_events(api) if name == "a-worker-0"]
    assert "refused to change its pods: PATCH /api/v1/namespaces/team/pods/a-worker-0" in message
    store_job(api, "b", 8)  # it needs both UltraServers, so the job that backs off must hold neither
    program.run()
    assert {gates for _, gates in pins_and_gates(api, "b-").values()} == {0}


def test_after_a_refused_write_most_other_pods_of_the_job_are_not_written(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched_paths = list[str]()

    def refuse(path: str, *_: Any) -> Any:
        patched_paths.append(path)
        threading.Event().wait(0.01)  # the duration of a call
        raise ApiError("PATCH: 422")

    monkeypatch.setattr(api, "patch", refuse)
    store_nodes(api, 50)
    store_job(api, "a", 200)
    Program(api).run()
    assert 1 <= len(patched_paths) < 100


def test_after_a_conflict_the_job_backs_off_and_the_next_pass_admits_the_next_job(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who changes Pods all the time delays only this job, and no job of other users."""
    patched_paths, patch = list[str](), api.patch

    def conflict(path: str, operations: list[Any]) -> Any:
        patched_paths.append(path)
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
    assert {gates for _, gates in pins_and_gates(api, "b-").values()} == {0}
    program.run()
    assert sum("/a-" in path for path in patched_paths) == 1
    assert "refused to change its pods: PATCH: 409" in stored_events(api)[-1][2]


def test_constant_changes_of_a_pod_do_not_prevent_a_write(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may change an annotation fifty times a second. Then pins and deletions must still succeed."""
    ticks, patch, delete = iter(range(1000)), api.patch, api.delete

    def annotate(path: str) -> None:
        raw = copy.deepcopy(api.objects[path])
        raw["metadata"]["annotations"]["tick"] = str(next(ticks))
        api.put(path, raw)

    def patch_after_change(path: str, operations: list[Any]) -> Any:
        annotate(path)
        return patch(path, operations)

    def delete_after_change(path: str, preconditions: Any) -> Any:
        annotate(path)
        return delete(path, preconditions)

    monkeypatch.setattr(api, "patch", patch_after_change)
    monkeypatch.setattr(api, "delete", delete_after_change)
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    assert {gates for _, gates in pins_and_gates(api).values()} == {0}
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.run()
    assert list(pins_and_gates(api)) == ["a-launcher"]


def test_a_pass_without_time_left_begins_no_admission_and_the_next_pass_continues(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 4)
    ticks = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    program = Program(api, max_seconds=2.0)
    assert program.run() == 0.0
    assert {gates for _, gates in pins_and_gates(api, "a-").values()} == {0}
    assert {gates for _, gates in pins_and_gates(api, "b-").values()} == {1}
    program.run()
    assert {gates for _, gates in pins_and_gates(api).values()} == {0}


def test_after_a_decision_that_takes_all_the_time_of_a_pass_one_job_is_admitted(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 4)
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    program = Program(api, max_seconds=3.0)
    assert program.run() == 0.0
    assert {gates for _, gates in pins_and_gates(api, "a-").values()} == {0}
    program.run()
    assert {gates for _, gates in pins_and_gates(api).values()} == {0}


def test_workers_without_nodes_are_deleted_and_new_workers_get_another_unit(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    api.objects["/api/v1/nodes/n1-2"]["spec"] = {"unschedulable": True}
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.run()
    assert list(pins_and_gates(api)) == ["a-launcher"]
    assert (
        "a-worker-0",
        "Evicted",
        "admitted, but without all its nodes after 120 s: not every worker got a node",
    ) in stored_events(api)
    assert program.metric_value("ultraserver_placement_evictions_total") == 4
    for index in range(4):
        new_pod = worker("a", index, 4)
        new_pod["metadata"]["uid"] += "/again"
        api.put(path_of(new_pod), new_pod)
    program.run()
    assert {unit for unit, _ in pins_and_gates(api, "a-worker").values()} == {"us-02"}


def test_a_pod_that_has_started_since_the_decision_is_not_deleted(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.pods.fall_behind()
    for pod in list(pods(api, "a-worker")):
        api.put(path_of(pod), pod | {"status": {"phase": "Running"}})
    program.run()
    assert len(pins_and_gates(api, "a-worker")) == 4


def test_a_replica_that_leads_again_gives_admitted_jobs_the_whole_time(api: FakeApi) -> None:
    store_job(api, "a", 4)
    program = Program(api)
    program.run()
    program.run()
    program.run.set_leader(is_leader=False)
    program.clock.forward(timedelta(minutes=5))
    program.run.set_leader(is_leader=True)
    program.run()
    assert len(pins_and_gates(api, "a-worker")) == 4


def test_the_metrics_of_jobs_admissions_and_units(api: FakeApi) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 8)
    program = Program(api)
    program.run.units = lambda: UNITS | UnitSettings({INSTANCE_TYPE: UnitKind(8)})
    prefix = "ultraserver_placement"

    def waiting_by_reason() -> dict[str, float]:
        (metric_family,) = (
            metric for metric in program.metrics.registry.collect() if metric.name == f"{prefix}_waiting_jobs"
        )
        return {sample.labels["reason"]: sample.value for sample in metric_family.samples}

    assert not any(waiting_by_reason().values())
    assert len(waiting_by_reason()) == 7
    program.run()
    assert waiting_by_reason() == {
        "units": 1,
        **dict.fromkeys(("pods", "backoff", "guarantee", "reserved", "nodes", "bug"), 0),
    }
    assert program.metric_value(f"{prefix}_oldest_wait_seconds") == 60
    assert program.metric_value(f"{prefix}_admissions_total") == 1
    assert program.metric_value(f"{prefix}_last_decision_timestamp_seconds") == NOW.timestamp()
    for nodes, unit_state, count in (("4", "free", 1), ("4", "used", 1), ("2", "free", 2), ("8", "part", 1)):
        labels = {"nodes": nodes, "state": unit_state}
        assert program.metrics.registry.get_sample_value(f"{prefix}_units", labels) == count, labels
    program.run.set_leader(is_leader=False)
    assert not any(waiting_by_reason().values())


# ---- Events ------------------------------------------------------------------------------------------------


def test_a_reason_is_reported_once_and_again_after_a_change_or_a_long_time(api: FakeApi) -> None:
    store_job(api, "a", 12)
    program = Program(api)

    def new_events() -> list[tuple[str, str, str]]:
        event_count = len(stored_events(api))
        program.run()
        return stored_events(api)[event_count:]

    assert [(name, reason) for name, reason, _ in new_events()] == [
        ("a-worker-0", "Waiting"),
        ("a-launcher", "Waiting"),
    ]
    assert new_events() == []
    api.objects["/api/v1/nodes/n1-2"]["spec"] = {"unschedulable": True}
    assert new_events() == []
    program.clock.forward(PAUSE)
    assert "node n1-2 is cordoned" in new_events()[0][2]
    program.clock.forward(PAUSE)
    assert new_events() == []
    program.clock.forward(REPEAT)
    assert len(new_events()) == 2


def test_a_job_whose_pods_were_just_created_is_not_reported(api: FakeApi) -> None:
    young_pod = worker("a", 0, 4)
    young_pod["metadata"]["creationTimestamp"] = "2026-11-21T11:59:56Z"
    api.put(path_of(young_pod), young_pod)
    program = Program(api)
    program.run()
    assert not stored_events(api)
    program.clock.forward(timedelta(seconds=1))
    program.run()
    assert stored_events(api) == [("a-worker-0", "Waiting", "1 of 4 workers exist")]


def test_the_events_of_a_pass_are_limited_in_all_and_for_each_namespace(api: FakeApi) -> None:
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


def test_jobs_are_admitted_although_events_cannot_be_written(api: FakeApi) -> None:
    store_job(api, "a", 4)
    store_job(api, "b", 8)
    api.refuse = "/events/"
    Program(api).run()
    assert {gates for _, gates in pins_and_gates(api, "a-").values()} == {0}
    assert not stored_events(api)


def test_after_a_failed_event_no_event_is_written_for_a_time(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        pod = worker(f"j{number}", 0, 4)
        api.put(path_of(pod), pod)
    tried_paths: list[str] = []

    def create(path: str, _: Any) -> Any:
        tried_paths.append(path)
        raise ApiError("timed out")

    program, working_create = Program(api), api.create
    monkeypatch.setattr(api, "create", create)
    program.run()
    program.run()
    assert len(tried_paths) == 1
    monkeypatch.setattr(api, "create", working_create)
    program.clock.forward(PAUSE)
    program.run()
    assert len(stored_events(api)) == 5


def test_a_forbidden_event_does_not_prevent_other_events(
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


def store_and_read_pod(api: FakeApi, raw: dict[str, Any]) -> Any:
    api.put(path_of(raw), raw)
    return read_pod(api.objects[path_of(raw)])


def test_a_write_for_a_deleted_pod_does_not_change_a_new_pod_of_its_name(api: FakeApi) -> None:
    old_pod = store_and_read_pod(api, worker("a", 0, 4))
    new_pod = worker("a", 0, 4)
    new_pod["metadata"]["uid"] = "another"
    api.put(path_of(new_pod), new_pod)
    with pytest.raises(ApiError, match=r": 422 .*test"):
        patch(api, old_pod, gate_removal(old_pod))
    assert not delete(api, old_pod)
    assert len(api.objects[path_of(new_pod)]["spec"]["schedulingGates"]) == 1


def test_other_gates_of_a_pod_are_not_removed(api: FakeApi) -> None:
    raw = launcher("a")
    raw["spec"]["schedulingGates"] = [{"name": "other"}, *raw["spec"]["schedulingGates"], {"name": "third"}]
    pod = store_and_read_pod(api, raw)
    patch(api, pod, gate_removal(pod))
    assert api.objects[path_of(raw)]["spec"]["schedulingGates"] == [{"name": "other"}, {"name": "third"}]


def test_a_pod_without_a_node_selector_can_be_pinned(api: FakeApi) -> None:
    raw = copy.deepcopy(worker("a", 0, 4))
    del raw["spec"]["nodeSelector"]
    pod = store_and_read_pod(api, raw)
    pinned_pod = patch(api, pod, pin_operations(pod, SERVER_4, "us-02", opened_value(NOW, {})))
    assert pinned_pod
    assert (pinned_pod.pin, pinned_pod.admitted_at) == ("us-02", NOW)


def test_slow_events_do_not_make_a_pass_longer_than_the_lease(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pass that lasts longer than the Lease, another replica begins to lead."""
    now, create = [0.0], api.create
    for number in range(20):
        pod = worker("a", 0, 4, f"n{number}")
        api.put(path_of(pod), pod)

    def create_slowly(*arguments: Any) -> Any:
        now[0] += 0.5
        return create(*arguments)

    program = Program(api)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(api, "create", create_slowly)
    program.run()
    assert now[0] < 5
    for _ in range(10):
        program.run()
    assert len(stored_events(api)) == 20


def test_a_started_worker_stays_and_the_other_workers_are_deleted_in_parallel(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To delete 1,024 workers one after the other takes more than 20 s, and the Lease lasts 15 s."""
    store_job(api, "a", 8)
    program = Program(api)
    program.run()
    program.run()
    program.clock.forward(timedelta(minutes=2))
    program.pods.fall_behind()
    (started_pod,) = pods(api, "a-worker-2")
    api.put(path_of(started_pod), started_pod | {"status": {"phase": "Running"}})
    barrier, get = threading.Barrier(2), api.get

    def get_in_parallel(path: str) -> Any:
        barrier.wait(60)
        return get(path)

    monkeypatch.setattr(api, "get", get_in_parallel)
    program.run()
    assert list(pins_and_gates(api, "a-worker")) == ["a-worker-2"]


def test_a_pass_does_not_fail_if_another_leader_has_admitted_the_job(api: FakeApi) -> None:
    store_job(api, "a", 4)
    stale_program = Program(api)
    stale_program.pods.fall_behind()
    Program(api).run()
    stale_program.run()
    assert {gates for _, gates in pins_and_gates(api).values()} == {0}


def test_the_inputs_of_the_last_decision_are_kept_while_the_replica_leads(api: FakeApi) -> None:
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

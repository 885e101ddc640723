"""Tests of ``queue``: waiting jobs in the order of the placement program, and when they start."""

import json
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from common.times import stamp
from contract.keys import JOB, OPENED, SERVER_4, TIME_LIMIT
from kube.api import Object
from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.listing import LEASE_PATH
from kubectl_ultraserver.messages import AHEAD, ENDLESS, ESTIMATE, EXACT, ORDER, RESERVED, out_of_time
from kubectl_ultraserver.queue import MAX_SECONDS, Queue, position_text, queue
from kubectl_ultraserver.table import Table
from kubectl_ultraserver.terminal import explanation_lines
from placement.observe.model import units_of
from tests.docs.blocks import blocks_of
from tests.kubectl_ultraserver.api import Cluster
from tests.kubectl_ultraserver.build import NODES, fleet, gated, pod, run_plugin, stored_job, workers
from tests.placement.stored import path_of, store_nodes
from tests.placement.world import HOUR, NOW, changed_nodes

CURRENT_LEASE = {"spec": {"renewTime": "2026-11-21T11:59:55.000000Z", "holderIdentity": "placement-1"}}


def waiting_job(job: str, count: int, minutes: int, namespace: str = "team", **labels: Any) -> list[Object]:
    """Returns the workers of a job that has waited for this many minutes."""
    pods = gated(workers(job, count), count)
    for worker in pods:
        created = stamp(NOW - timedelta(minutes=minutes))
        worker["metadata"] |= {"namespace": namespace, "creationTimestamp": created}
        worker["metadata"]["uid"] = f"{namespace}/{worker['metadata']['name']}"
        worker["metadata"]["labels"] |= {JOB: f"{namespace}.{job}"} | labels
    return pods


def running_job(
    job: str, *servers: int, minutes: int = 60, limit: str = "", namespace: str = "other"
) -> list[Object]:
    """Returns the workers of a job of another team that was admitted to UltraServers ``minutes`` ago."""
    nodes = [f"n{server}-{number}" for server in servers for number in range(4)]
    pods = waiting_job(job, len(nodes), minutes, namespace)
    for worker, node in zip(pods, nodes, strict=True):
        worker["spec"] |= {"nodeName": node, "schedulingGates": []}
        worker["spec"]["nodeSelector"] = {SERVER_4: f"us-0{node[1]}"}
        worker["metadata"]["annotations"][OPENED] = stamp(NOW - timedelta(minutes=minutes))
        worker["metadata"]["annotations"] |= {TIME_LIMIT: limit} if limit else {}
        worker["status"] = {"phase": "Running"}
    return pods


def queue_of(
    *jobs: Iterable[Object], lease: Object | None = CURRENT_LEASE, nodes: Any = NODES, **attributes: Any
) -> Queue:
    return queue(fleet(nodes.values(), [pod for job in jobs for pod in job], **attributes), (), lease)


def rows(result: Queue) -> list[tuple[int | None, str, str]]:
    return [(entry.position, entry.job, entry.text) for entry in result.entries]


def test_the_job_with_the_reservation_is_next_and_jobs_behind_it_start_when_units_become_free() -> None:
    busy = [running_job("a", 1, limit="2h"), running_job("b", 2, limit="90m")]
    result = queue_of(*busy, waiting_job("small", 4, 20), waiting_job("train", 8, 30))
    assert result.text == "2 jobs wait at 12:00 UTC; team/train is next and starts in 30 min (by 12:30 UTC)."
    assert rows(result) == [
        (1, "team/train", "needs 2 whole UltraServers; 1 free"),
        (2, "team/small", "needs 1 whole UltraServer; 1 free, reserved for team/train"),
    ]
    first, second = result.entries
    assert (first.start, first.latest, first.units) == (NOW + HOUR / 2, NOW + HOUR / 2, ("us-02", "us-03"))
    assert (second.start, second.latest, second.units, second.reason) == (NOW + HOUR, None, (), "reserved")
    assert (first.start_note, second.start_note) == ("when other/b ends", "when other/a ends")
    assert result.notes == (ORDER, RESERVED, EXACT, ESTIMATE)


def test_a_job_that_starts_before_a_job_with_an_earlier_position_is_ahead_of_that_job() -> None:
    busy = [
        running_job("a", 1, limit="2h"),
        running_job("b", 2, limit="90m"),
        running_job("c", 3, limit="3h"),
    ]
    short = waiting_job("short", 4, 20)
    for worker in short:
        worker["metadata"]["annotations"][TIME_LIMIT] = "30m"
    result = queue_of(*busy, waiting_job("train", 12, 30), short)
    assert result.text == (
        "2 jobs wait at 12:00 UTC; team/short starts in 30 min (about 12:30 UTC), ahead of team/train; "
        "team/train is first in the order and starts in 2 h (by 14:00 UTC)."
    )
    assert result.notes == (ORDER, RESERVED, AHEAD, EXACT, ESTIMATE)
    first, second = result.entries
    assert (first.job, first.start, first.ahead) == ("team/train", NOW + 2 * HOUR, ())
    assert (second.job, second.start, second.ahead) == ("team/short", NOW + HOUR / 2, ("team/train",))
    assert (first.limit, second.limit) == (None, 1800)
    assert second.start_note == "when other/b ends, ahead of team/train"


def test_a_job_that_starts_after_another_waiting_job_names_that_job() -> None:
    busy = [running_job(name, node, limit="1h") for node, name in enumerate("abc", 1)]
    first, second = queue_of(*busy, waiting_job("train", 12, 30), waiting_job("later", 12, 20)).entries
    assert (first.job, first.after_waiting) == ("team/train", ())
    assert (second.after, second.after_waiting) == (("team/train",), ("team/train",))
    assert second.start_note == "when team/train (which also waits) ends"


def test_the_latest_start_is_the_time_of_the_reservation_and_an_earlier_start_is_expected() -> None:
    result = queue_of(
        running_job("a", 1),
        running_job("b", 2, limit="3h"),
        running_job("c", 3, limit="4h"),
        waiting_job("train", 4, 30),
    )
    assert (
        result.text
        == "1 job waits at 12:00 UTC; team/train is next and starts in 60 min (about 13:00, by 14:00 UTC)."
    )
    assert result.notes == (RESERVED, EXACT, ESTIMATE)


def test_priority_and_share_explain_the_order_and_a_later_job_may_have_the_reservation() -> None:
    busy = [
        running_job("a", 1, limit="2h"),
        running_job("b", 2, limit="90m"),
        running_job("c", 3, namespace="third"),
    ]
    urgent = waiting_job("urgent", 4, 1, "other")
    for worker in urgent:
        worker["spec"]["priority"] = 1000
    result = queue_of(*busy, waiting_job("train", 12, 30), waiting_job("more", 4, 40, "other"), urgent)
    assert [(entry.job, entry.priority, entry.share) for entry in result.entries] == [
        ("other/urgent", 1000, 8 / 12),
        ("team/train", 0, 0.0),
        ("other/more", 0, 8 / 12),
    ]
    assert "; team/train has the reservation and starts " in result.text
    assert ORDER in result.notes
    assert ORDER not in queue_of(*busy, urgent).notes


def test_a_start_that_depends_on_a_job_without_a_limit_is_an_estimate() -> None:
    busy = [running_job("a", 1), running_job("b", 2, limit="90m"), running_job("c", 3, minutes=300)]
    result = queue_of(*busy, waiting_job("train", 8, 30))
    assert (
        result.text == "1 job waits at 12:00 UTC; team/train is next and starts in 60 min (about 13:00 UTC)."
    )
    assert result.entries[0].start == NOW + HOUR
    assert result.entries[0].text == "needs 2 whole UltraServers; 0 free"
    assert result.notes == (RESERVED, ESTIMATE)


def test_the_reason_why_a_start_is_not_known_is_a_note() -> None:
    result = queue_of(
        *(running_job(name, unit, minutes=1500) for unit, name in enumerate("abc", 1)),
        waiting_job("train", 8, 30),
    )
    assert result.text == "1 job waits at 12:00 UTC; team/train is next and its start time is not known."
    assert result.notes == (ENDLESS,)


def test_if_the_time_for_the_computation_ends_only_the_job_with_the_reservation_has_a_start() -> None:
    busy = [running_job("a", 1, limit="2h"), running_job("b", 2, limit="90m")]
    pods = [pod for job in [*busy, waiting_job("small", 4, 20), waiting_job("train", 8, 30)] for pod in job]
    result = queue(fleet(NODES.values(), pods), (), CURRENT_LEASE, lambda: False)
    assert [entry.start for entry in result.entries] == [NOW + HOUR / 2, None]
    assert result.notes[-1] == out_of_time(MAX_SECONDS)


def test_a_start_is_an_estimate_if_other_namespaces_may_use_the_units_before_the_job() -> None:
    same_team = running_job("a", 1)
    for worker in same_team:
        worker["metadata"] |= {"namespace": "team", "labels": worker["metadata"]["labels"] | {JOB: "team.a"}}
    result = queue_of(
        same_team,
        running_job("b", 2, limit="90m"),
        running_job("c", 3, limit="2h"),
        waiting_job("train", 12, 30),
    )
    (entry,) = result.entries
    assert (entry.start, entry.latest) == (NOW + HOUR, None)
    assert result.notes == (
        "jobs of other namespaces may use the reserved units before team/train",
        RESERVED,
        ESTIMATE,
    )


def test_a_blocked_job_has_no_position_and_a_job_that_fits_comes_first() -> None:
    nodes = {node.name: node for node in changed_nodes(NODES, n1_0={"cordoned": True})}
    parts = waiting_job("parts", 4, 60)[:3]
    result = queue_of(
        parts, waiting_job("huge", 16, 50), waiting_job("fits", 4, 1), waiting_job("train", 8, 5), nodes=nodes
    )
    assert rows(result) == [
        (1, "team/train", "fits us-02, us-03; see its Events if it still waits"),
        (2, "team/fits", "needs 1 whole UltraServer; 0 free"),
        (None, "team/parts", "3 of 4 workers exist"),
        (
            None,
            "team/huge",
            "needs 4 whole UltraServers; 0 free; at most 2 can become free; us-01: node n1-0 is cordoned",
        ),
    ]
    assert (
        result.text
        == "4 jobs wait at 12:00 UTC, 2 of them blocked; team/train fits now; team/fits is next and starts "
        "in 24 h (about 2026-11-22 12:00 UTC)."
    )
    assert [entry.start for entry in result.entries[::2]] == [NOW, None]
    assert [entry.workers for entry in result.entries] == [8, 4, 4, 16]
    assert queue_of(parts).text == "1 job waits at 12:00 UTC; none can be admitted at present."
    assert queue_of() == Queue("No job waits.", ())


def test_a_blocked_job_names_the_broken_nodes_and_not_the_units_that_it_does_not_select() -> None:
    nodes = {node.name: node for node in changed_nodes(NODES, n1_0={"cordoned": True})}
    pinned = waiting_job("pinned", 4, 30)
    for worker in pinned:
        worker["spec"]["nodeSelector"] = {SERVER_4: "us-01"}
    (entry,) = queue_of(pinned, nodes=nodes).entries
    assert entry.text == (
        "needs 1 whole UltraServer; 0 free; at most 0 can become free; us-01: node n1-0 is cordoned"
    )


def test_free_units_that_a_guarantee_keeps_for_another_team_are_reported() -> None:
    guaranteed = Table(units=units_of([], [{"namespaces": "vision", "unit": SERVER_4, "count": 2}]))
    jobs = [waiting_job("first", 4, 30), waiting_job("second", 4, 20), waiting_job("large", 8, 10)]
    _, second, large = queue_of(*jobs, table=guaranteed).entries
    assert second.text == "needs 1 whole UltraServer; 2 free, guaranteed to vision"
    assert large.text == (
        "needs 2 whole UltraServers; 3 can be used, and 2 of them are guaranteed to vision: "
        "use fewer workers, or lower a guarantee"
    )


def test_a_pod_without_devices_that_fills_a_unit_is_named() -> None:
    def cpu_pod(name: str, cpu: str) -> Object:
        result = pod(name, name, "", nodeName="n3-0")
        result["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        del result["metadata"]["labels"]
        return result

    pods = waiting_job("train", 12, 30)
    for worker in pods:
        worker["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    result = queue_of([cpu_pod("small", "10"), cpu_pod("large", "90")], pods)
    cause = "does not have enough cpu, and among the pods without devices, team/large uses the most of it"
    assert result.notes == (f"us-03: node n3-0 {cause}",)
    # The launcher of another job ends with that job, at an unknown time.
    launcher = cpu_pod("large", "95")
    launcher["metadata"]["annotations"] = {JOB: "team.other"}
    (entry,) = queue_of([launcher], pods).entries
    assert (entry.units, entry.start, entry.latest) == (("us-01", "us-02", "us-03"), None, None)


def test_with_unseen_pods_or_without_the_program_no_start_is_shown() -> None:
    jobs = [running_job("a", 1, limit="2h"), waiting_job("small", 4, 1), waiting_job("train", 12, 30)]
    unseen_pods = queue_of(*jobs, unseen="pods of other namespaces were not examined")
    assert unseen_pods.text == "2 jobs wait at 12:00 UTC; which job is next is not known."
    assert unseen_pods.notes == (
        "pods of other namespaces were not examined; so positions and times are not known",
    )
    assert rows(queue_of(waiting_job("small", 4, 1), unseen="x")) == [(None, "team/small", "not known")]
    stopped_program = queue_of(*jobs, lease=None)
    assert stopped_program.text.startswith(
        "2 jobs wait at 12:00 UTC; the placement program does not run: it has no Lease"
    )
    for result in (unseen_pods, stopped_program):
        assert not any(entry.start or entry.units for entry in result.entries)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns the cluster of the example in docs/kubectl.md: three UltraServers, two of them in use."""
    cluster = Cluster()
    store_nodes(cluster, 3)
    cluster.put("/apis", {"groups": []})
    cluster.put(LEASE_PATH, {"spec": {"renewTime": "2100-01-01T00:00:00Z"}})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (cluster, "team-a"))
    monkeypatch.setattr("kubectl_ultraserver.listing.datetime", SimpleNamespace(now=lambda _: NOW))
    jobs = [
        running_job("long", 1, limit="2h", namespace="team-c"),
        running_job("eval", 2, limit="90m", namespace="team-b"),
        waiting_job("train", 8, 30, "team-a"),
        waiting_job("huge", 16, 25, "team-a"),
        waiting_job("small", 4, 20, "team-c"),
        waiting_job("parts", 4, 5, "team-c")[:3],
    ]
    for worker in chain(*jobs):
        cluster.put(path_of(worker), worker)
    return cluster


def test_the_command_prints_the_example_of_the_documentation(api: Cluster) -> None:
    assert api.objects
    code, out, err = run_plugin("queue")
    assert (code, err) == (0, "")
    assert out in [block.text for block in blocks_of("docs/kubectl.md")], out


def test_why_prints_the_example_of_the_page_for_data_scientists(
    api: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ``demo`` waits in the cluster of docs/kubectl.md, and the test adds a broken UltraServer."""
    store_nodes(api, 4)
    api.objects["/api/v1/nodes/n4-2"]["spec"] = {"unschedulable": True}
    api.put("/apis", {"groups": [{"versions": [{"groupVersion": "kubeflow.org/v2beta1"}]}]})
    api.put("/apis/kubeflow.org/v2beta1", {"resources": [{"name": "mpijobs", "kind": "MPIJob"}]})
    api.put("/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/demo", stored_job("demo"))
    for worker in waiting_job("demo", 4, 10, "default"):
        api.put(path_of(worker), worker)
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (api, "default"))
    code, out, err = run_plugin("why", "demo")
    assert (code, err) == (0, "")
    assert out in [block.text for block in blocks_of("docs/jobs.md")], out


def test_a_worker_that_has_ended_is_not_missing(api: Cluster) -> None:
    path = "/api/v1/namespaces/team-c/pods/parts-worker-3"
    (ended,) = waiting_job("parts", 4, 60, "team-c")[3:]
    api.put(path, ended | {"status": {"phase": "Succeeded"}})
    assert "3         team-c/parts  4" in run_plugin("queue")[1]


def test_a_namespace_is_selected_and_json_has_all_data(api: Cluster) -> None:
    data = json.loads(run_plugin("queue", "-n", "team-c", "-o", "json")[1])
    assert data["text"].startswith("4 jobs wait at 12:00 UTC, 2 of them blocked; ")
    assert [(job["position"], job["job"]) for job in data["jobs"]] == [
        (2, "team-c/small"),
        (None, "team-c/parts"),
    ]
    assert len(json.loads(run_plugin("queue", "-n", "team-c", "-A", "-o", "json")[1])["jobs"]) == 4
    first = json.loads(run_plugin("queue", "-o", "json")[1])["jobs"][0]
    assert first == {
        "position": 1,
        "namespace": "team-a",
        "job": "team-a/train",
        "workers": 8,
        "priority": 0,
        "share": 0.0,
        "since": "2026-11-21T11:30:00Z",
        "limit": None,
        "reason": "units",
        "text": "needs 2 whole UltraServers; 1 free",
        "start": "2026-11-21T12:30:00Z",
        "latest": "2026-11-21T12:30:00Z",
        "after": ["team-b/eval"],
        "after_waiting": [],
        "ahead": [],
        "units": ["us-02", "us-03"],
    }
    api.refuse = "GET /api/v1/pods?"
    code, out, _ = run_plugin("queue")
    assert code == 0
    assert out.startswith("2 jobs wait at 12:00 UTC, 1 of them blocked; which job is next is not known.\n")
    assert "note: pods of other namespaces were not examined: cannot list pods" in out


def test_why_begins_with_the_position_and_the_start_that_the_queue_shows(api: Cluster) -> None:
    assert api.objects
    jobs = {job["job"]: job for job in json.loads(run_plugin("queue", "-o", "json")[1])["jobs"]}
    first, second, *_ = run_plugin("why", "train")[1].splitlines()
    text = "waits in position 1 of 2, and starts in 30 min (by 12:30 UTC), when team-b/eval ends"
    assert first == f"job team-a/train: {text}"
    assert f" does not admit the job: {jobs['team-a/train']['text']}; " in second
    needs = "needs 4 whole UltraServers; 1 free, reserved for team-a/train; at most 3 can become free"
    assert run_plugin("why", "huge")[1].splitlines()[0] == f"job team-a/huge: is blocked: {needs}"
    answer = json.loads(run_plugin("why", "small", "-n", "team-c", "-o", "json")[1])
    assert answer["jobs"] == [jobs["team-c/small"]]
    (finding,) = answer["findings"]
    assert [*finding] == ["code", "kind", "name", "text", "details", "remedy"]
    assert finding["code"] == "not-admitted"
    api.refuse = "GET /api/v1/pods?"
    unknown = "waits; its position in the queue is not known"
    assert run_plugin("why", "train")[1].startswith(f"job team-a/train: {unknown}\n")


def test_each_group_of_a_job_has_a_line() -> None:
    lines = explanation_lines(
        "leaderworkerset team/set", [], "", {"team/set-0": "waits", "team/set-1": "waits"}
    )
    assert [*lines][:2] == ["team/set-0: waits", "team/set-1: waits"]


def test_the_first_line_about_a_job_that_fits_or_has_no_known_start() -> None:
    fits = queue_of(waiting_job("train", 4, 30))
    assert position_text(fits, fits.entries[0], NOW).startswith(
        "waits in position 1 of 1, and fits us-01; see "
    )
    stopped_program = queue_of(running_job("a", 1, 2, 3), waiting_job("train", 4, 30), lease=None)
    text = "waits in position 1 of 1, and its start time is not known"
    assert position_text(stopped_program, stopped_program.entries[0], NOW) == text


def test_a_terminal_shows_that_starts_are_computed(api: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.objects
    messages: list[str] = []
    monkeypatch.setattr(cli, "progress", messages.append)
    run_plugin("queue")
    assert messages[0].startswith("computing when jobs start, for ")
    assert messages[-1] == ""

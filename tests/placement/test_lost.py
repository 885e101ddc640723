"""Tests that a job whose node failed does what its author chose, and that other jobs are not changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.keys import GATE, HOSTNAME, ON_NODE_FAILURE
from placement import messages
from placement.decide.order import RESTART_TIME
from placement.decide.plan import MOST_DEPARTURES
from placement.decide.topology import Topology
from placement.observe.model import Node, Taint, Toleration
from placement.observe.read import read_pod
from tests.helpers import examples
from tests.placement.stored import worker
from tests.placement.world import (
    DEMAND,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bind_pods,
    carry_out,
    changed_nodes,
    decide,
    deleted_pods,
    foreign_pod,
    job,
    placed_jobs,
    select_nodes,
    servers,
    waiting_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from placement.decide.plan import Decision, Memory
    from placement.observe.model import Pod

NODES_OF_UNIT = "n1-0", "n1-1", "n1-2", "n1-3"
FAILURES: tuple[dict[str, Any] | None, ...] = (None, {"ready": False})
"""Changes of a node that has failed: it is gone, or it is not Ready."""
REPAIRS = {"cordoned": True}, {"taints": (Taint("neuron/sick", "", "NoExecute"),)}
"""Changes of a Ready node on which running pods go on and no pod can start: cordoned, and tainted."""


@dataclass
class Fleet:
    """A cluster in which operators recreate deleted pods."""

    nodes: Mapping[str, Node]
    pods: list[Pod]
    now: datetime = NOW
    memory: Memory | None = None
    texts: list[str] = field(default_factory=list)

    def decide(self, after: timedelta = MINUTE, **states: Any) -> Decision:
        """Decides, with some nodes in the given states: twice, because a failure must last some time."""
        for _ in range(2):
            topology = Topology(changed_nodes(self.nodes, **states))
            decision = decide(topology, self.pods, self.now, None, self.memory)
            self.memory, self.now = decision.memory, self.now + after
            if decision.deletions:
                break
        return decision

    def recreate(self, decision: Decision) -> None:
        """Carries out a decision, and recreates the deleted pods with a gate."""
        old_pods = [pod for deletion in decision.deletions for pod in deletion.pods]
        new_fields = {"admitted_at": None, "plan": "", "node": "", "started": False, "created": self.now}
        new_pods = [
            replace(pod, uid=f"{pod.uid}+", gates=(GATE,), demand=DEMAND, **new_fields) for pod in old_pods
        ]
        self.pods = carry_out(self.pods, decision, self.now) + new_pods


def running(choice: str, name: str = "a", names: Iterable[str] = NODES_OF_UNIT, **changes: Any) -> list[Pod]:
    """Returns the pods of a job whose containers run."""
    nodes = select_nodes(servers(4), *names)
    pods = job(name, len(nodes), age=HOUR, on_failure=choice, **changes)
    return bind_pods(pods, nodes, started=True)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_block_moves_to_another_unit_when_its_node_fails(failure: dict[str, Any] | None) -> None:
    fleet = Fleet(servers(3), running("move", names=(*NODES_OF_UNIT, "n2-0", "n2-1", "n2-2", "n2-3")))
    decision = fleet.decide(n1_2=failure)
    assert deleted_pods(decision) == [f"a-worker-{number}" for number in range(4)]
    (deletion,) = decision.deletions
    state = "gone" if failure is None else "not ready"
    assert deletion.why == f"moves from unit us-01 to us-03: node n1-2 is {state}"
    assert deletion.at_once == {"team/a/2/0"}, (
        "only pods on the failed node are deleted without a grace period"
    )
    fleet.recreate(decision)
    assert placed_jobs(fleet.decide(n1_2=failure)) == {"a": "us-03"}


def test_a_job_without_a_choice_waits_for_its_node() -> None:
    fleet = Fleet(servers(2), running(""))
    assert not fleet.decide(n1_0={"ready": False}).deletions


def test_only_a_failure_that_lasts_moves_a_job() -> None:
    fleet = Fleet(servers(2), running("move"))
    assert not fleet.decide(20 * SECOND, n1_0={"ready": False}).deletions
    assert not fleet.decide(20 * SECOND).deletions
    assert not fleet.decide(30 * SECOND, n1_0={"ready": False}).deletions, (
        "the time begins again after the node was Ready"
    )
    assert fleet.decide(n1_0={"ready": False}).deletions


@pytest.mark.parametrize("state", REPAIRS)
def test_a_cordoned_or_tainted_node_moves_a_job_only_if_a_worker_must_be_recreated(
    state: dict[str, Any],
) -> None:
    fleet = Fleet(servers(2), running("move"))
    assert not fleet.decide(n1_0=state).deletions
    first_worker, *other_workers = fleet.pods
    fleet.pods = [replace(first_worker, deleting=True), *other_workers]  # as after `kubectl drain`
    assert deleted_pods(fleet.decide(n1_0=state)) == ["a-worker-1", "a-worker-2", "a-worker-3"]
    fleet = Fleet(servers(2), [*job("a", 4, on_failure="move")[:1], *other_workers])
    assert deleted_pods(fleet.decide(n1_0=state)) == ["a-worker-1", "a-worker-2", "a-worker-3"]


def test_a_taint_that_the_pods_tolerate_is_not_a_failure() -> None:
    demand = replace(DEMAND, tolerations=(Toleration("", "Exists", "", ""),))
    fleet = Fleet(servers(2), [*running("move", demand=demand)[1:], *job("a", 4, on_failure="move")[:1]])
    assert not fleet.decide(n1_0=REPAIRS[1]).deletions


def test_running_workers_without_a_choice_are_not_missing_workers() -> None:
    first_worker, *other_workers = running("move")
    fleet = Fleet(servers(2), [first_worker, *(replace(pod, on_failure="") for pod in other_workers)])
    assert not fleet.decide(n1_1=REPAIRS[0]).deletions


def test_a_node_that_only_another_worker_selects_has_not_failed() -> None:
    pods = [
        replace(pod, demand=replace(DEMAND, selector={**pod.demand.selector, HOSTNAME: pod.node}))
        for pod in running("restart")
    ]
    assert not Fleet(servers(2), pods[:3]).decide().deletions


def test_no_pod_is_deleted_before_another_unit_is_free() -> None:
    other_job = running("", "b", ("n2-0", "n2-1", "n2-2", "n2-3"))
    fleet = Fleet(servers(2), [*running("move"), *other_job])
    decision = fleet.decide(n1_0={"ready": False})
    assert not decision.deletions
    why = "node n1-0 is not ready; cannot move yet: needs 1 whole UltraServer; 0 free; "
    assert waiting_reasons(decision) == {"a": f"{why}us-01: node n1-0 is not ready; us-02: held by team/b"}
    assert f"{decision.waiting[0].text()}; " == why
    fleet.pods = fleet.pods[:4]
    assert fleet.decide(n1_0={"ready": False}).deletions


def test_the_new_unit_of_a_block_is_held_until_its_new_pods_exist() -> None:
    fleet = Fleet(servers(2), [*running("move"), *job("b", 4, age=2 * HOUR, priority=9)])
    fleet.nodes = servers(1)  # at first, b cannot start
    fleet.decide(n1_0={"ready": False})
    fleet.nodes = servers(2)
    decision = fleet.decide(SECOND, n1_0={"ready": False})
    assert deleted_pods(decision)
    assert not decision.admissions, "the job that moves comes before all others"
    old_pods = fleet.pods[:4]
    fleet.pods = fleet.pods[4:]
    assert not fleet.decide(SECOND, n1_0={"ready": False}).admissions
    new_pods = job("a", 4, age=-MINUTE, on_failure="move")
    assert old_pods[0].job == new_pods[0].job
    fleet.pods += new_pods
    assert placed_jobs(fleet.decide(SECOND, n1_0={"ready": False})) == {"a": "us-02"}


def test_a_held_unit_is_free_again_if_its_job_is_not_recreated() -> None:
    fleet = Fleet(servers(2), running("move"))
    assert fleet.decide(n1_0={"ready": False}).deletions
    fleet.pods = job("b", 4)
    assert not placed_jobs(fleet.decide(SECOND, n1_0={"ready": False}))
    assert placed_jobs(fleet.decide(2 * MINUTE, n1_0={"ready": False})) == {"b": "us-02"}


def test_a_larger_job_of_the_same_name_does_not_come_first() -> None:
    fleet = Fleet(servers(3), running("move"))
    assert fleet.decide(n1_0={"ready": False}).deletions
    fleet.pods = [*job("a", 8, age=-MINUTE, on_failure="move"), *job("b", 8, age=HOUR)]
    assert placed_jobs(fleet.decide(2 * MINUTE)) == {"b": "us-01 us-02"}


def test_a_drained_job_that_moves_comes_first_with_all_its_workers() -> None:
    first_worker, *other_workers = running("move")
    fleet = Fleet(servers(1), [replace(first_worker, deleting=True), *other_workers, *job("b", 4, age=HOUR)])
    fleet.decide(n1_0=REPAIRS[0])
    fleet.nodes = servers(2)
    decision = fleet.decide(SECOND, n1_0=REPAIRS[0])
    assert deleted_pods(decision)
    fleet.pods = [*job("b", 4, age=HOUR), *job("a", 4, age=-MINUTE, on_failure="move")]
    assert placed_jobs(fleet.decide(SECOND, n1_0=REPAIRS[0])) == {"a": "us-02"}


def test_a_job_that_restarts_comes_before_older_jobs() -> None:
    pods = running("restart", names=(*NODES_OF_UNIT, "n2-0", "n2-1", "n2-2", "n2-3"))
    fleet = Fleet(servers(2), [*pods, *job("b", 4, age=30 * HOUR)])
    decision = fleet.decide(n1_0={"ready": False})
    assert len(deleted_pods(decision)) == 8
    assert decision.deletions[0].why == "waits again, with all workers: node n1-0 is not ready"
    fleet.recreate(decision)
    assert placed_jobs(fleet.decide(SECOND)) == {"a": "us-01 us-02"}


def test_a_job_that_restarts_keeps_its_position_until_units_are_free() -> None:
    """Protects the job from later jobs of namespaces that have fewer nodes."""
    other_jobs = [
        *running("", "r", ("n2-0", "n2-1", "n2-2", "n2-3"), limit=9 * HOUR, namespace="y"),
        *running("", "own", ("n3-0", "n3-1", "n3-2", "n3-3")),
    ]
    fleet = Fleet(servers(3), [*running("restart"), *other_jobs])
    fleet.recreate(fleet.decide(n1_0={"ready": False}))
    fleet.pods += job("b", 4, age=30 * MINUTE, namespace="x")
    assert placed_jobs(fleet.decide(RESTART_TIME, n1_0={"ready": False})) == {}
    pods = [pod for pod in fleet.pods if pod.namespace != "y"]  # job r has ended
    nodes = Topology(changed_nodes(fleet.nodes, n1_0={"ready": False}))
    assert placed_jobs(decide(nodes, pods, fleet.now, None, fleet.memory)) == {"a": "us-02"}


def test_a_job_of_the_same_name_with_another_node_config_does_not_inherit_the_position() -> None:
    for choice in ("move", "restart"):
        fleet = Fleet(servers(2), running(choice))
        assert fleet.decide(n1_0={"ready": False}).deletions
        fleet.pods = [*job("a", 4, config=2, age=-MINUTE), *job("b", 8, age=30 * MINUTE)]
        assert placed_jobs(fleet.decide(2 * MINUTE)) == {"b": "us-01 us-02"}


def test_a_job_that_restarts_keeps_at_most_the_default_time_limit_as_its_age() -> None:
    fleet = Fleet(servers(1), [replace(pod, created=NOW - 50 * HOUR) for pod in running("restart")])
    fleet.recreate(fleet.decide(n1_0={"ready": False}))
    fleet.pods += job("b", 4, age=30 * HOUR)
    fleet.now += RESTART_TIME
    assert placed_jobs(fleet.decide(SECOND)) == {"b": "us-01"}


def test_nodes_have_time_to_become_ready_one_after_the_other() -> None:
    fleet = Fleet(servers(2), running("restart"))
    first_states = {f"n1_{number}": {"ready": False} for number in range(4)}
    all_states = {f"n{unit}_{number}": {"ready": False} for unit in (1, 2) for number in range(4)}
    assert not fleet.decide(40 * SECOND, **all_states).deletions
    decision = fleet.decide(SECOND, **first_states)  # half of the nodes are Ready again
    assert not decision.deletions
    assert waiting_reasons(decision)["a"].endswith(messages.MOST_WERE_NOT_READY)
    assert fleet.decide(**first_states).deletions, "nodes that are still not Ready have failed"


def test_ready_nodes_without_devices_do_not_count_when_most_nodes_are_not_ready() -> None:
    cpu_nodes = {f"cpu-{number}": Node(f"cpu-{number}", {}) for number in range(10)}
    fleet = Fleet({**servers(2), **cpu_nodes}, running("restart"))
    decision = fleet.decide(
        **{f"n{unit}_{number}": {"ready": False} for unit in (1, 2) for number in range(4)}
    )
    assert not decision.deletions
    assert waiting_reasons(decision)["a"].endswith(messages.MOST_NOT_READY)


def test_a_job_leaves_failed_nodes_at_most_three_times_an_hour() -> None:
    fleet = Fleet(servers(2), running("restart"))
    for _ in range(MOST_DEPARTURES):
        assert fleet.decide(n1_0={"ready": False}).deletions
    decision = fleet.decide(n1_0={"ready": False})
    assert not decision.deletions
    assert "has left failed nodes 3 times; next attempt at" in waiting_reasons(decision)["a"]
    fleet.now += HOUR
    assert fleet.decide(n1_0={"ready": False}).deletions


def test_nothing_is_deleted_while_most_nodes_are_not_ready() -> None:
    """Then probably the control plane cannot reach the nodes, and the job still runs."""
    fleet = Fleet(servers(2), running("restart"))
    node_states = {f"n{server}_{number}": {"ready": False} for server in (1, 2) for number in range(3)}
    decision = fleet.decide(**node_states)
    assert not decision.deletions
    why = "node n1-0 is not ready; most nodes are not ready, so nothing is deleted"
    assert waiting_reasons(decision) == {"a": why}
    assert fleet.decide(SECOND, n1_0={"ready": False}).deletions


@pytest.mark.parametrize("node", ["n1-0", "n3-0"])
def test_a_launcher_is_deleted_before_its_workers(node: str) -> None:
    """A launcher that loses a worker may end with 0, and then its job counts as complete."""
    pods = running("move")
    deleting_worker = replace(pods[0], deleting=True)
    launcher = replace(job("a", 1, launcher=True, on_failure="move")[1], gates=(), node=node, started=True)
    fleet = Fleet(servers(3), [deleting_worker, *pods[1:], launcher, *job("b", 4, age=2 * HOUR)])
    (deletion,) = (decision := fleet.decide(n1_0={"ready": False})).deletions
    assert (deleted_pods(decision), deletion.is_last) == (["a-launcher"], False)
    assert launcher.uid in deletion.at_once, "otherwise its phase would become Failed"
    fleet.pods[4] = replace(launcher, deleting=True)
    decision = fleet.decide(SECOND, n1_0={"ready": False})
    # On a failed node it is deleted again, because the first deletion may have had a grace period.
    assert deleted_pods(decision) == ["a-launcher"] * (node == "n1-0")
    assert waiting_reasons(decision)["a"] == "node n1-0 is not ready; its launcher is deleted first"
    fleet.pods[4] = replace(launcher, uid="new", gates=(GATE,), node="", started=False)
    (deletion,) = (decision := fleet.decide(SECOND, n1_0={"ready": False})).deletions
    assert deleted_pods(decision) == [f"a-worker-{number}" for number in range(4)]
    assert deletion.is_last
    assert deletion.at_once == {deleting_worker.uid}


def test_a_launcher_that_is_recreated_without_a_gate_is_deleted_at_most_three_times_an_hour() -> None:
    launcher = replace(job("a", 1, launcher=True, on_failure="move")[1], gates=(), node="n3-0", started=True)
    fleet = Fleet(servers(3), [*running("move"), launcher])
    for number in range(MOST_DEPARTURES):
        assert deleted_pods(fleet.decide(SECOND if number else MINUTE, n1_0={"ready": False})) == [
            "a-launcher"
        ]
        fleet.pods[4] = replace(launcher, uid=f"new-{number}")
    decision = fleet.decide(SECOND, n1_0={"ready": False})
    assert not decision.deletions
    assert (
        "its launcher was deleted 3 times, and was recreated without the gate"
        in waiting_reasons(decision)["a"]
    )
    assert deleted_pods(fleet.decide(HOUR, n1_0={"ready": False})) == ["a-launcher"]


def test_a_pod_that_is_being_deleted_causes_no_loss_if_a_new_pod_has_replaced_it() -> None:
    deleting_pods = [replace(pod, uid=f"{pod.uid}-old", deleting=True) for pod in running("move")]
    fleet = Fleet(servers(2), [*deleting_pods, *running("move", names=("n2-0", "n2-1", "n2-2", "n2-3"))])
    assert not fleet.decide(n1_0={"ready": False}).deletions


@pytest.mark.parametrize(("annotation", "choice"), [("move", "move"), ("wait", ""), ("Move", ""), ("", "")])
def test_only_known_values_of_the_failure_annotation_are_read(annotation: str, choice: str) -> None:
    raw = worker("train", 0, 4)
    raw["metadata"]["annotations"] |= {ON_NODE_FAILURE: annotation}
    pod = read_pod(raw)
    assert pod
    assert pod.on_failure == choice


STATES = st.sampled_from([{}, {}, {}, *REPAIRS, *FAILURES])
CHOICES = st.sampled_from(["", "move", "restart"])


@given(st.data())
@examples(100)
def test_only_pods_of_jobs_that_chose_it_and_cannot_run_are_deleted(data: st.DataObject) -> None:
    """Protects other jobs, and jobs whose workers all run on Ready nodes."""
    nodes, pods = servers(4), []
    for server in range(1, 4):
        names = [f"n{server}-{position}" for position in range(4)]
        running_pods = running(data.draw(CHOICES), f"j{server}", names)
        deleting_numbers = data.draw(st.sets(st.integers(0, 3), max_size=1))
        pods += [replace(pod, deleting=pod.number in deleting_numbers) for pod in running_pods]
    pods += [*job("w", data.draw(st.sampled_from([1, 4])), on_failure="move"), foreign_pod("x", "n4-0")]
    states = {f"n{number}_{at}": data.draw(STATES) for number in range(1, 4) for at in (0, 1)}
    fleet = Fleet(nodes, pods)
    decision = fleet.decide(**states)
    for deletion in decision.deletions:
        assert {pod.job for pod in deletion.pods} == {deletion.job.key[1]}
        assert all(pod.on_failure and pod.admitted_at for pod in deletion.pods)
        job_pods = [pod for pod in pods if pod.job == deletion.job.key[1]]
        on_working_nodes = [states.get(pod.node.replace("-", "_"), {}) not in FAILURES for pod in job_pods]
        assert not (all(on_working_nodes) and not any(pod.deleting for pod in job_pods))

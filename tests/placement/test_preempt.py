"""Tests that the first job that does not fit preempts jobs of lower priority, if the table permits it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.keys import GATE, SERVER_4
from placement.decide.answer import answer_for
from placement.decide.decide import Scene
from placement.decide.forecast import forecast
from placement.decide.plan import MOST_DEPARTURES, Decision, Failure, Memory, Tuning
from placement.decide.preempt import MOST_PREEMPTIONS, MOST_VICTIMS
from placement.decide.reserve import AdmittedJob
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Guarantee, Node, Pod, UnitSettings
from tests.helpers import examples
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
    run_scheduler,
    select_nodes,
    servers,
    short_name,
    waiting_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

PREEMPTOR: dict[str, Any] = {"namespace": "prod", "priority": 9, "age": HOUR}
PREEMPTING_ROW = Guarantee(("prod",), SERVER_4, 0, preempts=True)
MEMORY = Memory(first_decision=NOW - HOUR)
NODES = servers(40)


def node_names(number: int) -> list[str]:
    """Returns the names of the nodes of an UltraServer."""
    return [f"n{number}-{index}" for index in range(4)]


def tuning(*guarantees: Guarantee) -> Tuning:
    return Tuning(units=replace(UNITS, guarantees=guarantees or (PREEMPTING_ROW,)))


@dataclass
class World:
    """A cluster in which operators recreate deleted pods."""

    servers: int
    pods: list[Pod]
    tuning: Tuning = field(default_factory=tuning)
    now: datetime = NOW
    memory: Memory | None = field(default_factory=lambda: MEMORY)

    def decide(self, after: timedelta = SECOND, **states: Any) -> Decision:
        """Returns the decision with some nodes in the given states, and then advances the time."""
        nodes = changed_nodes(servers(self.servers), **states)
        decision = decide(Topology(nodes), self.pods, self.now, self.tuning, self.memory)
        assert not decision.errors, decision.errors
        self.memory, self.now = decision.memory, self.now + after
        return decision

    def carry_out(self, decision: Decision) -> None:
        """Carries out a decision: recreates deleted pods with a gate, and binds admitted pods."""
        old_pods = [pod for deletion in decision.deletions for pod in deletion.pods]
        new_fields = {"admitted_at": None, "plan": "", "node": "", "started": False, "created": self.now}
        new_pods = [
            replace(pod, uid=f"{pod.uid}+", gates=(GATE,), demand=DEMAND, **new_fields) for pod in old_pods
        ]
        pods_after = carry_out(self.pods, decision, self.now) + new_pods
        self.pods = run_scheduler(pods_after, Topology(servers(self.servers).values()))


def running(name: str, *nodes: str, since: timedelta = HOUR, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that runs on the given nodes and permits a restart."""
    changes = {"on_failure": "restart", "age": since + MINUTE} | changes
    running_pods = bind_pods(job(name, len(nodes), **changes), select_nodes(NODES, *nodes), started=True)
    return [replace(pod, admitted_at=NOW - since) for pod in running_pods]


def running_jobs(*changes: dict[str, Any]) -> list[Pod]:
    """Returns a running job for each argument, each on its own UltraServer. ``r1`` is the oldest job."""
    pods = []
    for number, change in enumerate(changes, 1):
        pods += running(f"r{number}", *node_names(number), **{"since": 9 * HOUR - number * MINUTE} | change)
    return pods


def victim_names(decision: Decision) -> set[str]:
    """Returns the names of the jobs whose pods a decision deletes."""
    return {short_name(deletion.job.key) for deletion in decision.deletions}


def test_the_job_admitted_last_is_preempted_and_the_first_waiting_job_gets_its_unit() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    decision = world.decide()
    (deletion,) = decision.deletions
    assert deleted_pods(decision) == [f"r2-worker-{number}" for number in range(4)]
    assert (deletion.reason, deletion.at_once) == ("Preempted", frozenset())
    assert deletion.why == "waits again, with all workers: preempted by prod/own, which has a higher priority"
    why = "needs 1 whole UltraServer; preempts team/r2 of lower priority; 0 free"
    (own,) = [waits for waits in decision.waiting if waits.job.key[0] == "prod"]
    assert own.text() == why
    assert own.why.startswith(f"{why}; what becomes free is reserved for it; us-01: held by")
    world.carry_out(decision)
    decision = world.decide()
    assert placed_jobs(decision) == {"prod/own": "us-02"}
    assert list(waiting_reasons(decision)) == ["r2"]


def test_no_job_is_preempted_without_a_row_that_permits_it() -> None:
    pods = [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)]
    count_row = Guarantee(("prod",), SERVER_4, 1)
    first_row = Guarantee(("pro*",), SERVER_4, 1)
    for rows in (
        (count_row,),
        (replace(PREEMPTING_ROW, namespaces=("batch",)),),
        (first_row, PREEMPTING_ROW),
    ):
        assert not World(2, pods, tuning(*rows)).decide().deletions


HIGH_PRIORITY = {"priority": 9}
UNSUITABLE_VICTIMS: dict[str, list[Pod]] = {
    "a job of the same priority": running_jobs(HIGH_PRIORITY, HIGH_PRIORITY),
    "a job of higher priority": running_jobs({"priority": 10}, {"priority": 10}),
    "a job that may not restart": running_jobs({"on_failure": ""}, {"on_failure": ""}),
    "a job with a worker that may not restart": [
        replace(pod, on_failure="" if pod.number == 2 else "restart") for pod in running_jobs({}, {})
    ],
    "a job that the program did not admit": [replace(pod, admitted_at=None) for pod in running_jobs({}, {})],
    "a job without one of its workers": [pod for pod in running_jobs({}, {}) if pod.number != 2],
    "a job with a worker that is being deleted": [
        replace(pod, deleting=pod.number == 2) for pod in running_jobs({}, {})
    ],
    "a job with a worker that has no node yet": [
        replace(pod, node="", started=False) if pod.number == 2 else pod for pod in running_jobs({}, {})
    ],
}


@pytest.mark.parametrize("pods", UNSUITABLE_VICTIMS.values(), ids=UNSUITABLE_VICTIMS)
def test_an_unsuitable_victim_is_not_preempted(pods: list[Pod]) -> None:
    assert not World(2, [*pods, *job("own", 4, **PREEMPTOR)]).decide().deletions


def test_the_priority_of_a_job_is_the_lowest_of_its_workers() -> None:
    *workers, launcher = job("own", 4, launcher=True, **PREEMPTOR)
    low_workers = [replace(pod, priority=0) for pod in workers]
    for waiting_pods in ([*low_workers, launcher], [*low_workers[:1], *workers[1:], launcher]):
        assert not World(2, [*running_jobs({}, {}), *waiting_pods]).decide().deletions
    running_pods = [replace(pod, priority=99 if pod.number else 0) for pod in running_jobs({}, {})]
    assert victim_names(World(2, [*running_pods, *job("own", 4, **PREEMPTOR)]).decide()) == {"r2"}


def test_only_the_first_job_in_the_queue_preempts_and_only_after_ten_minutes() -> None:
    young_job = job("own", 4, **PREEMPTOR | {"age": 9 * MINUTE})
    world = World(2, [*running_jobs({}, {}), *young_job])
    assert not world.decide(2 * MINUTE).deletions
    assert world.decide().deletions
    earlier_job = job("first", 4, namespace="a", priority=9, age=2 * HOUR)
    assert not World(2, [*running_jobs({}, {}), *earlier_job, *job("own", 4, **PREEMPTOR)]).decide().deletions


def test_as_few_jobs_as_possible_are_preempted_and_recently_admitted_jobs_first() -> None:
    large_job = running("large", *node_names(1), *node_names(2), since=5 * HOUR)
    small_jobs = [*running("s1", *node_names(3)), *running("s2", *node_names(4), since=2 * HOUR)]
    assert victim_names(World(4, [*large_job, *small_jobs, *job("own", 8, **PREEMPTOR)]).decide()) == {
        "large"
    }
    assert victim_names(World(4, [*large_job, *small_jobs, *job("own", 12, **PREEMPTOR)]).decide()) == {
        "large",
        "s1",
    }
    assert victim_names(World(4, [*large_job, *small_jobs, *job("own", 4, **PREEMPTOR)]).decide()) == {"s1"}
    # A free unit is used, too.
    assert victim_names(World(5, [*large_job, *small_jobs, *job("own", 8, **PREEMPTOR)]).decide()) == {"s1"}


def test_on_a_shared_node_only_the_job_admitted_last_is_preempted() -> None:
    half_node = replace(DEMAND, requests={"aws.amazon.com/neuron": 8_000})
    pods = [
        *running("h0", "n1-0", since=9 * HOUR, demand=half_node),
        *running("h1", "n1-0", demand=half_node),
    ]
    for number in (1, 2, 3):
        pods += running(f"x{number}", f"n1-{number}", on_failure="")
    assert victim_names(World(1, [*pods, *job("own", 1, demand=half_node, **PREEMPTOR)]).decide()) == {"h1"}


def test_no_job_is_preempted_if_the_waiting_job_would_still_not_fit() -> None:
    no_restart = {"on_failure": ""}
    assert not World(2, [*running_jobs({}, no_restart), *job("own", 8, **PREEMPTOR)]).decide().deletions
    other_zone = replace(DEMAND, selector={**DEMAND.selector, "zone": "b"})
    assert (
        not World(2, [*running_jobs({}, {}), *job("own", 4, demand=other_zone, **PREEMPTOR)])
        .decide()
        .deletions
    )


def test_a_job_within_the_guarantee_of_its_team_is_not_preempted() -> None:
    team_row = Guarantee(("team",), SERVER_4, 1)
    # One of the team's two units is guaranteed: the first unit, on which its youngest job runs.
    pods = [*running_jobs({"since": HOUR}, {}), *job("own", 4, **PREEMPTOR)]
    assert victim_names(World(2, pods).decide()) == {"r1"}
    assert victim_names(World(2, pods, tuning(PREEMPTING_ROW, team_row)).decide()) == {"r2"}
    assert not World(2, pods, tuning(PREEMPTING_ROW, replace(team_row, count=2))).decide().deletions
    two_unit_pods = [*running("wide", *node_names(1), *node_names(2)), *job("own", 4, **PREEMPTOR)]
    assert not World(2, two_unit_pods, tuning(PREEMPTING_ROW, team_row)).decide().deletions


def test_a_preemption_leaves_other_teams_the_units_that_they_are_owed() -> None:
    rows = PREEMPTING_ROW, Guarantee(("speech",), SERVER_4, 1)
    preemptor = job("own", 4, **PREEMPTOR)
    assert victim_names(World(3, [*running_jobs({}, {}), *preemptor], tuning(*rows)).decide()) == {"r2"}
    # The unit that would become free is owed to another team.
    assert not World(2, [*running_jobs({}, {"on_failure": ""}), *preemptor], tuning(*rows)).decide().deletions
    mixed_pods = [*running("r1", "n1-0"), *running("x", "n1-1", "n1-2", namespace="b")]
    mixed_pods += running("y", "n1-3", namespace="b")
    team_row = Guarantee(("team",), SERVER_4, 1)
    assert not World(1, [*mixed_pods, *preemptor], tuning(PREEMPTING_ROW, team_row)).decide().deletions


def test_no_job_is_preempted_if_too_many_victims_are_needed() -> None:
    count = MOST_VICTIMS // 4 + 1
    pods = [
        pod
        for number in range(1, count + 1)
        for index in range(4)
        for pod in running(f"s{number}-{index}", f"n{number}-{index}")
    ]
    assert not World(count, [*pods, *job("own", 4 * count, **PREEMPTOR)]).decide().deletions
    smaller_world = World(count, [*pods, *job("own", 4 * count - 4, **PREEMPTOR)])
    assert len(victim_names(smaller_world.decide())) == MOST_VICTIMS


def test_no_job_is_preempted_while_most_nodes_are_not_ready() -> None:
    world = World(2, [*running_jobs({}, {"on_failure": ""}), *job("own", 4, **PREEMPTOR)])
    node_states = {f"n2_{number}": {"ready": False} for number in range(4)} | {"n1_0": {"ready": False}}
    assert not world.decide(**node_states).deletions


def test_a_job_is_preempted_at_most_once_an_hour() -> None:
    rows = [Guarantee((f"prod{number}",), SERVER_4, 0, preempts=True) for number in range(2)]
    world = World(1, running("r1", *node_names(1)), tuning(*rows))
    world.pods += job("own", 4, **PREEMPTOR | {"namespace": "prod0"})
    decision = world.decide()
    assert victim_names(decision) == {"r1"}
    world.carry_out(decision)
    decision = world.decide()
    assert list(placed_jobs(decision)) == ["prod0/own"]
    world.carry_out(decision)
    # The author deletes the preempting job, and the victim gets its unit again.
    world.pods = [pod for pod in world.pods if pod.namespace == "team"]
    decision = world.decide(3 * MINUTE)
    assert list(placed_jobs(decision)) == ["r1"]
    world.carry_out(decision)
    world.decide(3 * MINUTE)
    world.pods += job("own", 4, **PREEMPTOR | {"namespace": "prod1"})
    larger_world = replace(
        world, servers=2, pods=[*world.pods, *running("r2", *node_names(2), since=9 * HOUR)]
    )
    assert victim_names(larger_world.decide()) == {"r2"}
    assert not world.decide(HOUR).deletions
    assert world.decide().deletions


def test_a_preemption_is_not_recorded_as_a_node_failure() -> None:
    world = World(1, [*running("r1", *node_names(1)), *job("own", 4, **PREEMPTOR)])
    world.decide()
    assert world.memory
    assert world.memory.departures
    assert not world.memory.node_failures


def test_jobs_of_a_namespace_preempt_at_most_three_times_an_hour() -> None:
    world = World(5, running_jobs(*[{}] * 5), tuning(replace(PREEMPTING_ROW, namespaces=("prod", "also"))))
    for number in range(MOST_PREEMPTIONS):
        world.pods += job(f"own{number}", 4, **PREEMPTOR)
        decision = world.decide()
        assert victim_names(decision) == {f"r{5 - number}"}
        world.carry_out(decision)
        world.carry_out(world.decide())
    world.pods += job("more", 4, **PREEMPTOR)
    assert not world.decide().deletions
    other_job = job("own", 4, **PREEMPTOR | {"namespace": "also", "age": 2 * HOUR})
    other_world = replace(world, pods=[*world.pods, *other_job])
    assert not replace(other_world).decide().deletions  # the job of the first namespace keeps its position
    other_world.memory = replace(world.memory or MEMORY, position_kept_since={})
    assert other_world.decide().deletions
    world.now += HOUR
    assert world.decide().deletions


def test_a_namespace_with_a_failed_admission_preempts_no_job_for_an_hour() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    world.memory = replace(MEMORY, failed_namespaces={"prod": NOW - 20 * MINUTE}, decided_at=NOW)
    world.now += 15 * MINUTE
    assert not world.decide().deletions
    world.now += HOUR
    assert world.decide().deletions


def begin_deletions(world: World, decision: Decision) -> None:
    """Begins the grace periods of the pods that a decision deletes."""
    deleted_uids = {pod.uid for deletion in decision.deletions for pod in deletion.pods}
    world.pods = [replace(pod, deleting=pod.deleting or pod.uid in deleted_uids) for pod in world.pods]


def test_no_other_job_is_preempted_or_admitted_in_the_grace_period_of_the_victims() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR), *job("short", 1, limit=MINUTE)])
    begin_deletions(world, world.decide())
    decision = world.decide(30 * SECOND)
    assert not decision.deletions
    assert "preempts team/r2 of lower priority" in waiting_reasons(decision)["prod/own"]
    # Three pods of the victim are gone, and their nodes are free.
    world.pods = [pod for pod in world.pods if not pod.deleting or pod.number == 3]
    for _ in range(11):
        decision = world.decide(5 * MINUTE)
        assert not placed_jobs(decision)
        assert not decision.deletions
    world.pods = [pod for pod in world.pods if not pod.deleting]
    assert placed_jobs(world.decide()) == {"prod/own": "us-02"}


def test_a_preemption_of_pods_that_do_not_end_fails_after_an_hour() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    begin_deletions(world, world.decide(HOUR))
    for _ in range(5):
        decision = world.decide(HOUR)
        assert not decision.deletions
        assert "preempts" not in waiting_reasons(decision)["prod/own"]


def test_a_job_that_did_not_get_its_victims_units_preempts_no_job_for_an_hour() -> None:
    world = World(4, [*running_jobs({}, {}, {}, {}), *job("own", 4, **PREEMPTOR)])
    decision = world.decide()
    world.carry_out(decision)
    world.pods.append(foreign_pod("bare", "n4-0"))
    world.decide(2 * MINUTE)
    for _ in range(4):
        assert not world.decide(15 * MINUTE).deletions
    assert victim_names(world.decide()) == {"r3"}


@pytest.mark.parametrize("change", [{"uid": "other"}, {"priority": -1}])
def test_a_new_job_of_the_same_name_or_with_lower_priority_loses_the_victims_units(
    change: dict[str, Any],
) -> None:
    preemptor = job("own", 4, **PREEMPTOR)
    world = World(2, [*running_jobs({}, {}), *preemptor])
    world.carry_out(world.decide())
    victim_pods = [pod for pod in world.pods if pod.namespace == "team"]
    change = {"created": world.now, **change}  # so the new job does not keep the position of the old job
    new_pods = [
        replace(pod, **change | ({"uid": f"{pod.uid}+"} if "uid" in change else {})) for pod in preemptor
    ]
    # Without the preemption, this job is more urgent.
    older_job = job("old", 4, namespace="c", priority=new_pods[0].priority, age=20 * HOUR)
    world.pods = [*(replace(pod, priority=-2) for pod in victim_pods), *new_pods, *older_job]
    assert placed_jobs(world.decide()) == {"c/old": "us-02"}


def test_the_other_workers_of_a_victim_are_deleted_after_one_was_recreated() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    new_fields = {
        "admitted_at": None,
        "plan": "",
        "node": "",
        "started": False,
        "gates": (GATE,),
        "demand": DEMAND,
    }
    # The author of the victim deletes a worker first, and the program's other deletions are refused.
    world.decide()
    world.pods = [
        replace(pod, uid="new", created=NOW, **new_fields) if pod.name == "r2-worker-0" else pod
        for pod in world.pods
    ]
    decision = world.decide()
    assert deleted_pods(decision) == ["r2-worker-1", "r2-worker-2", "r2-worker-3"]
    assert not decision.admissions


def test_a_victim_is_not_admitted_before_its_pods_have_ended() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 8, **PREEMPTOR)])
    decision = world.decide()
    ending_pods = [replace(pod, deleting=True) for deletion in decision.deletions for pod in deletion.pods]
    world.carry_out(decision)
    world.servers, new_pods = 3, world.pods
    world.pods = [*new_pods, *ending_pods]
    decision = world.decide()
    assert not placed_jobs(decision)
    assert "its deleted pods have not ended yet" in waiting_reasons(decision)["r1"]
    world.pods = new_pods
    assert set(placed_jobs(world.decide())) == {"prod/own", "r1"}


def test_a_job_whose_launcher_is_recreated_without_the_gate_is_not_a_victim_for_a_day() -> None:
    launcher = Pod("team", "r2-launcher", "a", "team.r2", node="n9-9", started=True, on_failure="restart")
    world = World(2, [*running_jobs({}, {}), launcher, *job("own", 4, **PREEMPTOR)])
    assert deleted_pods(world.decide()) == ["r2-launcher"]
    world.pods = [replace(pod, uid="b") if pod == launcher else pod for pod in world.pods]
    assert not world.decide(HOUR).deletions
    assert victim_names(world.decide()) == {"r1"}


def test_no_worker_is_deleted_if_another_unit_has_become_free() -> None:
    launcher = Pod("team", "r2-launcher", "a", "team.r2", node="n9-9", started=True, on_failure="restart")
    world = World(2, [*running_jobs({}, {}), launcher, *job("own", 4, **PREEMPTOR)])
    assert deleted_pods(world.decide()) == ["r2-launcher"]
    world.pods.remove(launcher)
    world.servers = 3
    decision = world.decide()
    assert placed_jobs(decision) == {"prod/own": "us-03"}
    assert not decision.deletions


def test_a_job_whose_launcher_was_deleted_too_often_is_not_preempted() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    world.memory = replace(MEMORY, launcher_deletions={("team", "team.r2"): (NOW,) * MOST_DEPARTURES})
    assert victim_names(world.decide()) == {"r1"}


def test_a_new_leader_preempts_no_job_for_ten_minutes_or_while_jobs_are_ending() -> None:
    world = World(3, [*running_jobs({}, {}, {}), *job("own", 4, **PREEMPTOR)])
    begin_deletions(world, world.decide())
    world.memory = None
    for _ in range(4):
        assert not world.decide(4 * MINUTE).deletions
    world.pods = [pod for pod in world.pods if not pod.deleting or pod.number]
    assert not world.decide().deletions
    world.pods = [replace(pod, deleting=False) for pod in world.pods]
    world.memory = None
    assert not world.decide(10 * MINUTE).deletions
    world.pods = [*running_jobs({}, {}, {}), *job("own", 4, **PREEMPTOR)]
    assert victim_names(world.decide()) == {"r3"}


def test_a_job_that_no_preemption_helps_does_not_prevent_preemptions_for_other_jobs() -> None:
    no_restart = {"on_failure": "", "since": 30 * HOUR}
    other_row = replace(PREEMPTING_ROW, namespaces=("also",))
    huge_job, small_job = (
        job("huge", 8, **PREEMPTOR | {"age": 3 * HOUR}),
        job("small", 4, **PREEMPTOR | {"namespace": "also"}),
    )
    world = World(
        3,
        [*running_jobs(no_restart, no_restart, {}), *huge_job, *small_job],
        tuning(PREEMPTING_ROW, other_row),
    )
    victims_by_pass = [victim_names(world.decide()) for _ in range(3)]
    assert {"r3"} in victims_by_pass
    assert world.memory
    assert list(world.memory.failed_preemptions) == [("prod", "prod.huge")]


def test_a_victim_with_a_remembered_failure_is_deleted_once() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    failure = Failure(1, NOW - 10 * MINUTE)
    world.memory = replace(MEMORY, failures={("team", "team.r2"): failure}, decided_at=NOW - SECOND)
    assert len(world.decide().deletions) == 1


def test_the_age_of_a_victim_with_new_pods_does_not_begin_in_the_future() -> None:
    world = World(1, [*running("r1", *node_names(1)), *job("own", 4, **PREEMPTOR)])
    admitted_jobs = {("team", "team.r1"): AdmittedJob(NOW - 480 * HOUR, None)}
    world.memory = replace(MEMORY, admitted_jobs=admitted_jobs, decided_at=NOW - SECOND)
    world.decide()
    (departure,) = world.memory.departures.values()
    assert departure.age_start == NOW


def test_a_row_that_only_permits_preemption_does_not_replace_a_guarantee() -> None:
    rows = PREEMPTING_ROW, Guarantee(("prod",), SERVER_4, 1)
    world = World(2, [*running_jobs({}), *job("other", 4), *job("own", 4, namespace="prod")], tuning(*rows))
    decision = world.decide()
    assert placed_jobs(decision) == {"prod/own": "us-02"}


def test_answers_about_new_jobs_assume_no_preemption() -> None:
    scene = Scene(Topology(servers(2).values()), tuple(running_jobs({}, {})), NOW, tuning(), MEMORY)
    own_pods = job("own", 4, **PREEMPTOR)
    answer = answer_for(scene, own_pods)
    assert not answer.fits
    assert "preempts" not in answer.why
    assert answer.start != NOW + scene.tuning.bound


def test_the_launcher_of_a_victim_is_deleted_first_and_its_workers_only_if_needed() -> None:
    pods = running_jobs({})
    launcher = Pod(
        "team",
        "r1-launcher",
        "team/r1/launcher/0",
        "team.r1",
        node="n9-9",
        started=True,
        on_failure="restart",
    )
    world = World(1, [*pods, launcher, *job("own", 4, **PREEMPTOR)])
    first_decision = world.decide()
    assert deleted_pods(first_decision) == ["r1-launcher"]
    (deletion,) = first_decision.deletions
    assert not deletion.is_last
    assert deletion.at_once == {launcher.uid}
    world.pods.remove(launcher)
    victim_pods = [pod for pod in world.pods if pod.namespace == "team"]
    assert not replace(world, pods=victim_pods).decide().deletions
    # The next launcher waits until the workers have ended.
    new_launcher = replace(launcher, uid="new", node="", started=False, gates=(GATE,), created=NOW)
    world.pods.append(new_launcher)
    decision = world.decide()
    assert deleted_pods(decision) == [f"r1-worker-{number}" for number in range(4)]
    assert not decision.admissions
    # The victim stays, because the preempting job was admitted to another unit.
    admitted_pods = bind_pods(job("own", 4, **PREEMPTOR), select_nodes(NODES, *node_names(2)), started=True)
    world.pods = [*victim_pods, new_launcher, *admitted_pods]
    assert not replace(world, servers=2, memory=first_decision.memory).decide().deletions


def test_a_preempting_job_comes_before_a_more_urgent_job_of_the_same_priority() -> None:
    world = World(2, [*running_jobs({}, {}), *job("own", 4, **PREEMPTOR)])
    decision = world.decide()
    world.carry_out(decision)
    world.pods += job("old", 4, namespace="new", priority=9, age=20 * HOUR)
    assert placed_jobs(world.decide()) == {"prod/own": "us-02"}


def test_a_job_that_is_preempted_after_its_admission_costs_its_namespace_no_age() -> None:
    world = World(1, job("r1", 4, on_failure="restart"))
    for _ in range(2):
        world.carry_out(world.decide())
    world.pods += job("own", 4, **PREEMPTOR)
    assert victim_names(world.decide()) == {"r1"}
    world.pods = job("own", 4, **PREEMPTOR)
    world.decide()
    assert world.memory
    assert not world.memory.age_debts


def test_a_preempted_job_waits_with_the_age_that_it_had_before_it_ran() -> None:
    world = World(
        1, [*running("r1", *node_names(1), since=20 * HOUR, age=23 * HOUR), *job("own", 4, **PREEMPTOR)]
    )
    world.carry_out(world.decide())
    assert world.memory
    (departure,) = world.memory.departures.values()
    assert departure.age_start == NOW - 3 * HOUR


def test_a_forecast_assumes_that_the_victims_end() -> None:
    pods = [*running_jobs({}, {"limit": 20 * HOUR}), *job("own", 4, **PREEMPTOR), *job("next", 4)]
    nodes = Topology(servers(2).values())
    scene = Scene(nodes, tuple(pods), NOW, tuning(), MEMORY)
    decision = scene.decision()
    starts = forecast(scene, decision, [("prod", "prod.own"), ("team", "team.next")])
    start = starts["prod", "prod.own"]
    assert (start.at, start.latest) == (NOW + scene.tuning.bound, None)
    assert starts["team", "team.next"].at == NOW + 9 * HOUR - MINUTE


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Pod], list[Pod], UnitSettings]:
    """Returns nodes, the pods of other jobs, the pods of the preempting job, and the units."""
    pods: list[Pod] = []
    for number in range(1, 4):
        names = node_names(number)
        for start, size in draw(
            st.sampled_from([[(0, 4)], [(0, 2), (2, 2)], [(0, 2)], [(0, 1), (1, 1), (3, 1)], []])
        ):
            changes = {
                "namespace": draw(st.sampled_from(["a", "b", "prod"])),
                "priority": draw(st.integers(0, 2)),
                "on_failure": draw(st.sampled_from(["restart", "move", ""])),
                "since": draw(st.integers(1, 30)) * HOUR,
            }
            pods += running(f"r{number}-{start}", *names[start : start + size], **changes)
    preemptor = job("own", draw(st.sampled_from([1, 2, 4, 8, 12])), namespace="prod", priority=1, age=HOUR)
    other_job = job("more", draw(st.sampled_from([1, 4])), namespace="b", priority=draw(st.integers(0, 2)))
    count = draw(st.integers(0, 2))
    rows = (PREEMPTING_ROW, *((Guarantee(("a",), SERVER_4, count),) if count else ()))
    return [*servers(3).values()], [*pods, *other_job], preemptor, replace(UNITS, guarantees=rows)


@examples(60)
@given(world=worlds())
def test_only_needed_whole_jobs_of_lower_priority_are_preempted(
    world: tuple[list[Node], list[Pod], list[Pod], UnitSettings],
) -> None:
    nodes, other_pods, preemptor, units = world
    topology, memory = Topology(nodes), MEMORY

    def fits(victims: Iterable[str]) -> bool:
        """Returns whether the job would be admitted, without preemption, if the victims did not exist."""
        remaining_pods = [pod for pod in other_pods if pod.job not in victims]
        no_preemption = Tuning(units=units, preempts=False)
        return "prod/own" in placed_jobs(
            decide(topology, [*remaining_pods, *preemptor], NOW, no_preemption, memory)
        )

    decision = decide(topology, [*other_pods, *preemptor], NOW, Tuning(units=units), memory)
    assert not decision.errors
    deletions = {deletion.job.key[1]: deletion for deletion in decision.deletions}
    if not deletions:
        return
    assert not fits(())
    assert fits(deletions)
    for fewer_victims in combinations(deletions, len(deletions) - 1):
        assert not fits(fewer_victims)
    for key, deletion in deletions.items():
        pods = [pod for pod in other_pods if pod.job == key]
        assert {pod.uid for pod in deletion.pods} == {pod.uid for pod in pods}
        assert all(pod.priority < 1 and pod.on_failure and pod.admitted_at for pod in pods)


def test_a_preempted_job_does_not_restart_before_older_jobs_if_a_node_of_its_ending_pods_fails() -> None:
    old_pods = running("r1", *node_names(1))
    world = World(1, [*old_pods, *job("prod", 4, **PREEMPTOR)])
    assert victim_names(world.decide()) == {"r1"}
    new_fields: dict[str, Any] = {"gates": (GATE,), "demand": DEMAND, "node": "", "admitted_at": None}
    new_pods = [
        replace(pod, uid=f"{pod.uid}+", started=False, created=world.now, **new_fields) for pod in old_pods
    ]
    world.pods = [*(replace(pod, deleting=True) for pod in old_pods), *new_pods]
    for _ in range(3):
        world.decide(MINUTE, n1_0={"ready": False})
    world.pods = [*new_pods, *job("old", 4, age=30 * HOUR)]
    assert placed_jobs(world.decide()) == {"old": "us-01"}

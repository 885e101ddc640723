"""Jobs of lower priority end for the first job that does not fit, where a row of the table permits it."""

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
from placement.decide.plan import MOST_DEPARTURES, MOST_PREEMPTIONS, Decision, Failure, Memory, Tuning
from placement.decide.preempt import MOST_VICTIMS
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
    bound,
    carry_out,
    changed,
    decide,
    deleted,
    foreign,
    job,
    name_of,
    on,
    placed,
    servers,
    settled,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

PROD: dict[str, Any] = {"namespace": "prod", "priority": 9, "age": HOUR}
MAY = Guarantee(("prod",), SERVER_4, 0, preempts=True)
MEMORY = Memory(first_decision=NOW - HOUR)
FLEET = servers(40)


def server(number: int) -> list[str]:
    return [f"n{number}-{place}" for place in range(4)]


def tuning(*guarantees: Guarantee) -> Tuning:
    return Tuning(units=replace(UNITS, guarantees=guarantees or (MAY,)))


@dataclass
class World:
    """A cluster whose operators create again what is deleted."""

    servers: int
    pods: list[Pod]
    tuning: Tuning = field(default_factory=tuning)
    now: datetime = NOW
    memory: Memory | None = field(default_factory=lambda: MEMORY)

    def ask(self, after: timedelta = SECOND, **states: Any) -> Decision:
        """Decides, with some nodes in other states; then, time passes."""
        nodes = changed(servers(self.servers), **states)
        decision = decide(Topology(nodes), self.pods, self.now, self.tuning, self.memory)
        assert not decision.errors, decision.errors
        self.memory, self.now = decision.memory, self.now + after
        return decision

    def carry_out(self, decision: Decision) -> None:
        """Carries a decision out, and creates again with a gate what it deletes; its nodes are bound."""
        gone = [pod for deletion in decision.deletions for pod in deletion.pods]
        fresh = {"admitted_at": None, "plan": "", "node": "", "started": False, "created": self.now}
        new = [replace(pod, uid=f"{pod.uid}+", gates=(GATE,), demand=DEMAND, **fresh) for pod in gone]
        left = carry_out(self.pods, decision, self.now) + new
        self.pods = settled(left, Topology(servers(self.servers).values()))


def running(name: str, *nodes: str, since: timedelta = HOUR, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that has some nodes, and may start again."""
    changes = {"on_failure": "restart", "age": since + MINUTE} | changes
    there = bound(job(name, len(nodes), **changes), on(FLEET, *nodes), started=True)
    return [replace(pod, admitted_at=NOW - since) for pod in there]


def full(*changes: dict[str, Any]) -> list[Pod]:
    """Returns a job on each of this many UltraServers; job ``r1`` is the oldest."""
    pods = []
    for number, change in enumerate(changes, 1):
        pods += running(f"r{number}", *server(number), **{"since": 9 * HOUR - number * MINUTE} | change)
    return pods


def ended(decision: Decision) -> set[str]:
    return {name_of(deletion.job.key) for deletion in decision.deletions}


def test_the_youngest_job_of_lower_priority_ends_and_the_first_one_gets_its_unit() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    decision = world.ask()
    (deletion,) = decision.deletions
    assert deleted(decision) == [f"r2-worker-{number}" for number in range(4)]
    assert (deletion.reason, deletion.at_once) == ("Preempted", frozenset())
    assert deletion.why == "waits again, with all workers: preempted by prod/own, which has a higher priority"
    why = "needs 1 whole UltraServer; preempts team/r2 of lower priority; 0 free"
    (own,) = [waits for waits in decision.waiting if waits.job.key[0] == "prod"]
    assert own.text() == why
    assert own.why.startswith(f"{why}; what becomes free is reserved for it; us-01: held by")
    world.carry_out(decision)
    decision = world.ask()
    assert placed(decision) == {"prod/own": "us-02"}
    assert list(waiting(decision)) == ["r2"]


def test_nothing_ends_without_a_row_that_permits_it() -> None:
    pods = [*full({}, {}), *job("own", 4, **PROD)]
    count = Guarantee(("prod",), SERVER_4, 1)
    first = Guarantee(("pro*",), SERVER_4, 1)
    for rows in ((count,), (replace(MAY, namespaces=("batch",)),), (first, MAY)):
        assert not World(2, pods, tuning(*rows)).ask().deletions


HIGH = {"priority": 9}
UNFIT: dict[str, list[Pod]] = {
    "of the same priority": full(HIGH, HIGH),
    "of higher priority": full({"priority": 10}, {"priority": 10}),
    "that may not start again": full({"on_failure": ""}, {"on_failure": ""}),
    "of which a worker may not start again": [
        replace(pod, on_failure="" if pod.number == 2 else "restart") for pod in full({}, {})
    ],
    "that the program did not admit": [replace(pod, admitted_at=None) for pod in full({}, {})],
    "that is not complete": [pod for pod in full({}, {}) if pod.number != 2],
    "with a worker that is being deleted": [replace(pod, deleting=pod.number == 2) for pod in full({}, {})],
    "with a worker that has no node yet": [
        replace(pod, node="", started=False) if pod.number == 2 else pod for pod in full({}, {})
    ],
}


@pytest.mark.parametrize("pods", UNFIT.values(), ids=UNFIT)
def test_no_job_ends(pods: list[Pod]) -> None:
    assert not World(2, [*pods, *job("own", 4, **PROD)]).ask().deletions


def test_a_high_priority_of_some_workers_or_of_the_launcher_ends_nothing_and_protects_nothing() -> None:
    *workers, launcher = job("own", 4, launcher=True, **PROD)
    low = [replace(pod, priority=0) for pod in workers]
    for evil in ([*low, launcher], [*low[:1], *workers[1:], launcher]):
        assert not World(2, [*full({}, {}), *evil]).ask().deletions
    proud = [replace(pod, priority=99 if pod.number else 0) for pod in full({}, {})]
    assert ended(World(2, [*proud, *job("own", 4, **PROD)]).ask()) == {"r2"}


def test_only_the_first_job_in_the_queue_and_only_after_ten_minutes() -> None:
    young = job("own", 4, **PROD | {"age": 9 * MINUTE})
    world = World(2, [*full({}, {}), *young])
    assert not world.ask(2 * MINUTE).deletions
    assert world.ask().deletions
    before = job("first", 4, namespace="a", priority=9, age=2 * HOUR)
    assert not World(2, [*full({}, {}), *before, *job("own", 4, **PROD)]).ask().deletions


def test_as_few_jobs_as_needed_end_and_the_young_ones_first() -> None:
    large = running("large", *server(1), *server(2), since=5 * HOUR)
    small = [*running("s1", *server(3)), *running("s2", *server(4), since=2 * HOUR)]
    assert ended(World(4, [*large, *small, *job("own", 8, **PROD)]).ask()) == {"large"}
    assert ended(World(4, [*large, *small, *job("own", 12, **PROD)]).ask()) == {"large", "s1"}
    assert ended(World(4, [*large, *small, *job("own", 4, **PROD)]).ask()) == {"s1"}
    # A free unit counts.
    assert ended(World(5, [*large, *small, *job("own", 8, **PROD)]).ask()) == {"s1"}


def test_of_a_node_that_jobs_share_only_the_youngest_ends() -> None:
    half = replace(DEMAND, requests={"aws.amazon.com/neuron": 8_000})
    pods = [*running("h0", "n1-0", since=9 * HOUR, demand=half), *running("h1", "n1-0", demand=half)]
    for number in (1, 2, 3):
        pods += running(f"x{number}", f"n1-{number}", on_failure="")
    assert ended(World(1, [*pods, *job("own", 1, demand=half, **PROD)]).ask()) == {"h1"}


def test_nothing_ends_if_the_job_would_not_fit_even_then() -> None:
    safe = {"on_failure": ""}
    assert not World(2, [*full({}, safe), *job("own", 8, **PROD)]).ask().deletions
    elsewhere = replace(DEMAND, selector={**DEMAND.selector, "zone": "b"})
    assert not World(2, [*full({}, {}), *job("own", 4, demand=elsewhere, **PROD)]).ask().deletions


def test_a_job_within_the_guarantee_of_its_team_does_not_end() -> None:
    team = Guarantee(("team",), SERVER_4, 1)
    # One of its two units is guaranteed: the first one, on which its youngest job runs.
    pods = [*full({"since": HOUR}, {}), *job("own", 4, **PROD)]
    assert ended(World(2, pods).ask()) == {"r1"}
    assert ended(World(2, pods, tuning(MAY, team)).ask()) == {"r2"}
    assert not World(2, pods, tuning(MAY, replace(team, count=2))).ask().deletions
    wide = [*running("wide", *server(1), *server(2)), *job("own", 4, **PROD)]
    assert not World(2, wide, tuning(MAY, team)).ask().deletions


def test_what_other_teams_are_owed_stays_free() -> None:
    rows = MAY, Guarantee(("speech",), SERVER_4, 1)
    own = job("own", 4, **PROD)
    assert ended(World(3, [*full({}, {}), *own], tuning(*rows)).ask()) == {"r2"}
    # What becomes free would be owed.
    assert not World(2, [*full({}, {"on_failure": ""}), *own], tuning(*rows)).ask().deletions
    mixed = [*running("r1", "n1-0"), *running("x", "n1-1", "n1-2", namespace="b")]
    mixed += running("y", "n1-3", namespace="b")
    team = Guarantee(("team",), SERVER_4, 1)
    assert not World(1, [*mixed, *own], tuning(MAY, team)).ask().deletions


def test_more_jobs_than_a_job_may_end_do_not_end() -> None:
    count = MOST_VICTIMS // 4 + 1
    pods = [
        pod
        for number in range(1, count + 1)
        for place in range(4)
        for pod in running(f"s{number}-{place}", f"n{number}-{place}")
    ]
    assert not World(count, [*pods, *job("own", 4 * count, **PROD)]).ask().deletions
    fewer = World(count, [*pods, *job("own", 4 * count - 4, **PROD)])
    assert len(ended(fewer.ask())) == MOST_VICTIMS


def test_nothing_ends_while_most_nodes_are_not_ready() -> None:
    world = World(2, [*full({}, {"on_failure": ""}), *job("own", 4, **PROD)])
    others = {f"n2_{place}": {"ready": False} for place in range(4)} | {"n1_0": {"ready": False}}
    assert not world.ask(**others).deletions


def test_a_job_ends_once_an_hour() -> None:
    rows = [Guarantee((f"prod{number}",), SERVER_4, 0, preempts=True) for number in range(2)]
    world = World(1, running("r1", *server(1)), tuning(*rows))
    world.pods += job("own", 4, **PROD | {"namespace": "prod0"})
    decision = world.ask()
    assert ended(decision) == {"r1"}
    world.carry_out(decision)
    decision = world.ask()
    assert list(placed(decision)) == ["prod0/own"]
    world.carry_out(decision)
    # Its author deletes it, and the other one gets its unit again.
    world.pods = [pod for pod in world.pods if pod.namespace == "team"]
    decision = world.ask(3 * MINUTE)
    assert list(placed(decision)) == ["r1"]
    world.carry_out(decision)
    world.ask(3 * MINUTE)
    world.pods += job("own", 4, **PROD | {"namespace": "prod1"})
    older = replace(world, servers=2, pods=[*world.pods, *running("r2", *server(2), since=9 * HOUR)])
    assert ended(older.ask()) == {"r2"}
    assert not world.ask(HOUR).deletions
    assert world.ask().deletions


def test_an_end_for_another_job_is_no_failure_of_a_node() -> None:
    world = World(1, [*running("r1", *server(1)), *job("own", 4, **PROD)])
    world.ask()
    assert world.memory
    assert world.memory.departures
    assert not world.memory.node_failures


def test_jobs_of_a_namespace_preempt_others_three_times_an_hour() -> None:
    world = World(5, full(*[{}] * 5), tuning(replace(MAY, namespaces=("prod", "also"))))
    for number in range(MOST_PREEMPTIONS):
        world.pods += job(f"own{number}", 4, **PROD)
        decision = world.ask()
        assert ended(decision) == {f"r{5 - number}"}
        world.carry_out(decision)
        world.carry_out(world.ask())
    world.pods += job("more", 4, **PROD)
    assert not world.ask().deletions
    also = job("own", 4, **PROD | {"namespace": "also", "age": 2 * HOUR})
    others = replace(world, pods=[*world.pods, *also])
    assert not replace(others).ask().deletions  # the job of the first namespace keeps its position
    others.memory = replace(world.memory or MEMORY, position_kept_since={})
    assert others.ask().deletions
    world.now += HOUR
    assert world.ask().deletions


def test_a_namespace_whose_job_was_admitted_in_vain_ends_nothing() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    world.memory = replace(MEMORY, failed_namespaces={"prod": NOW - 20 * MINUTE}, decided_at=NOW)
    world.now += 15 * MINUTE
    assert not world.ask().deletions
    world.now += HOUR
    assert world.ask().deletions


def going(world: World, decision: Decision) -> None:
    """Deletes the pods of a decision, with a grace period."""
    gone = {pod.uid for deletion in decision.deletions for pod in deletion.pods}
    world.pods = [replace(pod, deleting=pod.deleting or pod.uid in gone) for pod in world.pods]


def test_nothing_more_ends_while_the_pods_have_their_grace_period_and_others_stay_off() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD), *job("short", 1, limit=MINUTE)])
    going(world, world.ask())
    decision = world.ask(30 * SECOND)
    assert not decision.deletions
    assert "preempts team/r2 of lower priority" in waiting(decision)["prod/own"]
    # Three of its pods are gone, and their nodes are free.
    world.pods = [pod for pod in world.pods if not pod.deleting or pod.number == 3]
    for _ in range(11):
        decision = world.ask(5 * MINUTE)
        assert not placed(decision)
        assert not decision.deletions
    world.pods = [pod for pod in world.pods if not pod.deleting]
    assert placed(world.ask()) == {"prod/own": "us-02"}


def test_pods_that_never_end_are_waited_for_no_longer_than_an_hour_and_no_other_job_ends() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    going(world, world.ask(HOUR))
    for _ in range(5):
        decision = world.ask(HOUR)
        assert not decision.deletions
        assert "preempts" not in waiting(decision)["prod/own"]


def test_a_job_that_does_not_get_the_units_has_none_end_for_an_hour() -> None:
    world = World(4, [*full({}, {}, {}, {}), *job("own", 4, **PROD)])
    decision = world.ask()
    world.carry_out(decision)
    world.pods.append(foreign("bare", "n4-0"))
    world.ask(2 * MINUTE)
    for _ in range(4):
        assert not world.ask(15 * MINUTE).deletions
    assert ended(world.ask()) == {"r3"}


@pytest.mark.parametrize("change", [{"uid": "other"}, {"priority": -1}])
def test_another_job_of_the_name_or_a_lower_priority_keeps_no_units(change: dict[str, Any]) -> None:
    own = job("own", 4, **PROD)
    world = World(2, [*full({}, {}), *own])
    world.carry_out(world.ask())
    left = [pod for pod in world.pods if pod.namespace == "team"]
    change = {"created": world.now, **change}  # so the new job does not keep the place of the old one
    new = [replace(pod, **change | ({"uid": f"{pod.uid}+"} if "uid" in change else {})) for pod in own]
    # Without the preemption, this one is more urgent.
    old = job("old", 4, namespace="c", priority=new[0].priority, age=20 * HOUR)
    world.pods = [*(replace(pod, priority=-2) for pod in left), *new, *old]
    assert placed(world.ask()) == {"c/old": "us-02"}


def test_a_victim_of_which_a_worker_is_created_again_ends_all_the_same() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    fresh = {
        "admitted_at": None,
        "plan": "",
        "node": "",
        "started": False,
        "gates": (GATE,),
        "demand": DEMAND,
    }
    # Its author deletes a worker before the program does, and three deletions are refused.
    world.ask()
    world.pods = [
        replace(pod, uid="new", created=NOW, **fresh) if pod.name == "r2-worker-0" else pod
        for pod in world.pods
    ]
    decision = world.ask()
    assert deleted(decision) == ["r2-worker-1", "r2-worker-2", "r2-worker-3"]
    assert not decision.admissions


def test_a_victim_is_not_admitted_before_its_pods_have_ended() -> None:
    world = World(2, [*full({}, {}), *job("own", 8, **PROD)])
    decision = world.ask()
    old = [replace(pod, deleting=True) for deletion in decision.deletions for pod in deletion.pods]
    world.carry_out(decision)
    world.servers, new = 3, world.pods
    world.pods = [*new, *old]
    decision = world.ask()
    assert not placed(decision)
    assert "its deleted pods have not ended yet" in waiting(decision)["r1"]
    world.pods = new
    assert set(placed(world.ask())) == {"prod/own", "r1"}


def test_a_launcher_that_never_had_the_gate_saves_its_job_for_a_day() -> None:
    launcher = Pod("team", "r2-launcher", "a", "team.r2", node="n9-9", started=True, on_failure="restart")
    world = World(2, [*full({}, {}), launcher, *job("own", 4, **PROD)])
    assert deleted(world.ask()) == ["r2-launcher"]
    world.pods = [replace(pod, uid="b") if pod == launcher else pod for pod in world.pods]
    assert not world.ask(HOUR).deletions
    assert ended(world.ask()) == {"r1"}


def test_no_worker_ends_if_another_unit_is_free_meanwhile() -> None:
    launcher = Pod("team", "r2-launcher", "a", "team.r2", node="n9-9", started=True, on_failure="restart")
    world = World(2, [*full({}, {}), launcher, *job("own", 4, **PROD)])
    assert deleted(world.ask()) == ["r2-launcher"]
    world.pods.remove(launcher)
    world.servers = 3
    decision = world.ask()
    assert placed(decision) == {"prod/own": "us-03"}
    assert not decision.deletions


def test_a_job_whose_launcher_was_deleted_too_often_does_not_end() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    world.memory = replace(MEMORY, launcher_deletions={("team", "team.r2"): (NOW,) * MOST_DEPARTURES})
    assert ended(world.ask()) == {"r1"}


def test_a_new_leader_ends_nothing_for_ten_minutes_and_then_counts_on_pods_that_end() -> None:
    world = World(3, [*full({}, {}, {}), *job("own", 4, **PROD)])
    going(world, world.ask())
    world.memory = None
    for _ in range(4):
        assert not world.ask(4 * MINUTE).deletions
    world.pods = [pod for pod in world.pods if not pod.deleting or pod.number]
    assert not world.ask().deletions
    world.pods = [replace(pod, deleting=False) for pod in world.pods]
    world.memory = None
    assert not world.ask(10 * MINUTE).deletions
    world.pods = [*full({}, {}, {}), *job("own", 4, **PROD)]
    assert ended(world.ask()) == {"r3"}


def test_a_job_for_which_no_end_helps_does_not_keep_others_from_it_and_is_not_tried_again_soon() -> None:
    safe = {"on_failure": "", "since": 30 * HOUR}
    also = replace(MAY, namespaces=("also",))
    huge, small = job("huge", 8, **PROD | {"age": 3 * HOUR}), job("small", 4, **PROD | {"namespace": "also"})
    world = World(3, [*full(safe, safe, {}), *huge, *small], tuning(MAY, also))
    gone = [ended(world.ask()) for _ in range(3)]
    assert {"r3"} in gone
    assert world.memory
    assert list(world.memory.failed_preemptions) == [("prod", "prod.huge")]


def test_a_victim_with_a_remembered_failure_ends_once() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    failure = Failure(1, NOW - 10 * MINUTE)
    world.memory = replace(MEMORY, failures={("team", "team.r2"): failure}, decided_at=NOW - SECOND)
    assert len(world.ask().deletions) == 1


def test_the_age_of_a_victim_whose_pods_are_new_is_not_in_the_future() -> None:
    world = World(1, [*running("r1", *server(1)), *job("own", 4, **PROD)])
    admitted = {("team", "team.r1"): AdmittedJob(NOW - 480 * HOUR, None)}
    world.memory = replace(MEMORY, admitted_jobs=admitted, decided_at=NOW - SECOND)
    world.ask()
    (left,) = world.memory.departures.values()
    assert left.age_start == NOW


def test_a_row_that_only_preempts_hides_no_guarantee() -> None:
    rows = MAY, Guarantee(("prod",), SERVER_4, 1)
    world = World(2, [*full({}), *job("other", 4), *job("own", 4, namespace="prod")], tuning(*rows))
    decision = world.ask()
    assert placed(decision) == {"prod/own": "us-02"}


def test_answers_and_forecasts_end_nothing() -> None:
    scene = Scene(Topology(servers(2).values()), tuple(full({}, {})), NOW, tuning(), MEMORY)
    own = job("own", 4, **PROD)
    answer = answer_for(scene, own)
    assert not answer.fits
    assert "preempts" not in answer.why
    assert answer.start != NOW + scene.tuning.bound


def test_the_launcher_ends_first_and_nothing_more_if_the_job_has_gone() -> None:
    pods = full({})
    launcher = Pod(
        "team",
        "r1-launcher",
        "team/r1/launcher/0",
        "team.r1",
        node="n9-9",
        started=True,
        on_failure="restart",
    )
    world = World(1, [*pods, launcher, *job("own", 4, **PROD)])
    first = world.ask()
    assert deleted(first) == ["r1-launcher"]
    (deletion,) = first.deletions
    assert not deletion.is_last
    assert deletion.at_once == {launcher.uid}
    world.pods.remove(launcher)
    alone = [pod for pod in world.pods if pod.namespace == "team"]
    assert not replace(world, pods=alone).ask().deletions
    # The next launcher waits until the workers have ended.
    gated = replace(launcher, uid="new", node="", started=False, gates=(GATE,), created=NOW)
    world.pods.append(gated)
    decision = world.ask()
    assert deleted(decision) == [f"r1-worker-{number}" for number in range(4)]
    assert not decision.admissions
    # It no longer has to end: the other one has been admitted elsewhere.
    opened = bound(job("own", 4, **PROD), on(FLEET, *server(2)), started=True)
    world.pods = [*alone, gated, *opened]
    assert not replace(world, servers=2, memory=first.memory).ask().deletions


def test_a_job_for_which_others_end_goes_before_a_more_urgent_one_of_the_same_priority() -> None:
    world = World(2, [*full({}, {}), *job("own", 4, **PROD)])
    decision = world.ask()
    world.carry_out(decision)
    world.pods += job("old", 4, namespace="new", priority=9, age=20 * HOUR)
    assert placed(world.ask()) == {"prod/own": "us-02"}


def test_a_job_that_ends_right_after_its_admission_costs_its_namespace_no_age() -> None:
    world = World(1, job("r1", 4, on_failure="restart"))
    for _ in range(2):
        world.carry_out(world.ask())
    world.pods += job("own", 4, **PROD)
    assert ended(world.ask()) == {"r1"}
    world.pods = job("own", 4, **PROD)
    world.ask()
    assert world.memory
    assert not world.memory.age_debts


def test_a_job_that_ended_waits_with_the_age_that_it_had_before_it_ran() -> None:
    world = World(1, [*running("r1", *server(1), since=20 * HOUR, age=23 * HOUR), *job("own", 4, **PROD)])
    world.carry_out(world.ask())
    assert world.memory
    (left,) = world.memory.departures.values()
    assert left.age_start == NOW - 3 * HOUR


def test_a_forecast_lets_the_jobs_end() -> None:
    pods = [*full({}, {"limit": 20 * HOUR}), *job("own", 4, **PROD), *job("next", 4)]
    nodes = Topology(servers(2).values())
    scene = Scene(nodes, tuple(pods), NOW, tuning(), MEMORY)
    decision = scene.decision()
    starts = forecast(scene, decision, [("prod", "prod.own"), ("team", "team.next")])
    own = starts["prod", "prod.own"]
    assert (own.at, own.latest) == (NOW + scene.tuning.bound, None)
    assert starts["team", "team.next"].at == NOW + 9 * HOUR - MINUTE


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Pod], list[Pod], UnitSettings]:
    pods: list[Pod] = []
    for number in range(1, 4):
        names = server(number)
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
    own = job("own", draw(st.sampled_from([1, 2, 4, 8, 12])), namespace="prod", priority=1, age=HOUR)
    more = job("more", draw(st.sampled_from([1, 4])), namespace="b", priority=draw(st.integers(0, 2)))
    counts = draw(st.integers(0, 2))
    rows = (MAY, *((Guarantee(("a",), SERVER_4, counts),) if counts else ()))
    return [*servers(3).values()], [*pods, *more], own, replace(UNITS, guarantees=rows)


@examples(60)
@given(world=worlds())
def test_whole_jobs_of_lower_priority_end_and_each_has_to(
    world: tuple[list[Node], list[Pod], list[Pod], UnitSettings],
) -> None:
    nodes, others, own, units = world
    topology, memory = Topology(nodes), MEMORY

    def fits(gone: Iterable[str]) -> bool:
        left = [pod for pod in others if pod.job not in gone]
        off = Tuning(units=units, preempts=False)
        return "prod/own" in placed(decide(topology, [*left, *own], NOW, off, memory))

    decision = decide(topology, [*others, *own], NOW, Tuning(units=units), memory)
    assert not decision.errors
    gone = {deletion.job.key[1]: deletion for deletion in decision.deletions}
    if not gone:
        return
    assert not fits(())
    assert fits(gone)
    for some in combinations(gone, len(gone) - 1):
        assert not fits(some)
    for key, deletion in gone.items():
        pods = [pod for pod in others if pod.job == key]
        assert {pod.uid for pod in deletion.pods} == {pod.uid for pod in pods}
        assert all(pod.priority < 1 and pod.on_failure and pod.admitted_at for pod in pods)

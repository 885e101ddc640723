"""A snapshot has what a decision sees: the decision about it is the same, also with names hidden."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from contract.keys import DRIVER, GATE, HOSTNAME, JOB, SERVER_4
from contract.place import Index, Summand
from placement import messages
from placement.__main__ import main
from placement.decide.allocation import with_devices
from placement.decide.plan import Decision, Tuning
from placement.decide.topology import Topology
from placement.observe.inventory import Claim, DeviceClass, Inventory, Request, Slice, key_of
from placement.observe.model import (
    UNITS,
    Apart,
    Demand,
    Device,
    EndedWorker,
    Expression,
    Guarantee,
    Node,
    Pod,
    Taint,
    Toleration,
)
from placement.observe.model import Term as Terms
from placement.replay import decision_for, read
from placement.snapshot import NAMELESS_FIELDS, Snapshot, as_json
from tests.helpers import examples
from tests.placement.world import (
    DEMAND,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bound,
    decide,
    foreign,
    job,
    node,
    servers,
)

THREE = servers(3)
NODES = list(THREE.values())
NAMES = st.text("ab-1", min_size=1, max_size=3).filter(lambda name: name.strip("-") == name)
OTHERS = Apart(
    "rack",
    (Expression(JOB, "Exists", ()), Expression("team", "NotIn", ("red", "12"))),
    frozenset({"a", "b"}),
    (Expression("kubernetes.io/metadata.name", "In", ("a",)),),
)


def taken(
    nodes: Iterable[Node], pods: Iterable[Pod], ended: Sequence[EndedWorker] = (), **more: Any
) -> Snapshot:
    fields = {"release": "0", "complete": True, "units": UNITS, "classes": (), "claims": ()} | more
    return Snapshot(taken=NOW, nodes=tuple(nodes), pods=tuple(pods), ended=tuple(ended), **fields)


def outcome(decision: Decision, snapshot: Snapshot) -> Any:
    """Returns a decision with the position of pods and units in a snapshot in place of their names."""
    position = {pod.uid: number for number, pod in enumerate(snapshot.pods)}
    topology = Topology(snapshot.nodes)
    ids = [name for key in snapshot.units.kinds for name in topology.units_of_label(key)]
    held = next(iter(decision.cluster.reservations), None)
    return (
        [
            ([position[pod.uid] for pod, _ in each.plans], [ids.index(unit) for unit in each.units])
            for each in decision.admissions
        ],
        [(position[each.job.pods[0].pod.uid], each.reason) for each in decision.waiting],
        [[position[pod.uid] for pod in each.pods] for each in decision.deletions],
        [position[each.job.pods[0].pod.uid] for each in decision.untrusted],
        held and ([ids.index(unit) for unit in held.units], held.begin, held.is_assumed, held.is_internal),
    )


def replayed(snapshot: Snapshot, file: Path, *, hidden: bool) -> Snapshot:
    file.write_text(json.dumps(as_json(snapshot, hidden=hidden)), encoding="utf-8")
    return read(file)


def first_decision(snapshot: Snapshot) -> Decision:
    """Returns the decision about what the snapshot was taken of."""
    inventory = Inventory({}, dict(snapshot.classes), dict(snapshot.claims))
    pods = [*snapshot.pods, *snapshot.ended]
    return decide(Topology(snapshot.nodes), pods, NOW, Tuning(units=snapshot.units), None, inventory)


def needs(terms: bool, team: bool) -> Demand:  # noqa: FBT001 - drawn
    """Returns the demand of a whole node, perhaps with a selector and node affinity of its own."""
    only = Terms((Expression(HOSTNAME, "NotIn", ("n1-0", "gone")),), ())
    rank = Terms((Expression("rank", "Gt", ("1",)),), (Expression("metadata.name", "In", ("n2-0",)),))
    return replace(
        DEMAND,
        selector={**DEMAND.selector, **({"team": "red"} if team else {})},
        terms=(only, rank) if terms else None,
        tolerations=(Toleration("team", "Equal", "red", "NoSchedule"),) if team else (),
    )


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Returns jobs that run, wait or have ended; many are of one age, so that names decide."""
    nodes = [
        replace(
            each,
            labels=each.labels
            | {
                "rank": each.name[1],
                "rack": str(each.name[1] in "12"),
                "team": draw(st.sampled_from(["red", "12"])),
            },
            cordoned=draw(st.integers(0, 9)) == 0,
            taints=(Taint("team", "red", "NoSchedule"),) if draw(st.integers(0, 5)) == 0 else (),
        )
        for each in NODES
    ]
    running = st.sampled_from(["", "long", "once"])
    pods: list[Pod] = []
    ended: list[EndedWorker] = []
    for server in draw(st.sets(st.integers(0, 2))):
        there = job(f"on-{server}", 4, namespace=draw(NAMES), age=draw(st.sampled_from([MINUTE, 3 * HOUR])))
        limit = {"": None, "long": 5 * HOUR, "once": HOUR}[draw(running)]
        apart = (OTHERS,) if draw(st.booleans()) else ()
        pods += bound(there, nodes[4 * server :][:4], started=True, limit=limit, apart=apart) if limit else []
    pods += [foreign(draw(NAMES), name, neuron=False) for name in draw(st.sets(st.sampled_from(list(THREE))))]
    for name, namespace in draw(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6, unique=True)):
        age = draw(st.sampled_from([MINUTE, 30 * MINUTE]))
        demand = needs(draw(st.booleans()), draw(st.booleans()))
        waits = job(name, draw(st.sampled_from([1, 2, 4, 4, 8])), namespace=namespace, age=age, demand=demand)
        team = {"team": draw(st.sampled_from(["red", "blue"])), JOB: waits[0].job}
        numbered = draw(st.sampled_from([None, Index((Summand("name", 2),), 1)]))
        waits = [
            replace(pod, place=pod.place and replace(pod.place, index=numbered, group="batch"))
            for pod in waits
        ]
        over = draw(st.sampled_from([None, EndedWorker(waits[0].key, 0)]))
        ended += [over] if over else []
        pods += [replace(pod, labels=team) for pod in waits][1 if over else 0 :]
    guarantees = [Guarantee(("a*", "-b"), SERVER_4, 1), Guarantee(("b*",), SERVER_4, 1)]
    units = replace(UNITS, guarantees=tuple(draw(st.lists(st.sampled_from(guarantees), unique=True))))
    return taken(nodes, pods, ended, units=units)


@examples(15)
@given(worlds())
def test_the_decision_about_a_snapshot_is_the_one_that_was_seen(
    tmp_path_factory: pytest.TempPathFactory, snapshot: Snapshot
) -> None:
    file = tmp_path_factory.getbasetemp() / "snapshot.json"
    decision = first_decision(snapshot)
    for hidden in (False, True):
        again = replayed(snapshot, file, hidden=hidden)
        assert outcome(decision_for(again), again) == outcome(decision, snapshot)
        if not hidden:
            assert [each.why for each in decision_for(again).waiting] == [
                each.why for each in decision.waiting
            ]


def claimed() -> Snapshot:
    """Returns nodes with claimed devices, one of them in use, and jobs that claim some or are at fault."""
    whole = frozenset({("driver", DRIVER), (f"{DRIVER}/resourceType", "neuron_node")})
    slices = {
        ("", name): Slice(name, (DRIVER, name), 1, 1, (Device(key_of(DRIVER, name, "all"), whole),))
        for name in THREE
    }
    nodes = with_devices(Inventory(slices), {**THREE, "n3-3": node(3, 3, ready=False)})
    claiming = Demand(DEMAND.selector, requests={"cpu": 1000})
    pods = job("train", 4, demand=claiming, limit=HOUR)
    pods = [replace(pod, claims=((f"{pod.name}-t", f"{pod.name}-c"),)) for pod in pods]
    asks = Request(DRIVER, whole, 1, None)
    claims = {
        ("team", f"{pod.name}-c"): Claim((asks,), None, 4, pod.uid, (), (), extended=False) for pod in pods
    }
    used = Claim((), None, 0, "", ((DRIVER, "n1-0", "all"),), ("gone",), extended=False)
    broken = Claim((), ("requests", 40), 4, "x", (), (), extended=True)
    other = replace(job("faulty", 1)[0], fault=("place", "it is 'my secret'"))
    plain = job("plain", 4)
    half = [replace(pod, admitted_at=NOW - SECOND, plan="1=us-03") for pod in job("half", 8)[:1]]
    return taken(
        nodes.values(),
        [*pods, other, *plain, *half],
        classes=((("", DRIVER), DeviceClass(whole, "aws.amazon.com/neuron", "2026-11-01T00:00:00Z", None)),),
        claims=(*claims.items(), (("team", "used"), used), (("team", "broken"), broken)),
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_device_claims_faults_and_plans_are_part_of_it(tmp_path: Path, *, hidden: bool) -> None:
    snapshot = claimed()
    decision = first_decision(snapshot)
    assert [admission.units for admission in decision.admissions] == [("us-02",)]
    again = replayed(snapshot, tmp_path / "s.json", hidden=hidden)
    assert outcome(decision_for(again), again) == outcome(decision, snapshot)
    if not hidden:
        assert as_json(again) == as_json(snapshot)
        assert again.pods[0].demand is again.pods[1].demand


@pytest.mark.parametrize("hidden", [False, True])
def test_labels_that_anti_affinity_selects_are_part_of_it(tmp_path: Path, *, hidden: bool) -> None:
    racks = [replace(each, labels=each.labels | {"rack": each.name[1], "other": "x"}) for each in NODES[:8]]
    apart = Apart("rack", (Expression("team", "In", ("blue",)),), frozenset({"team"}), None)
    pods = [foreign("busy", "n1-0", neuron=False, apart=(apart,))]
    for team in ("red", "blue"):
        pods += [replace(pod, labels={"team": team, "other": "x"}) for pod in job(team, 4)]
    snapshot = taken(racks, pods)
    again = replayed(snapshot, tmp_path / "s.json", hidden=hidden)
    decision = first_decision(snapshot)
    assert [each.units for each in decision.admissions] == [("us-02",), ("us-01",)]
    assert outcome(decision_for(again), again) == outcome(decision, snapshot)
    assert "other" not in {key for pod in again.pods for key in pod.labels}
    assert "other" not in {key for each in again.nodes for key in each.labels}


def test_hidden_names_are_nowhere_and_numbers_of_workers_stay() -> None:
    text = json.dumps(as_json(claimed(), hidden=True))
    for name in ("train", "faulty", "team", "n1-", "us-0", "gone", "my secret", "-worker"):
        assert name not in text
    names = [pod["name"] for pod in json.loads(text)["pods"]]
    assert {name.rpartition("-")[2] for name in names[:4]} == {"0", "1", "2", "3"}


def test_names_with_several_numbers_keep_their_order_when_they_are_hidden() -> None:
    names = ["a-1-1", "a-2", "a", "a-1", "a-10-0", "a-10", "b-1"]
    (pod, *_) = job("a", 4)
    pods = [replace(pod, name=name, uid=name) for name in names]
    hidden = [each["name"] for each in as_json(taken(NODES, pods), hidden=True)["pods"]]
    assert sorted(range(7), key=hidden.__getitem__) == sorted(range(7), key=names.__getitem__)


def test_numbers_and_addresses_are_hidden_in_order_and_those_that_are_compared_stay() -> None:
    racks = [replace(each, labels=each.labels | {"rank": each.name[1], "rack": "10-0-0-1"}) for each in NODES]
    terms = (Terms((Expression("rank", "Gt", ("1",)), Expression("rack", "In", ("10-0-0-1", "5"))), ()),)
    pods = [replace(pod, demand=replace(DEMAND, terms=terms)) for pod in job("a", 4)]
    data = as_json(taken(racks, pods), hidden=True)
    rank, rack = data["pods"][0]["demand"]["terms"][0]["labels"]
    assert rank["values"] == ["1"]
    assert {each["labels"]["rank"] for each in data["nodes"]} == {"1", "2", "3"}
    assert rack["values"] == sorted(rack["values"])
    assert all(value.startswith("n") for value in rack["values"])


def test_a_guarantee_without_a_namespace_keeps_one_that_is_hidden() -> None:
    rows = Guarantee(("secret-*", "b"), SERVER_4, 1), Guarantee(("team",), SERVER_4, 1)
    units = replace(UNITS, guarantees=rows)
    claim = Claim((), None, 0, "", ((DRIVER, "n1-0", "all"),), ("gone",), extended=False)
    data = as_json(taken(NODES, (), units=units, claims=((("team", "c"), claim),)), hidden=True)
    none, team = (each["namespaces"] for each in data["units"]["guarantees"])
    assert [len(none), len(team)] == [1, 1]
    assert team == [data["claims"][0][0][0]]
    assert "secret" not in json.dumps(data)


def test_other_gates_and_what_is_no_plan_are_hidden() -> None:
    plan = "1=us-03 our secret 2= x=y"
    pods = [replace(pod, gates=(GATE, "secret.example/gate"), plan=plan) for pod in job("a", 4)]
    data = as_json(taken(NODES, pods), hidden=True)
    assert "secret" not in json.dumps(data)
    assert data["pods"][0]["gates"][0] == GATE
    units = {each["labels"][SERVER_4] for each in data["nodes"][-4:]}
    assert {data["pods"][0]["plan"]} == {f"1={unit}" for unit in units}


def test_of_each_text_of_a_pod_or_node_it_is_known_whether_it_is_a_name() -> None:
    texts = {field.name for kind in (Pod, Node) for field in fields(kind) if field.type is str}
    assert texts - NAMELESS_FIELDS == {"namespace", "name", "uid", "job", "node", "plan"}, (
        "add it to NAMELESS_FIELDS, if not"
    )


def call(*words: str) -> Any:
    return CliRunner().invoke(main, ["replay", *words])


def test_the_command_prints_a_sentence_and_then_the_jobs(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    pods = [*job("small", 4), *job("large", 16, age=HOUR), *bound(job("long", 4, limit=HOUR), NODES[:4])]
    file.write_text(json.dumps(as_json(taken(NODES, pods, complete=False))), encoding="utf-8")
    done = call(str(file))
    assert done.exit_code == 0
    first, admitted, waits, *more = done.stdout.splitlines()
    assert (first, more) == ("1 of 2 waiting jobs would be admitted now.", [])
    assert admitted == "  admit   team/small: to us-02"
    assert waits.startswith("  wait    team/large: needs 4 whole UltraServers; 1 free; at most 3 can become")
    assert done.stderr.splitlines() == [
        messages.INCOMPLETE_SNAPSHOT,
        "note: the snapshot was taken with release 0",
    ]
    data = json.loads(call(str(file), "-o", "json").stdout)
    assert data["admit"] == [{"job": "team/small", "text": "to us-02"}]
    assert data["wait"][0]["reason"] == "nodes"


WRONG = {
    "not JSON": ("{", "s.json: Invalid JSON"),
    "deep": ("[" * 9999, "recursion limit exceeded"),
    "no object": ("[1]", "s.json: Input should be an object"),
    "empty": ("{}", "release is {}: Field required, and 8 more errors: take a snapshot with `kubectl"),
    "type": (
        ("pods", 0, "place", "workers", "many"),
        "pods[0].place.workers is 'many': Input should be a va",
    ),
    "placer": (("pods", 0, "place", "placer", "me"), "pods[0].place.placer is 'me': Input should be"),
    "escape": (("pods", 0, "created", "\x1b[2J"), "pods[0].created is '\\x1b[2J': Input should be a valid"),
    "long": (("taken", ["x" * 9999]), "taken is ['xxxx"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_is_no_snapshot_is_refused_with_place_value_and_remedy(what: str, tmp_path: Path) -> None:
    change, message = WRONG[what]
    if not isinstance(change, str):
        document = node_ = as_json(taken(NODES, job("a", 4)))
        *path, last, value = change
        for key in path:
            node_ = node_[key]
        node_[last] = value
        change = json.dumps(document)
    (tmp_path / "s.json").write_text(change, encoding="utf-8")
    done = call(str(tmp_path / "s.json"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert "take a snapshot with `kubectl ultraserver snapshot`" in done.stderr
    assert len(done.stderr) < 400 + len(str(tmp_path))


def test_what_is_no_file_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, file = tmp_path / "inside", tmp_path / "s.json"
    inside.mkdir()
    file.write_text(json.dumps(as_json(taken(NODES, ()))), encoding="utf-8")
    (inside / "link.json").symlink_to(file)
    for path, message in ((inside, "not a regular file"), (inside / "link.json", "leads out of its folder")):
        done = call(str(path))
        assert done.exit_code == 1
        assert message in done.stderr
    monkeypatch.setattr("placement.replay.MOST_MIB", 0)
    assert "s.json: has more than 0 MiB: take a snapshot" in call(str(file)).stderr


def test_no_text_of_a_file_adds_a_line_or_commands_a_terminal(tmp_path: Path) -> None:
    """A job's name added the line that a job of another team is admitted."""
    pods = [*bound(job("long", 4), NODES[:4]), *job("small", 4), *job("large", 16, age=HOUR)]
    names = {each for pod in pods for each in (pod.namespace, pod.job)} | {node.name for node in NODES}
    names |= {node.labels[SERVER_4] for node in NODES}
    document = json.dumps(as_json(taken(NODES, pods)))
    (tmp_path / "s.json").write_text(document, encoding="utf-8")
    expected = len(call(str(tmp_path / "s.json")).stdout.splitlines())
    for name in names:
        hostile = json.dumps(f"{name}\x1b]0;t\x07\u202e\n  admit   team/other: to us-01\n::error::x")
        (tmp_path / "s.json").write_text(document.replace(json.dumps(name), hostile), encoding="utf-8")
        done = call(str(tmp_path / "s.json"))
        assert done.exit_code == 0, done.output
        lines = done.stdout.splitlines()
        assert len(lines) == expected
        assert all(line.isprintable() and not line.startswith("::") for line in lines)


def test_if_no_decision_is_possible_the_error_is_shown(tmp_path: Path) -> None:
    document = as_json(taken(NODES, job("a", 4)))
    document["taken"] = "2026-11-21T12:00:00"
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    done = call(str(tmp_path / "s.json"))
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert "no decision is possible, because of a bug or a changed file: can't" in done.stderr

"""Tests that a decision about a snapshot, also with hidden names, is the same as the original decision."""

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
from contract.placement import Index, Summand
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
from placement.observe.model import Term as NodeTerm
from placement.replay import decision_for, read
from placement.snapshot import NAMELESS_FIELDS, Snapshot, as_json
from tests.helpers import examples
from tests.placement.world import (
    DEMAND,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bind_pods,
    decide,
    foreign_pod,
    job,
    node,
    servers,
)

THREE_SERVERS = servers(3)
NODES = list(THREE_SERVERS.values())
NAMES = st.text("ab-1", min_size=1, max_size=3).filter(lambda name: name.strip("-") == name)
ANTI_AFFINITY = Apart(
    "rack",
    (Expression(JOB, "Exists", ()), Expression("team", "NotIn", ("red", "12"))),
    frozenset({"a", "b"}),
    (Expression("kubernetes.io/metadata.name", "In", ("a",)),),
)


def snapshot_of(
    nodes: Iterable[Node], pods: Iterable[Pod], ended: Sequence[EndedWorker] = (), **fields_of_snapshot: Any
) -> Snapshot:
    """Returns a snapshot of the nodes and pods."""
    fields = {
        "release": "0",
        "complete": True,
        "units": UNITS,
        "classes": (),
        "claims": (),
    } | fields_of_snapshot
    return Snapshot(taken=NOW, nodes=tuple(nodes), pods=tuple(pods), ended=tuple(ended), **fields)


def comparable(decision: Decision, snapshot: Snapshot) -> Any:
    """Returns a decision as data in which positions in the snapshot replace the names of pods and units."""
    positions = {pod.uid: number for number, pod in enumerate(snapshot.pods)}
    topology = Topology(snapshot.nodes)
    unit_ids = [name for key in snapshot.units.kinds for name in topology.units_of_label(key)]
    reservation = next(iter(decision.cluster.reservations), None)
    return (
        [
            (
                [positions[pod.uid] for pod, _ in admission.plans],
                [unit_ids.index(unit) for unit in admission.units],
            )
            for admission in decision.admissions
        ],
        [(positions[waiting.job.pods[0].pod.uid], waiting.reason) for waiting in decision.waiting],
        [[positions[pod.uid] for pod in deletion.pods] for deletion in decision.deletions],
        [positions[waiting.job.pods[0].pod.uid] for waiting in decision.untrusted],
        reservation
        and (
            [unit_ids.index(unit) for unit in reservation.units],
            reservation.begin,
            reservation.is_assumed,
            reservation.is_internal,
        ),
    )


def write_and_read(snapshot: Snapshot, file: Path, *, hidden: bool) -> Snapshot:
    """Returns the snapshot after it was written to a file and read again."""
    file.write_text(json.dumps(as_json(snapshot, hidden=hidden)), encoding="utf-8")
    return read(file)


def first_decision(snapshot: Snapshot) -> Decision:
    """Returns the decision about the objects of a snapshot, without a file."""
    inventory = Inventory({}, dict(snapshot.classes), dict(snapshot.claims))
    pods = [*snapshot.pods, *snapshot.ended]
    return decide(Topology(snapshot.nodes), pods, NOW, Tuning(units=snapshot.units), None, inventory)


def demand_with(terms: bool, team: bool) -> Demand:  # noqa: FBT001 - drawn
    """Returns a whole node's demand: ``terms`` adds node affinity; ``team``, a selector and a toleration."""
    not_first_node = NodeTerm((Expression(HOSTNAME, "NotIn", ("n1-0", "gone")),), ())
    rank_term = NodeTerm((Expression("rank", "Gt", ("1",)),), (Expression("metadata.name", "In", ("n2-0",)),))
    return replace(
        DEMAND,
        selector={**DEMAND.selector, **({"team": "red"} if team else {})},
        terms=(not_first_node, rank_term) if terms else None,
        tolerations=(Toleration("team", "Equal", "red", "NoSchedule"),) if team else (),
    )


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Returns a snapshot with running, waiting and ended jobs. Many ages are equal, so that names decide."""
    nodes = [
        replace(
            node,
            labels=node.labels
            | {
                "rank": node.name[1],
                "rack": str(node.name[1] in "12"),
                "team": draw(st.sampled_from(["red", "12"])),
            },
            cordoned=draw(st.integers(0, 9)) == 0,
            taints=(Taint("team", "red", "NoSchedule"),) if draw(st.integers(0, 5)) == 0 else (),
        )
        for node in NODES
    ]
    running = st.sampled_from(["", "long", "once"])
    pods: list[Pod] = []
    ended: list[EndedWorker] = []
    for server in draw(st.sets(st.integers(0, 2))):
        running_job = job(
            f"on-{server}", 4, namespace=draw(NAMES), age=draw(st.sampled_from([MINUTE, 3 * HOUR]))
        )
        limit = {"": None, "long": 5 * HOUR, "once": HOUR}[draw(running)]
        apart = (ANTI_AFFINITY,) if draw(st.booleans()) else ()
        pods += (
            bind_pods(running_job, nodes[4 * server :][:4], started=True, limit=limit, apart=apart)
            if limit
            else []
        )
    pods += [
        foreign_pod(draw(NAMES), name, neuron=False)
        for name in draw(st.sets(st.sampled_from(list(THREE_SERVERS))))
    ]
    for name, namespace in draw(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6, unique=True)):
        age = draw(st.sampled_from([MINUTE, 30 * MINUTE]))
        demand = demand_with(draw(st.booleans()), draw(st.booleans()))
        waiting_job = job(
            name, draw(st.sampled_from([1, 2, 4, 4, 8])), namespace=namespace, age=age, demand=demand
        )
        pod_labels = {"team": draw(st.sampled_from(["red", "blue"])), JOB: waiting_job[0].job}
        index = draw(st.sampled_from([None, Index((Summand("name", 2),), 1)]))
        waiting_job = [
            replace(pod, placement=pod.placement and replace(pod.placement, index=index, group="batch"))
            for pod in waiting_job
        ]
        ended_worker = draw(st.sampled_from([None, EndedWorker(waiting_job[0].key, 0)]))
        ended += [ended_worker] if ended_worker else []
        pods += [replace(pod, labels=pod_labels) for pod in waiting_job][1 if ended_worker else 0 :]
    guarantees = [Guarantee(("a*", "-b"), SERVER_4, 1), Guarantee(("b*",), SERVER_4, 1)]
    units = replace(UNITS, guarantees=tuple(draw(st.lists(st.sampled_from(guarantees), unique=True))))
    return snapshot_of(nodes, pods, ended, units=units)


@examples(15)
@given(worlds())
def test_the_decision_about_a_snapshot_equals_the_original_decision(
    tmp_path_factory: pytest.TempPathFactory, snapshot: Snapshot
) -> None:
    file = tmp_path_factory.getbasetemp() / "snapshot.json"
    decision = first_decision(snapshot)
    for hidden in (False, True):
        replayed_snapshot = write_and_read(snapshot, file, hidden=hidden)
        assert comparable(decision_for(replayed_snapshot), replayed_snapshot) == comparable(
            decision, snapshot
        )
        if not hidden:
            assert [waiting.why for waiting in decision_for(replayed_snapshot).waiting] == [
                waiting.why for waiting in decision.waiting
            ]


def snapshot_with_claims() -> Snapshot:
    """Returns a snapshot with device claims, a pod with a fault, and a job that is admitted in part."""
    whole = frozenset({("driver", DRIVER), (f"{DRIVER}/resourceType", "neuron_node")})
    slices = {
        ("", name): Slice(name, (DRIVER, name), 1, 1, (Device(key_of(DRIVER, name, "all"), whole),))
        for name in THREE_SERVERS
    }
    nodes = with_devices(Inventory(slices), {**THREE_SERVERS, "n3-3": node(3, 3, ready=False)})
    claiming_demand = Demand(DEMAND.selector, requests={"cpu": 1000})
    pods = job("train", 4, demand=claiming_demand, limit=HOUR)
    pods = [replace(pod, claims=((f"{pod.name}-t", f"{pod.name}-c"),)) for pod in pods]
    request = Request(DRIVER, whole, 1, None)
    claims = {
        ("team", f"{pod.name}-c"): Claim((request,), None, 4, pod.uid, (), (), extended=False) for pod in pods
    }
    used_claim = Claim((), None, 0, "", ((DRIVER, "n1-0", "all"),), ("gone",), extended=False)
    faulty_claim = Claim((), ("requests", 40), 4, "x", (), (), extended=True)
    faulty_pod = replace(job("faulty", 1)[0], fault=("placement", "it is 'my secret'"))
    other_job = job("plain", 4)
    partly_admitted = [replace(pod, admitted_at=NOW - SECOND, plan="1=us-03") for pod in job("half", 8)[:1]]
    return snapshot_of(
        nodes.values(),
        [*pods, faulty_pod, *other_job, *partly_admitted],
        classes=((("", DRIVER), DeviceClass(whole, "aws.amazon.com/neuron", "2026-11-01T00:00:00Z", None)),),
        claims=(*claims.items(), (("team", "used"), used_claim), (("team", "broken"), faulty_claim)),
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_a_snapshot_has_device_claims_faults_and_plans(tmp_path: Path, *, hidden: bool) -> None:
    snapshot = snapshot_with_claims()
    decision = first_decision(snapshot)
    assert [admission.units for admission in decision.admissions] == [("us-02",)]
    replayed_snapshot = write_and_read(snapshot, tmp_path / "s.json", hidden=hidden)
    assert comparable(decision_for(replayed_snapshot), replayed_snapshot) == comparable(decision, snapshot)
    if not hidden:
        assert as_json(replayed_snapshot) == as_json(snapshot)
        assert replayed_snapshot.pods[0].demand is replayed_snapshot.pods[1].demand


@pytest.mark.parametrize("hidden", [False, True])
def test_a_snapshot_has_only_the_labels_that_are_selected(tmp_path: Path, *, hidden: bool) -> None:
    nodes = [replace(node, labels=node.labels | {"rack": node.name[1], "other": "x"}) for node in NODES[:8]]
    term = Apart("rack", (Expression("team", "In", ("blue",)),), frozenset({"team"}), None)
    pods = [foreign_pod("busy", "n1-0", neuron=False, apart=(term,))]
    for team in ("red", "blue"):
        pods += [replace(pod, labels={"team": team, "other": "x"}) for pod in job(team, 4)]
    snapshot = snapshot_of(nodes, pods)
    replayed_snapshot = write_and_read(snapshot, tmp_path / "s.json", hidden=hidden)
    decision = first_decision(snapshot)
    assert [admission.units for admission in decision.admissions] == [("us-02",), ("us-01",)]
    assert comparable(decision_for(replayed_snapshot), replayed_snapshot) == comparable(decision, snapshot)
    assert "other" not in {key for pod in replayed_snapshot.pods for key in pod.labels}
    assert "other" not in {key for node in replayed_snapshot.nodes for key in node.labels}


def test_a_hidden_snapshot_has_no_names_but_the_numbers_of_workers() -> None:
    text = json.dumps(as_json(snapshot_with_claims(), hidden=True))
    for name in ("train", "faulty", "team", "n1-", "us-0", "gone", "my secret", "-worker"):
        assert name not in text
    names = [pod["name"] for pod in json.loads(text)["pods"]]
    assert {name.rpartition("-")[2] for name in names[:4]} == {"0", "1", "2", "3"}


def test_names_with_several_numbers_keep_their_order_when_they_are_hidden() -> None:
    names = ["a-1-1", "a-2", "a", "a-1", "a-10-0", "a-10", "b-1"]
    (pod, *_) = job("a", 4)
    pods = [replace(pod, name=name, uid=name) for name in names]
    hidden = [pod["name"] for pod in as_json(snapshot_of(NODES, pods), hidden=True)["pods"]]
    assert sorted(range(7), key=hidden.__getitem__) == sorted(range(7), key=names.__getitem__)


def test_label_values_are_hidden_in_order_except_numbers_that_are_compared() -> None:
    racks = [replace(node, labels=node.labels | {"rank": node.name[1], "rack": "10-0-0-1"}) for node in NODES]
    terms = (NodeTerm((Expression("rank", "Gt", ("1",)), Expression("rack", "In", ("10-0-0-1", "5"))), ()),)
    pods = [replace(pod, demand=replace(DEMAND, terms=terms)) for pod in job("a", 4)]
    data = as_json(snapshot_of(racks, pods), hidden=True)
    rank, rack = data["pods"][0]["demand"]["terms"][0]["labels"]
    assert rank["values"] == ["1"]
    assert {node["labels"]["rank"] for node in data["nodes"]} == {"1", "2", "3"}
    assert rack["values"] == sorted(rack["values"])
    assert all(value.startswith("n") for value in rack["values"])


def test_a_guarantee_that_applies_to_no_namespace_keeps_one_hidden_glob() -> None:
    rows = Guarantee(("secret-*", "b"), SERVER_4, 1), Guarantee(("team",), SERVER_4, 1)
    units = replace(UNITS, guarantees=rows)
    claim = Claim((), None, 0, "", ((DRIVER, "n1-0", "all"),), ("gone",), extended=False)
    data = as_json(snapshot_of(NODES, (), units=units, claims=((("team", "c"), claim),)), hidden=True)
    unmatched, matched = (row["namespaces"] for row in data["units"]["guarantees"])
    assert [len(unmatched), len(matched)] == [1, 1]
    assert matched == [data["claims"][0][0][0]]
    assert "secret" not in json.dumps(data)


def test_other_gates_and_invalid_parts_of_a_plan_are_hidden() -> None:
    plan = "1=us-03 our secret 2= x=y"
    pods = [replace(pod, gates=(GATE, "secret.example/gate"), plan=plan) for pod in job("a", 4)]
    data = as_json(snapshot_of(NODES, pods), hidden=True)
    assert "secret" not in json.dumps(data)
    assert data["pods"][0]["gates"][0] == GATE
    units = {node["labels"][SERVER_4] for node in data["nodes"][-4:]}
    assert {data["pods"][0]["plan"]} == {f"1={unit}" for unit in units}


def test_each_text_field_of_pods_and_nodes_is_a_name_or_in_nameless_fields() -> None:
    texts = {field.name for kind in (Pod, Node) for field in fields(kind) if field.type is str}
    assert texts - NAMELESS_FIELDS == {"namespace", "name", "uid", "job", "node", "plan"}, (
        "if the texts of a new field are not names, add the field to NAMELESS_FIELDS"
    )


def run_replay(*words: str) -> Any:
    return CliRunner().invoke(main, ["replay", *words])


def test_the_command_prints_a_summary_and_then_the_jobs(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    pods = [*job("small", 4), *job("large", 16, age=HOUR), *bind_pods(job("long", 4, limit=HOUR), NODES[:4])]
    file.write_text(json.dumps(as_json(snapshot_of(NODES, pods, complete=False))), encoding="utf-8")
    result = run_replay(str(file))
    assert result.exit_code == 0
    summary, admit_line, wait_line, *other_lines = result.stdout.splitlines()
    assert (summary, other_lines) == ("1 of 2 waiting jobs would be admitted now.", [])
    assert admit_line == "  admit   team/small: to us-02"
    assert wait_line.startswith(
        "  wait    team/large: needs 4 whole UltraServers; 1 free; at most 3 can become"
    )
    assert result.stderr.splitlines() == [
        messages.INCOMPLETE_SNAPSHOT,
        "note: the snapshot was taken with release 0",
    ]
    data = json.loads(run_replay(str(file), "-o", "json").stdout)
    assert data["admit"] == [{"job": "team/small", "text": "to us-02"}]
    assert data["wait"][0]["reason"] == "nodes"


INVALID_FILES = {
    "not JSON": ("{", "s.json: Invalid JSON"),
    "deeply nested": ("[" * 9999, "recursion limit exceeded"),
    "not an object": ("[1]", "s.json: Input should be an object"),
    "empty": ("{}", "release is {}: Field required, and 8 more errors: take a snapshot with `kubectl"),
    "wrong type": (
        ("pods", 0, "placement", "workers", "many"),
        "pods[0].placement.workers is 'many': Input should be a va",
    ),
    "unknown placer": (
        ("pods", 0, "placement", "placer", "me"),
        "pods[0].placement.placer is 'me': Input should be",
    ),
    "escape sequence": (
        ("pods", 0, "created", "\x1b[2J"),
        "pods[0].created is '\\x1b[2J': Input should be a valid",
    ),
    "long value": (("taken", ["x" * 9999]), "taken is ['xxxx"),
}


@pytest.mark.parametrize("fault", INVALID_FILES)
def test_an_invalid_snapshot_is_refused_with_field_value_and_remedy(fault: str, tmp_path: Path) -> None:
    content, message = INVALID_FILES[fault]
    if not isinstance(content, str):
        document = node = as_json(snapshot_of(NODES, job("a", 4)))
        *path, last, value = content
        for key in path:
            node = node[key]
        node[last] = value
        content = json.dumps(document)
    (tmp_path / "s.json").write_text(content, encoding="utf-8")
    result = run_replay(str(tmp_path / "s.json"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert "take a snapshot with `kubectl ultraserver snapshot`" in result.stderr
    assert len(result.stderr) < 400 + len(str(tmp_path))


def test_a_folder_a_link_out_of_the_folder_and_a_large_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = tmp_path / "inside", tmp_path / "s.json"
    folder.mkdir()
    file.write_text(json.dumps(as_json(snapshot_of(NODES, ()))), encoding="utf-8")
    (folder / "link.json").symlink_to(file)
    for path, message in ((folder, "not a regular file"), (folder / "link.json", "leads out of its folder")):
        result = run_replay(str(path))
        assert result.exit_code == 1
        assert message in result.stderr
    monkeypatch.setattr("placement.replay.MOST_MIB", 0)
    assert "s.json: has more than 0 MiB: take a snapshot" in run_replay(str(file)).stderr


def test_no_text_of_a_snapshot_adds_a_line_or_an_escape_sequence_to_the_output(tmp_path: Path) -> None:
    """Otherwise a job's name could add a line about the admission of another team's job."""
    pods = [*bind_pods(job("long", 4), NODES[:4]), *job("small", 4), *job("large", 16, age=HOUR)]
    names = {text for pod in pods for text in (pod.namespace, pod.job)} | {node.name for node in NODES}
    names |= {node.labels[SERVER_4] for node in NODES}
    document = json.dumps(as_json(snapshot_of(NODES, pods)))
    (tmp_path / "s.json").write_text(document, encoding="utf-8")
    expected = len(run_replay(str(tmp_path / "s.json")).stdout.splitlines())
    for name in names:
        hostile_name = json.dumps(f"{name}\x1b]0;t\x07\u202e\n  admit   team/other: to us-01\n::error::x")
        (tmp_path / "s.json").write_text(document.replace(json.dumps(name), hostile_name), encoding="utf-8")
        result = run_replay(str(tmp_path / "s.json"))
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert len(lines) == expected
        assert all(line.isprintable() and not line.startswith("::") for line in lines)


def test_if_no_decision_is_possible_the_error_is_shown(tmp_path: Path) -> None:
    document = as_json(snapshot_of(NODES, job("a", 4)))
    document["taken"] = "2026-11-21T12:00:00"
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    result = run_replay(str(tmp_path / "s.json"))
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "no decision is possible, because of a bug or a changed file: can't" in result.stderr

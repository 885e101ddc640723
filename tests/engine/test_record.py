"""What was added is known from a user's values, with any later table, and is put back as it was added."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.engine.strategies import jobs, without_void
from tests.helpers import load_text
from tests.rules.tables import EXTENDS
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Verdict
from webhook.objects.merge import Merge
from webhook.objects.putback import as_fragment, put_back
from webhook.objects.record import Record, read, strip, write
from webhook.objects.takeback import Budget, Removal, take_back
from webhook.objects.tree import Json, canonical, digest, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()


def worker(job: Any) -> Any:
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def mutated(job: Any, table: Any = TABLE) -> Any:
    return evaluate(table, Request(job, "default", "uid")).after


def stripped(template: Any) -> Any:
    """Returns a template without what its record names, which costs no more than it may."""
    bare, *_ = strip(template, read(template), Budget(template))
    return bare


def test_taking_back_gives_the_template_as_it_was() -> None:
    job = mpijob(4)
    assert stripped(worker(mutated(job))) == worker(job)


def test_an_equal_term_of_the_users_own_is_not_taken_back() -> None:
    job = mpijob(4, worker_spec={"nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}})
    after = mutated(job)
    assert stripped(worker(after))["spec"]["nodeSelector"] == worker(job)["spec"]["nodeSelector"]


def test_a_term_that_a_person_changed_afterwards_is_the_persons() -> None:
    template = worker(mutated(mpijob(4)))
    template["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] = "trn3.48xlarge"
    assert stripped(template)["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn3.48xlarge"}


def test_a_requirement_that_a_person_wrote_into_one_of_two_node_terms_stays() -> None:
    exists = {"key": "neuron.amazonaws.com/ultraserver-server-id-4", "operator": "Exists"}
    zone = {"key": "zone", "operator": "Exists"}
    terms = [{"matchExpressions": [exists]}, {"matchExpressions": [zone]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    job = mpijob(4, worker_spec={"affinity": {"nodeAffinity": required}})
    after = worker(mutated(job))
    result = after["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert result["nodeSelectorTerms"][1]["matchExpressions"][:2] == [zone, exists]
    assert stripped(after) == worker(job)


def test_opting_out_an_exported_job_takes_everything_back() -> None:
    job = mutated(mpijob(4))
    job["metadata"]["annotations"] = {keys.INJECT: "false"}
    plain = mpijob(4, annotations={keys.INJECT: "false"})
    assert mutated(job) == plain


UNREADABLE = [
    "",
    "not json",
    "[]",
    "{}",
    '{"added": []}',
    '{"added": {"x": "1"}}',
    '{"added": {"/x": 1}}',
    "[" * 9999,
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_record_that_cannot_be_read_is_replaced_and_takes_nothing_away(text: str) -> None:
    job = mpijob(4)
    worker(job)["metadata"] = {"annotations": {keys.ADDED: text}}
    assert read(worker(job)) is None
    assert worker(mutated(job)) == worker(mutated(mpijob(4)))


def test_a_forged_record_costs_a_job_only_what_is_its_own() -> None:
    template = {"spec": {"nodeSelector": {"a": "1"}, "containers": [{"name": "main"}]}}
    forged = write(
        template, Record("t", "", {"/spec/nodeSelector/a": "0000000000", "/nowhere": ["1"], "/spec": "x"})
    )
    assert stripped(forged) == template


OURS = {"key": "neuron.amazonaws.com/ultraserver-server-id-4", "operator": "Exists"}
A, B = ({"key": key, "operator": "In", "values": ["x"]} for key in "ab")
NEAR: list[list[Any]] = [
    *([{kind: [OURS, A, B]}, {kind: [A, B]}, {kind: [A, B]}] for kind in ("matchExpressions", "matchFields")),
    [
        *({"matchFields": some} for some in ([A, B, OURS], [A, OURS], [A, B], [A])),
        *({"matchExpressions": some} for some in ([A, B, OURS], [B], [A, B])),
    ],
]


@pytest.mark.parametrize("terms", NEAR)
def test_terms_that_differ_by_what_a_rule_adds_keep_their_own_expressions(terms: list[Any]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    once = mutated(mpijob(4, worker_spec={"affinity": {"nodeAffinity": required}}))
    assert evaluate(TABLE, Request(once)).operations == ()
    affinity = worker(once)["spec"]["affinity"]["nodeAffinity"]
    remaining = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for before, after in zip(terms, remaining, strict=True):
        assert all(after[kind][: len(some)] == some for kind, some in before.items())


def test_a_replaced_value_of_a_pods_variable_comes_back_once() -> None:
    """A forged record cannot make a long value of each of many short variables."""
    item = {"name": "A", "value": "ours"}
    added = {"/spec/containers/[c]/env": [f"{digest(item)} theirs"] * 3}
    pod = {"spec": {"containers": [{"name": "c", "env": [item] * 3}]}}
    taken = take_back(pod, added, Budget(pod))
    assert get(taken, ("spec", "containers", 0, "env")) == [{"name": "A", "value": "theirs"}]


def put_back_of(mine: Json, *fragments: Json) -> tuple[Json, Json]:
    """Returns a template with fragments added, and what happens to an update that takes them out."""
    merge, stored = Merge(()), mine
    for one in fragments:
        stored = merge.apply(stored, one)
    stored = write(stored, Record(additions=merge.additions))
    return stored, put_back(stored, mine, (), Budget(mine))


def test_what_amended_a_container_of_the_user_is_an_amendment_again() -> None:
    path = ("spec", "containers", "[main]", "tty")
    assert as_fragment(Removal(path, value=True, is_element=False)) == {
        "spec": {"containers": [{"name": "main", "tty": True}]}
    }


def test_what_amended_several_containers_comes_behind_what_was_added_whole() -> None:
    def amended(value: str) -> Json:
        return {"spec": {"containers": [{"name": name, "env": [{"name": value}]} for name in "abc"]}}

    whole = {"spec": {"containers": [{"name": "a", "image": "i"}]}}
    mine = {"spec": {"containers": [{"name": "b"}, {"name": "c", "image": "j"}]}}
    stored, again = put_back_of(mine, whole, amended("X"), amended("Y"))
    assert again == stored


def test_expressions_of_every_term_come_back_in_their_order() -> None:
    def expressions(*keys: str) -> Json:
        return [{"key": key, "operator": "Exists"} for key in keys]

    def terms(*terms: Json) -> Json:
        of = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": of}}
        return {"spec": {"affinity": affinity}}

    mine = terms(expressions("a"), expressions("b", "c"))
    stored, again = put_back_of(mine, terms(expressions("x", "y")), terms(expressions("z")))
    assert again == stored
    stored, again = put_back_of({"spec": {}}, terms(expressions("x", "y")))
    assert again == stored


REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")


def after(table: Table, job: Any, namespace: str = "default", uid: str = "now", username: str = "ada") -> Any:
    return evaluate(table, Request(job, namespace, uid, username)).after


ROWS = {
    "off": "{name: nodes-with-server-id, mode: off}\n  - {name: together-required, mode: off}",
    "documented init container": "{name: init-in-job-image, mode: off}",
    "one order": "{name: a, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: a}, {key: b}]}}}",
    "other order": "{name: b, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: b}, {key: a}]}}}",
    "amended": "{name: c, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, image: i, command: [x, z, $(job.workers), x]}]}}}\n"
    "  - {name: d, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, env: [{name: E, value: $(job.id)}], args: [b, a, b]}]}}}",
    "terms": "{name: e, reason: r, match: {role: worker}, add: {spec: {affinity: {nodeAffinity: {"
    "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions:"
    " [{key: e, operator: Exists}, {key: f, operator: In, values: [b, a]}],"
    " matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}]}}}}}}",
    "empty maps": "{name: f, reason: r, match: {role: worker},"
    " add: {spec: {securityContext: {}, hostIPC: true, dnsConfig: {searches: [b, a]}}}}",
}
TABLES = {
    name: load_text(f"{EXTENDS}values: {{waitSeconds: '{seconds}'}}\nrules:\n  - {row}\n", "t")
    for seconds, (name, row) in enumerate(ROWS.items())
}


def unordered(obj: Any) -> Any:
    """Returns a job without empty maps and with sorted tolerations, a set that keeps its first order."""
    obj = without_void(obj)
    for role in (LAUNCHER, WORKER):
        tolerations = get(obj, (*role, "spec", "tolerations"))
        if tolerations:
            obj = put(obj, (*role, "spec", "tolerations"), sorted(tolerations, key=canonical))
    return obj


# Half of the usual number of examples: each evaluates three times.
@settings(max_examples=settings().max_examples // 2)
@given(jobs(named=True), st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(TABLES)))
def test_the_result_does_not_depend_on_earlier_tables(job: Any, first: str, second: str) -> None:
    upgraded = evaluate(TABLES[second], Request(after(TABLES[first], job), "default", "now", "ada"))
    fresh = evaluate(TABLES[second], Request(job, "default", "now", "ada"))
    assert upgraded.denials == fresh.denials
    if fresh.verdict is not Verdict.DENIED:
        assert same(unordered(upgraded.after), unordered(fresh.after))

"""Additions can be distinguished from a user's values with any later table."""

from typing import Any

import pytest

from contract import keys
from testbed.mpijob import mpijob
from webhook.engine import Request, evaluate
from webhook.objects.record import Record, read, strip, write
from webhook.objects.takeback import Budget, take_back
from webhook.objects.tree import digest, get
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

"""Tests of the record, by which the webhook finds its additions to remove them or to put them back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.engine.strategies import jobs, without_empty_values
from tests.helpers import load_text
from tests.rules.tables import EXTENDS
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Response
from webhook.objects.merge import Merge
from webhook.objects.putback import as_fragment, put_back
from webhook.objects.record import Record, read, strip, write
from webhook.objects.takeback import Budget, Removal, take_back
from webhook.objects.tree import Json, canonical, digest, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()


def worker_template(job: Any) -> Any:
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def mutate_job(job: Any, table: Any = TABLE) -> Any:
    return evaluate(table, Request(job, "default", "uid")).after


def strip_template(template: Any) -> Any:
    """Returns a template without the additions that its record lists."""
    result, *_ = strip(template, read(template), Budget(template))
    return result


def test_removing_all_additions_gives_the_template_of_the_user() -> None:
    job = mpijob(4)
    assert strip_template(worker_template(mutate_job(job))) == worker_template(job)


def test_a_users_value_that_equals_an_addition_is_not_removed() -> None:
    job = mpijob(4, worker_spec={"nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}})
    after = mutate_job(job)
    assert (
        strip_template(worker_template(after))["spec"]["nodeSelector"]
        == worker_template(job)["spec"]["nodeSelector"]
    )


def test_an_addition_that_a_user_changed_is_not_removed() -> None:
    template = worker_template(mutate_job(mpijob(4)))
    template["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] = "trn3.48xlarge"
    assert strip_template(template)["spec"]["nodeSelector"] == {
        "node.kubernetes.io/instance-type": "trn3.48xlarge"
    }


def test_a_requirement_of_the_user_in_one_of_two_node_selector_terms_stays() -> None:
    exists = {"key": "neuron.amazonaws.com/ultraserver-server-id-4", "operator": "Exists"}
    zone = {"key": "zone", "operator": "Exists"}
    terms = [{"matchExpressions": [exists]}, {"matchExpressions": [zone]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    job = mpijob(4, worker_spec={"affinity": {"nodeAffinity": required}})
    after = worker_template(mutate_job(job))
    result = after["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert result["nodeSelectorTerms"][1]["matchExpressions"][:2] == [zone, exists]
    assert strip_template(after) == worker_template(job)


def test_opting_out_an_exported_job_removes_all_additions() -> None:
    job = mutate_job(mpijob(4))
    job["metadata"]["annotations"] = {keys.INJECT: "false"}
    assert mutate_job(job) == mpijob(4, annotations={keys.INJECT: "false"})


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
def test_an_unreadable_record_is_replaced_and_nothing_is_removed(text: str) -> None:
    job = mpijob(4)
    worker_template(job)["metadata"] = {"annotations": {keys.ADDED: text}}
    assert read(worker_template(job)) is None
    assert worker_template(mutate_job(job)) == worker_template(mutate_job(mpijob(4)))


def test_a_forged_record_with_wrong_digests_removes_nothing() -> None:
    template = {"spec": {"nodeSelector": {"a": "1"}, "containers": [{"name": "main"}]}}
    forged_template = write(
        template, Record("t", "", {"/spec/nodeSelector/a": "0000000000", "/nowhere": ["1"], "/spec": "x"})
    )
    assert strip_template(forged_template) == template


REQUIREMENT = {"key": "neuron.amazonaws.com/ultraserver-server-id-4", "operator": "Exists"}
A, B = ({"key": key, "operator": "In", "values": ["x"]} for key in "ab")
SIMILAR_TERMS: list[list[Any]] = [
    *(
        [{kind: [REQUIREMENT, A, B]}, {kind: [A, B]}, {kind: [A, B]}]
        for kind in ("matchExpressions", "matchFields")
    ),
    [
        *(
            {"matchFields": expressions}
            for expressions in ([A, B, REQUIREMENT], [A, REQUIREMENT], [A, B], [A])
        ),
        *({"matchExpressions": expressions} for expressions in ([A, B, REQUIREMENT], [B], [A, B])),
    ],
]


@pytest.mark.parametrize("terms", SIMILAR_TERMS)
def test_terms_that_differ_only_by_a_rules_requirement_keep_their_expressions(terms: list[Any]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    job = mutate_job(mpijob(4, worker_spec={"affinity": {"nodeAffinity": required}}))
    assert evaluate(TABLE, Request(job)).operations == ()
    affinity = worker_template(job)["spec"]["affinity"]["nodeAffinity"]
    remaining = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for before, after in zip(terms, remaining, strict=True):
        assert all(after[kind][: len(expressions)] == expressions for kind, expressions in before.items())


def test_the_old_value_of_a_pods_variable_is_restored_only_once() -> None:
    """A forged record must not put one long value into many variables."""
    item = {"name": "A", "value": "ours"}
    added = {"/spec/containers/[c]/env": [f"{digest(item)} theirs"] * 3}
    pod = {"spec": {"containers": [{"name": "c", "env": [item] * 3}]}}
    result = take_back(pod, added, Budget(pod))
    assert get(result, ("spec", "containers", 0, "env")) == [{"name": "A", "value": "theirs"}]


def add_and_put_back(template: Json, *fragments: Json) -> tuple[Json, Json]:
    """Returns a template with added fragments, and the result of an update that removes them."""
    merge, stored = Merge(()), template
    for fragment in fragments:
        stored = merge.apply(stored, fragment)
    stored = write(stored, Record(additions=merge.additions))
    return stored, put_back(stored, template, (), Budget(template))


def test_an_amendment_of_a_users_container_is_put_back_as_an_amendment() -> None:
    path = ("spec", "containers", "[main]", "tty")
    assert as_fragment(Removal(path, value=True, is_element=False)) == {
        "spec": {"containers": [{"name": "main", "tty": True}]}
    }


def test_amendments_of_containers_are_put_back_after_whole_containers() -> None:
    def amendment(value: str) -> Json:
        return {"spec": {"containers": [{"name": name, "env": [{"name": value}]} for name in "abc"]}}

    container = {"spec": {"containers": [{"name": "a", "image": "i"}]}}
    template = {"spec": {"containers": [{"name": "b"}, {"name": "c", "image": "j"}]}}
    stored, result = add_and_put_back(template, container, amendment("X"), amendment("Y"))
    assert result == stored


def test_the_expressions_of_every_term_are_put_back_in_their_order() -> None:
    def expressions(*keys: str) -> Json:
        return [{"key": key, "operator": "Exists"} for key in keys]

    def terms(*terms: Json) -> Json:
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        return {"spec": {"affinity": affinity}}

    template = terms(expressions("a"), expressions("b", "c"))
    stored, result = add_and_put_back(template, terms(expressions("x", "y")), terms(expressions("z")))
    assert result == stored
    stored, result = add_and_put_back({"spec": {}}, terms(expressions("x", "y")))
    assert result == stored


REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")


def mutate_with_table(
    table: Table, job: Any, namespace: str = "default", uid: str = "now", username: str = "ada"
) -> Any:
    return evaluate(table, Request(job, namespace, uid, username)).after


ROWS = {
    "disabled rules": "{name: nodes-with-server-id, mode: off}\n  - {name: together-required, mode: off}",
    "disabled init container": "{name: init-in-job-image, mode: off}",
    "tolerations in one order": "{name: a, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: a}, {key: b}]}}}",
    "tolerations in another order": "{name: b, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: b}, {key: a}]}}}",
    "amended container": "{name: c, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, image: i, command: [x, z, $(job.workers), x]}]}}}\n"
    "  - {name: d, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, env: [{name: E, value: $(job.id)}], args: [b, a, b]}]}}}",
    "node selector terms": "{name: e, reason: r, match: {role: worker}, add: {spec: {affinity:"
    " {nodeAffinity: {"
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


def normalize(obj: Any) -> Any:
    """Returns a job without empty values and with sorted tolerations, because their order has no effect."""
    obj = without_empty_values(obj)
    for role in (LAUNCHER, WORKER):
        tolerations = get(obj, (*role, "spec", "tolerations"))
        if tolerations:
            obj = put(obj, (*role, "spec", "tolerations"), sorted(tolerations, key=canonical))
    return obj


# Half of the usual number of examples, because each example has three evaluations.
@settings(max_examples=settings().max_examples // 2)
@given(jobs(has_name=True), st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(TABLES)))
def test_the_result_does_not_depend_on_earlier_tables(job: Any, first: str, second: str) -> None:
    upgraded_outcome = evaluate(
        TABLES[second], Request(mutate_with_table(TABLES[first], job), "default", "now", "ada")
    )
    fresh_outcome = evaluate(TABLES[second], Request(job, "default", "now", "ada"))
    assert upgraded_outcome.denials == fresh_outcome.denials
    if fresh_outcome.response is not Response.DENIED:
        assert same(normalize(upgraded_outcome.after), normalize(fresh_outcome.after))

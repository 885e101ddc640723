"""What was added can be told from what was there, whatever the table has become since."""

import json
from typing import Any

import pytest

from tests.helpers import mpijob
from webhook.engine import Request, evaluate, keys
from webhook.engine.patch import operations
from webhook.engine.record import Record, read, strip, write
from webhook.engine.tree import digest
from webhook.rules.load import load_default, load_text

TABLE = load_default()
EXTENDS = "apiVersion: ultraserver-webhook.io/v1alpha1\nkind: RuleTable\nextends: default\n"


def worker(job: Any) -> Any:
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def mutated(job: Any, table: Any = TABLE) -> Any:
    return evaluate(table, Request(job, "default", "uid")).after


def test_taking_back_gives_the_template_as_it_was() -> None:
    job = mpijob(4)
    assert strip(worker(mutated(job))) == worker(job)


def test_an_older_tables_terms_are_taken_back_as_well() -> None:
    other = load_text(
        EXTENDS + "values: {waitSeconds: '7'}\nrules: [{name: ultraserver-nodes, mode: off}]\n", "t"
    )
    assert mutated(mutated(mpijob(4)), other) == mutated(mpijob(4), other)


def test_an_equal_term_of_the_users_own_is_not_taken_back() -> None:
    job = mpijob(4, worker_spec={"nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}})
    after = mutated(job)
    assert strip(worker(after))["spec"]["nodeSelector"] == worker(job)["spec"]["nodeSelector"]


def test_a_term_that_a_person_changed_afterwards_is_the_persons() -> None:
    template = worker(mutated(mpijob(4)))
    template["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] = "trn3.48xlarge"
    assert strip(template)["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn3.48xlarge"}


def test_a_requirement_that_a_person_wrote_into_one_of_two_node_terms_stays() -> None:
    exists = {"key": "neuron.amazonaws.com/ultraserver-server-id-4", "operator": "Exists"}
    zone = {"key": "zone", "operator": "Exists"}
    terms = [{"matchExpressions": [exists]}, {"matchExpressions": [zone]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    job = mpijob(4, worker_spec={"affinity": {"nodeAffinity": required}})
    after = worker(mutated(job))
    found = after["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert found["nodeSelectorTerms"][1]["matchExpressions"] == [zone, exists]
    assert strip(after) == worker(job)


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
    assert strip(forged) == template


FORGERIES = {
    "one digest against thousands of expressions": ["0000000000"],
    "as many digests as there may be": [f"{number:010x}" for number in range(100)],
    "more digests than there may be": [f"{number:010x}" for number in range(5000)],
}


class Counting:
    """Counts how often a value is digested: what taking back and comparing spend their time with."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: Any) -> str:
        """The digest, counted."""
        self.calls += 1
        return digest(value)


@pytest.mark.parametrize("digests", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_record_cannot_buy_time_with_a_long_list(
    digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expressions = [{"key": f"k{number}", "operator": "Exists"} for number in range(4000)]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    template = {"spec": {"affinity": affinity, "tolerations": expressions}}
    place = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    forged = write(
        template, Record("t", "", {f"{place}/nodeSelectorTerms": digests, "/spec/tolerations": digests})
    )
    counting = Counting()
    monkeypatch.setattr("webhook.engine.record.digest", counting)
    assert strip(forged) == template
    assert counting.calls <= len(expressions) + 4 * 100


def test_lists_with_many_removals_are_compared_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [{"key": str(number)} for number in range(5000)]
    counting = Counting()
    monkeypatch.setattr("webhook.engine.patch.digest", counting)
    assert len(operations({"l": before}, {"l": before[::2]})) == 2500
    assert counting.calls <= 7500


def test_a_record_says_which_table_it_came_from() -> None:
    text = worker(mutated(mpijob(4)))["metadata"]["annotations"][keys.ADDED]
    assert json.loads(text)["table"] == TABLE.revision

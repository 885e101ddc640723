"""The conditions of match, and rules about objects that are not for UltraServers."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, Expected, after, extended, outcome, same_problems
from webhook.objects.tree import get
from webhook.rows.conditions import Condition, JobCondition, ObjectCondition, TemplateCondition
from webhook.rows.table import Match
from webhook.rules.load import load_default
from webhook.rules.schema import published_schema

PRIORITY = """rules:
  - name: priority
    reason: For all jobs.
    match: {{role: worker, candidate: {candidate}}}
    add: {{spec: {{priorityClassName: "low-$(job.nodes)"}}}}
"""
WORKER = ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "priorityClassName")

GPU = mpijob(resource="nvidia.com/gpu")
TRN1 = mpijob(worker_spec={"nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}})
OPTED_OUT = mpijob(annotations={"ultraserver-webhook.io/inject": "false"})


@pytest.mark.parametrize(
    ("obj", "fires_for"),
    [(GPU, "any false"), (TRN1, "any false"), (mpijob(), "any true"), (OPTED_OUT, "")],
    ids=["GPUs", "trn1", "UltraServers", "opted out"],
)
def test_a_rule_can_match_candidates_others_or_any(obj: Any, fires_for: str) -> None:
    for candidate in ("any", "true", "false"):
        priority = get(outcome(extended(PRIORITY.format(candidate=candidate)), obj).after, WORKER)
        assert priority == ("low-4" if candidate in fires_for.split() else None), candidate


def test_what_was_added_to_other_objects_is_taken_back_as_well() -> None:
    table = extended(PRIORITY.format(candidate="false"))
    stored = after(table, GPU)
    assert outcome(table, stored).operations == ()
    assert outcome(load_default(), stored).after == GPU


def test_every_rule_has_a_reason_why_it_skips_other_objects() -> None:
    result = outcome(extended(PRIORITY.format(candidate="false")), mpijob())
    assert {row.why for row in result.rules if row.name == "priority"} == {"it is a candidate"}
    why = {row.name: row.why for row in outcome(load_default(), GPU).rules}
    assert why["ultraserver-nodes"] == why["job-label"] == "it is not a candidate"


def test_any_other_pod_is_read_and_the_packaged_table_leaves_it_unchanged() -> None:
    template = mpijob()["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    labels = {"ultraserver-webhook.io/job": "default.train"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}, **template}
    result = outcome(load_default(), pod)
    assert (result.facts["workload"], result.after) == ("pod", pod)


ROW = "rules:\n  - name: x\n    reason: r\n    match: {role: worker, candidate: any}\n"
PROBLEMS: dict[str, tuple[str, Expected]] = {
    "a job label for what has none": (
        ROW + "    add: {metadata: {labels: {mine: $(job.id)}}}\n",
        [(8, "rules[0].add.metadata.labels.mine", "unknown placeholder $(job.id)")],
    ),
    "a shape": (
        ROW.replace("any}", "any, shape: {nodeConfig: 4}}") + "    warn: w\n",
        [(7, "rules[0].match.candidate", "only candidates have a shape")],
    ),
    "Pods that are none": (
        "rules:\n  - {name: x, reason: r, warn: w, match: {role: pod, candidate: false}}\n",
        [(5, "rules[0].match.candidate", "unreachable: daemon-pod, pod takes no nodes")],
    ),
    "another value": (
        ROW.replace("any", "some") + "    warn: w\n",
        [(7, "rules[0].match.candidate", "must be true or false (without quotes) or any, not")],
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_a_candidate_condition_cannot_mean_is_refused(case: str) -> None:
    text, expected = PROBLEMS[case]
    same_problems(EXTENDS + text, expected)


def conditions(of: type[Any] = Condition) -> set[type[Any]]:
    """Returns the classes that check something: a base has no type of what is written."""
    build_base = {each for one in of.__subclasses__() for each in {one, *conditions(one)}}
    return {each for each in build_base if each.written}


def test_every_condition_is_a_key_of_match_and_described_in_the_schema() -> None:
    """Protects from a class without a field, which no table can use, and from a key without words."""
    hints = get_type_hints(Match)
    keys = {of: each.name for each in fields(Match) for of in get_args(hints[each.name])}
    assert conditions() <= keys.keys()
    described = published_schema()["$defs"]["Match"]["properties"]
    assert all("description" in described[key] for key in described)


def test_every_condition_is_looked_at_in_one_scope() -> None:
    """Protects from a class that derives from the base alone, and so from a condition that no one checks."""
    scopes = [conditions(of) for of in (JobCondition, TemplateCondition, ObjectCondition)]
    assert set.union(*scopes) == conditions()
    assert sum(map(len, scopes)) == len(conditions())

"""Tests of the condition `candidate`, and that each condition class is a documented key of `match`."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, Expected, assert_problems, extend_table, mutate, outcome
from webhook.engine.messages import IS_CANDIDATE
from webhook.objects.tree import get
from webhook.rows.conditions import Condition, JobCondition, ObjectCondition, TemplateCondition
from webhook.rows.table import Match
from webhook.rules import messages
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
    ("obj", "firing_values"),
    [(GPU, "any false"), (TRN1, "any false"), (mpijob(), "any true"), (OPTED_OUT, "")],
    ids=["GPUs", "trn1", "UltraServers", "opted out"],
)
def test_a_rule_matches_candidates_other_objects_or_both(obj: Any, firing_values: str) -> None:
    for candidate in ("any", "true", "false"):
        priority = get(outcome(extend_table(PRIORITY.format(candidate=candidate)), obj).after, WORKER)
        assert priority == ("low-4" if candidate in firing_values.split() else None), candidate


def test_fields_added_to_an_object_that_is_not_a_candidate_are_removed_again() -> None:
    table = extend_table(PRIORITY.format(candidate="false"))
    stored = mutate(table, GPU)
    assert outcome(table, stored).operations == ()
    assert outcome(load_default(), stored).after == GPU


def test_a_rule_that_is_skipped_for_its_condition_on_candidates_has_a_reason() -> None:
    result = outcome(extend_table(PRIORITY.format(candidate="false")), mpijob())
    assert {row.why for row in result.rules if row.name == "priority"} == {IS_CANDIDATE[True]}
    reasons = {row.name: row.why for row in outcome(load_default(), GPU).rules}
    assert reasons["ultraserver-nodes"] == reasons["job-label"] == IS_CANDIDATE[False]


def test_a_pod_without_a_placement_annotation_is_unchanged_by_the_packaged_table() -> None:
    template = mpijob()["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    labels = {"ultraserver-webhook.io/job": "default.train"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}, **template}
    result = outcome(load_default(), pod)
    assert (result.facts["workload"], result.after) == ("pod", pod)


RULE = "rules:\n  - name: x\n    reason: r\n    match: {role: worker, candidate: any}\n"
INVALID_RULES: dict[str, tuple[str, Expected]] = {
    "the placeholder of the job label, which other objects do not have": (
        RULE + "    add: {metadata: {labels: {mine: $(job.id)}}}\n",
        [(8, "rules[0].add.metadata.labels.mine", "unknown placeholder $(job.id)")],
    ),
    "a condition on the shape, which other objects do not have": (
        RULE.replace("any}", "any, shape: {nodeConfig: 4}}") + "    warn: w\n",
        [(7, "rules[0].match.candidate", messages.NO_CANDIDATE)],
    ),
    "Pods that are not candidates": (
        "rules:\n  - {name: x, reason: r, warn: w, match: {role: pod, candidate: false}}\n",
        [(5, "rules[0].match.candidate", messages.takes_no_nodes("daemon-pod, pod"))],
    ),
    "an invalid value": (
        RULE.replace("any", "some") + "    warn: w\n",
        [(7, "rules[0].match.candidate", "must be true or false (without quotes) or any, not")],
    ),
}


@pytest.mark.parametrize("case", INVALID_RULES)
def test_an_invalid_condition_on_candidates_is_refused(case: str) -> None:
    text, expected = INVALID_RULES[case]
    assert_problems(EXTENDS + text, expected)


def condition_types(base: type[Any] = Condition) -> set[type[Any]]:
    """Returns the subclasses that check a condition. A class without `written` is only a base."""
    subclasses = {cls for child in base.__subclasses__() for cls in {child, *condition_types(child)}}
    return {cls for cls in subclasses if cls.written}


def test_every_condition_class_is_a_key_of_match_with_a_description() -> None:
    """Protects from a condition class without a key, which no table could use."""
    hints = get_type_hints(Match)
    keys = {cls: field.name for field in fields(Match) for cls in get_args(hints[field.name])}
    assert condition_types() <= keys.keys()
    properties = published_schema()["$defs"]["Match"]["properties"]
    assert all("description" in properties[key] for key in properties)


def test_every_condition_class_derives_from_exactly_one_of_three_bases() -> None:
    """Protects from a class that derives only from `Condition`, which the engine would never check."""
    types_by_base = [condition_types(base) for base in (JobCondition, TemplateCondition, ObjectCondition)]
    assert set.union(*types_by_base) == condition_types()
    assert sum(map(len, types_by_base)) == len(condition_types())

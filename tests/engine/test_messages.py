"""Tests of the codes and the exact texts of messages. Other tests fill in these texts."""

import ast
import pickle
from collections.abc import Iterator

import pytest

from testbed.mpijob import mpijob
from tests import texts
from tests.docs.blocks import REPOSITORY
from tests.docs.tables import meanings, row_messages
from tests.helpers import request_for
from webhook.engine import evaluate, messages
from webhook.engine.messages import TEXTS, Message, limit_messages, message
from webhook.objects.tree import put
from webhook.rules.load import load_default


def codes_in_source() -> Iterator[str]:
    """Yields the code of each call in the webhook that creates a message."""
    for path in sorted((REPOSITORY / "webhook").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name("message" | "messages_of"), [ast.Constant(code), *_]):
                    yield code


def test_the_reference_has_every_code_and_no_other() -> None:
    """Protects users who look up a code in the reference."""
    conflict_codes = {"value-kept", "value-replaced", "value-refused"}
    assert set(TEXTS) == {*codes_in_source()} | conflict_codes
    assert set(meanings()["engine"]) == set(TEXTS)
    assert set(meanings()["rows"]) == {name for name, *_ in row_messages(load_default())}


def test_the_code_of_a_message_is_a_known_code_or_the_name_of_the_rule() -> None:
    """Protects programs that compare codes, because a release may change texts."""
    table, config = load_default(), {"ultraserver-webhook.io/node-config": "3"}
    outcome = evaluate(table, request_for(put(mpijob(4), ("metadata", "annotations"), config)))
    assert [message.code for message in outcome.denials] == ["invalid-job"]
    outcome = evaluate(
        table, request_for(put(mpijob(4), ("spec", "runPolicy"), {"activeDeadlineSeconds": 5}))
    )
    assert [message.code for message in outcome.warnings] == ["deadline-while-waiting"]


def test_a_message_keeps_its_code_if_it_is_shortened_or_copied() -> None:
    """Protects answers about large reviews, whose messages come from another process."""
    (short_message,) = limit_messages([Message("own-key", "x" * 5000), Message("own-key", "x" * 5000)])
    copied_message = pickle.loads(pickle.dumps(short_message))  # noqa: S301 - pickled in this line
    assert (short_message.code, copied_message.code) == ("own-key", "own-key")


WITHOUT_CHANGES = "without the changes of ultraserver-webhook: apply it again when the webhook runs (why)"


@pytest.mark.parametrize(
    ("code", "values", "text"),
    [
        ("value-kept", ["a is 1, not 2"], "kept your value: a is 1, not 2"),
        ("value-replaced", ["a is 1, not 2"], "replaced your value: a is 1, not 2"),
        ("value-refused", ["a is 1, not 2"], "a is 1, not 2; remove your value, or opt out"),
        (
            "own-key",
            ["removed", "a", "1"],
            "removed your value: a is 1, and only the webhook may set it: remove it",
        ),
        (
            "record-ignored",
            ["a"],
            "annotation a is ignored, because it lists fields that the webhook never adds: remove it",
        ),
        (
            "size-kept",
            [],
            (
                "a job with generateName keeps the affinity terms of its first size; "
                "delete it, and create it with the new size"
            ),
        ),
        (
            "copies-kept",
            ["a"],
            (
                "containers added to a keep values copied when the job was created: "
                "to change them, recreate the job"
            ),
        ),
        (
            "launcher-kept",
            ["a"],
            "a was created for the old size: kubectl delete job a, and its operator recreates it",
        ),
        ("not-mutated", ["sent", "apply it", "why"], f"the object was sent {WITHOUT_CHANGES}"),
        ("other-table", ["a", "b"], "the object was mutated by rule table a, but this replica has b"),
        ("more", [3], "and 3 more"),
        ("invalid-job", ["{braces}"], "{braces}"),
    ],
)
def test_the_text_of_a_code(code: str, values: list[object], text: str) -> None:
    assert message(code, *values) == text
    assert message(code, *values).code == code


CONSTANTS = {
    "no_workload": "no workload of the rule table matches kind {}",
    "other_row": "row {} requires another {} than {}",
    "no_row": "no row for its kind matches: {}; ultraserver-webhook.io/inject has no effect on it",
    "TABLE_OFF": "the whole rule table is switched off",
    "table_reports": "the whole rule table only reports{}; {}",
    "by_policy": " for it, by the policy: {}",
    "OPTED_IN": "opted in by ultraserver-webhook.io/inject",
    "OPTED_OUT": "opted out by ultraserver-webhook.io/inject",
    "NOT_ENFORCED": "updates are admitted unchanged: the rule table is not enforced",
    "other_kind": "the stored object is a {}",
    "DELETED": "it is being deleted",
    "admitted_unchanged": "it is admitted unchanged: {}",
    "no_updates": "the rule table has no `updates` for a {}",
    "HAS_PODS": "its pods were already created from the stored templates",
    "NOTHING_ADDED": "nothing was added to the stored object, so there is nothing to put back",
    "PUT_BACK": "put back what the update removed",
    "NOTHING_REMOVED": "the update removes nothing that the webhook added",
    "resized": "its size changed while it was suspended; {}",
    "not_a_job": "a {0} is not a job: only rules for a {0} apply",
    "OPTS_IN": "; ultraserver-webhook.io/inject opts it in",
    "in_template": (
        "{} (ultraserver-webhook.io/inject has no effect in a template's metadata: write it in the job's)"
    ),
    "no_node": "no pod template at {} asks for a node's devices or selects a family's instance type",
    "NO_WORKERS": "the job has no workers",
    "no_workers": "the job has no workers: {} is missing or 0",
    "two_types": (
        "its own selection of nodes asks for two instance types at once, which no node has: {}; take one out"
    ),
    "leaves_out": "its own selection of nodes leaves out {}",
    "all_labels": "nodes that have all labels of family {} at once",
    "created_by": "a {} of {} created the job and chooses its nodes",
    "has_label": "its label {} is {}, which is for other nodes than UltraServers",
    "tolerates": "its workers tolerate {}, which is for other nodes than UltraServers",
    "asks_for": "its workers ask for {}",
    "wrong_amount": (
        "its workers ask for {0} than the {1} {2} that a node has: request {1}, or opt the job in "
        "with ultraserver-webhook.io/inject"
    ),
    "selects_type": "its workers select an instance type of family {}",
    "claims_node": "its workers claim a node by the ResourceClaimTemplate {}",
    "claims_less": "its workers claim less than a node by the ResourceClaimTemplate {}",
    "claims_unknown": (
        "its workers claim devices by the ResourceClaimTemplate {}, which the table does not know: if it is "
        "for the family's devices, add it to the claims of {}"
    ),
    "shares_claim": (
        "its workers share the claim {}: to give each Pod a node, use a resourceClaimTemplateName"
    ),
    "no_device": "the workers request no {}",
    "not_a_number": "{}: {} is {}; write a number, such as 16",
    "SWITCHED_OFF": "switched off",
    "fired_instead": "{} fired instead",
    "sets_placer": "{} sets the placer",
    "unmet_needs": "needs {}: no such rule fired and set all its values",
    "not_in_table": "the table has no {}",
    "no_template": "the job has no {} template",
    "no_worker_template": "the job has no worker template: there is none at {}",
    "several_templates": "the job has {} {} templates",
    "no_value": "the job has no value for $({})",
    "no_volume": "the {} has no volume {}",
    "other_mount": "the {} mounts another volume than {} at {}",
    "mount_elsewhere": "{}; mount your volume elsewhere",
    "waits_forever": "the job waits forever: {}",
    "maps_differ": "{} differs from the webhook's in {}",
    "values_differ": "{} is {}, not {}",
    "meant_annotation": "the annotation {}",
    "meant_job": "{} in the metadata of the job",
    "INVALID_JOB": "invalid job",
    "invalid_count": "the number of workers must be a whole number, 0 or more: {} is {}",
    "invalid_opt_in": 'use "true" to opt in, "false" to opt out, or remove it: {} is {}',
    "too_many_workers": "{} workers are more than the 100000 that a job may have",
    "invalid_config": "the node config must be one of {}: {} is {}",
    "two_configs": "{} is for node config {}, and {} for {}: use one node config in both",
    "do_not_fit": (
        "{} not fit node config {} of {}: it takes {} workers; change the number of workers, or use "
        "node config {}"
    ),
    "no_shape": "no shape of the rule table fits {}",
    "no_blocks": "{} form no equal blocks of {}",
    "use_sizes": "{}; use {}",
    "add_shape": "{}; family {} has {}: use one of these numbers, or add a shape",
    "no_value_left": "its node selector, required affinity and shape leave no value of label {}",
    "few_values_left": (
        "its node selector, required affinity and shape leave fewer than {} values of label {}"
    ),
    "not_alone": "because of {}, {} workers cannot have one {} to themselves",
    "one_node": "each of its workers needs a whole node, but because of {} they must share a node",
}
"""The texts without parameters, and the templates."""


def test_only_messages_with_codes_are_composed_by_functions() -> None:
    """Fails if a new function composes a text, because this file has no test for it."""
    assert texts.functions(messages) == {"message", "messages_of", "limit_messages"}


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS
    assert messages.IS_CANDIDATE == {True: "it is a candidate", False: "it is not a candidate"}

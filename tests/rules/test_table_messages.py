"""Tests of the texts of messages about rule tables. Other tests check the places of problems."""

from typing import Any

import pytest

from contract import keys
from tests import texts
from webhook.rows.policies import Mode
from webhook.rules import messages

TEXTS: dict[str, list[tuple[tuple[Any, ...], str]]] = {
    "join_names": [((["b", "a"],), "a, b")],
    "join_or": [((["a", "", "b", "c"],), "a, b or c"), ((["a"],), "a"), (([],), "")],
    "form": [
        (("^up to [1-9]$",), "'up to N'"),
        (("^x$",), "in the form that docs/reference.md describes"),
    ],
    "unknown_key": [
        (("ad", ["warn", "add"]), "unknown key 'ad'; did you mean 'add'?"),
        (("zzz", ["b", "a"]), "unknown key 'zzz'; the known ones are a, b"),
        (
            ("zzz", "nmlkjihgfedcba"),
            "unknown key 'zzz'; the known ones are a, b, c, d, e, f, g, h, i, j, k, l",
        ),
    ],
    "must_be_one": [
        (("audit", ["off"]), 'must be off, not "audit"'),
        (
            ("of", ["enforce", "shadow", "off"]),
            "must be enforce, shadow or off, not \"of\"; did you mean 'off'?",
        ),
    ],
    "must_have_type": [
        ((3, ["string"]), "must be text (in quotes), not 3"),
        (("x", ["int", "row"]), 'must be a whole number (without quotes) or a map (KEY: VALUE), not "x"'),
        (
            (3, ["bool", "list"]),
            "must be true or false (without quotes) or a list (lines that begin with -), not 3",
        ),
        (("x", ["number"]), 'must be a number (without quotes), not "x"'),
    ],
    "either": [
        ((["must be a, not 1", "must be b, not 1"],), "must be a or b, not 1"),
        (
            (["must be a, not B", "must be b, not B; did you mean 'b'?"],),
            "must be a or b, not B; did you mean 'b'?",
        ),
        ((["must be a, not 1", "must be b, not 2"],), "must be a, not 1 or must be b, not 2"),
        ((["must be a, not 1", "is empty"],), "must be a, not 1 or is empty"),
    ],
    "unknown_placeholder": [
        (("a.b", ["d.e", "c.d"]), "unknown placeholder $(a.b); the known ones are c.d, d.e"),
        (("a.b", ["a.c"], "; did you mean 'a.c'?"), "unknown placeholder $(a.b); did you mean 'a.c'?"),
    ],
}
"""For each function, its arguments and the text that it returns."""

CONSTANTS = {
    "missing": "{} is missing: add it",
    "known_ones": "; the known ones are {}",
    "EXTENDS_MISSING": (
        "add `extends: default`: without it, this file would remove the rows of the files before it, such "
        "as those of whole-job admission (the chart's value placement)"
    ),
    "not_one_document": "a rule table must be one YAML document, and this file has {}",
    "no_files": "there is no rule table: no file whose name ends in {}",
    "too_long": "the rule table has more than {} bytes, the maximum of a ConfigMap: make it shorter",
    "too_many_files": "the rule table has {} files, and {} is the maximum: merge some of them",
    "old_version": (
        "{0} is the form of release 0.2.0: `ultraserver-webhook rules convert FILE` prints the table in "
        "the form {1}"
    ),
    "no_sections": "the table has no {}: add `extends: default`, which takes them from the packaged table",
    "unknown_row": "no row has the name {!r}{}; a new row needs {}",
    "removed_key": "unknown key {!r}: {} replaces this key of 0.2.0",
    "must_be": "must be {}, not {}",
    "not_between": "must be between {} and {}, not {}",
    "is_not": "{} is not {}",
    "ALLOWED_PLACEHOLDER": "a placeholder that this field can have",
    "meant": "; did you mean {!r}?",
    "does_nothing": "does nothing: add {}",
    "same_name": "{!r} is the name of {} rows: rename one",
    "same_rule": "is the same as rule {!r}: remove one of the two",
    "same_role": "{!r} is the role of two groups: rename one",
    "same_template": "is already the template of group {!r}: use another path",
    "selects_all": "{} selects every element of a list, but `template` does not",
    "not_a_number": "must be a number, such as 0, not {!r}",
    "not_a_quantity": "must be a quantity above 0, such as 1Gi, not {!r}",
    "hidden_workload": (
        "unreachable: workload {} already reads every {}; add `when` to one of the two workloads"
    ),
    "no_field": "the workload has no field {!r}; its fields are {}",
    "no_shape": (
        "jobs with this many workers fit no shape: {}; to deny them with your own message, add a shape "
        "with `workers: multiple of 1` and `deny`"
    ),
    "NO_NUMBER": (
        "has no `number`, so whole-job admission places no job of this kind, and jobs of several blocks "
        "can straddle: add `number`"
    ),
    "NOT_ONE_SOURCE": "each summand needs exactly one of label, env and podName",
    "SEVERAL_GROUPS": "is empty, so the object is a Pod, which has one group: remove the other groups",
    "NO_PLACEHOLDER": "cannot contain a placeholder: write the text itself",
    "takes_nodes": "{!r} is the role of pods that take nodes: use true or devices, or another role",
    "FIRST_TYPE_IS_GLOB": "the first type must have no * or ?, because jobs that name no type get it",
    "NO_UNIT_LABEL": "is empty: write the node label of your units",
    "every_claim": "{!r} matches every claim of a job: name a ResourceClaimTemplate",
    "no_config": "no shape has node config {}; the known ones are {}",
    "no_maximum": (
        "jobs that request more than {0} are in this family and wait forever; if other nodes of the "
        "cluster have more, write {{atLeast: {0}, atMost: {0}}}"
    ),
    "shares_units": (
        "jobs of shape {} share units, unlike jobs of other shapes of {}: write `apart: required` to share "
        "no unit"
    ),
    "pins_workers": (
        "pins workers to nodes, and jobs of shape {}, which are pinned only to a unit, can take these nodes; "
        "use a range such as 1 to {}"
    ),
    "hidden_by": "unreachable: the earlier shape {} with the same node config fits all these numbers",
    "parts_of_blocks": "{} workers do not fill blocks of {} (nodeConfig){}",
    "range_as_config": "; for jobs on a part of a unit, write nodeConfig: {}",
    "use_config": "; use nodeConfig {}",
    "small_unit": "a unit of {} nodes cannot hold {} workers: write preferred",
    "no_rule_matches": "has no effect, because no rule matches {}: {}; add such a rule",
    "no_unit_of_one": "with nodeConfig 1 each worker works alone, in no unit: remove `{}`",
    "needs_unit": "{} needs a unit of {} nodes: add this unit to `units`",
    "too_many_usable": "must be {} (`nodes`) or less",
    "few_usable": (
        "no unit has {0} usable nodes: {1} has {2} of {3} (`usable`); use nodeConfig {2}, so that larger "
        "jobs use several units, or remove `usable`"
    ),
    "NOT_ALL_NUMBERED": (
        "whole-job admission cannot admit Pods without numbers, so they wait forever: add `numbered: true` "
        "to `match`"
    ),
    "NO_GLOBS": "takes no globs: write each resource",
    "NO_NAME_YET": (
        "a job with generateName has no name yet, so the rule does not apply to it: remove $(job.name)"
    ),
    "COUNTS_LAUNCHER": (
        "`workers` counts a launcher that runs ranks, and $(job.workers) does not: use $(job.nodes)"
    ),
    "MAY_FAIL": "controllers may fail a job if its Pods are deleted: add `unless: fails-with-deleted-pods`",
    "not_earlier": "must name rules that come before this rule, not {!r}",
    "NO_PLACER_YET": "has no value yet when a rule with `placer` is evaluated: remove it",
    "UNLESS_OF_PLACER": (
        "has no effect in a rule with `placer`: the first rule with `placer` that matches decides: remove "
        "`unless`"
    ),
    "NO_CANDIDATE": "only candidates have a shape: remove `candidate`",
    "unknown_workload": "unknown workload {!r}; the known ones are {}",
    "no_group": "unreachable: no workload of the rule has a group {!r}{}",
    "takes_no_nodes": "unreachable: {} takes no nodes, so each object is a candidate: write any",
    "add_to_values": "; add {} to values",
    "no_topology_key": "shape {} has no topologyKey: exclude it by `match.shape`",
    "unsupported_config": (
        "the init script of rule {} does not support node config {}: use {}, or another family"
    ),
    "is_list": "$({}) is a list: it must be the whole value, or all text after !, not a part of {!r}",
    "OTHER_JOB_LABEL": "the value of this label must be $(job.id)",
    "KEY_IS_PLACEHOLDER": "a key cannot be a placeholder: write the key itself",
    "RECORD": "the webhook writes its record into this annotation: remove it",
    "SEVERAL_TERMS": "terms are alternatives, so a rule can add only one: merge them",
    "NEEDS_EFFECT": (
        "tolerationSeconds needs the effect NoExecute: add this effect, or remove tolerationSeconds"
    ),
    "EXISTS_WITH_VALUE": "operator Exists takes no value: remove the value, or use Equal",
    "TOLERATES_ALL": "a toleration without a key tolerates every taint: its operator must be Exists",
    "VALUE_AND_SOURCE": "a variable has either value or valueFrom: remove one of them",
    "several_sources": "can have only one source, not {}: keep one",
    "needless_values": "operator {} takes no values: remove the values, or use In or NotIn",
    "negative_operator": (
        "{} here makes kube-scheduler 1.36 match the job's own namespace, too; use an empty "
        "namespaceSelector and distinguish jobs by a label"
    ),
    "no_rule": "no rule is called {!r}{}",
    "hidden_policy": (
        "unreachable: policies[{0}] for {1} applies to all objects of this policy; move it before "
        "policies[{0}]"
    ),
    "idle_rule": "rule {} does nothing: it needs {}",
    "has_ended": "ended at {} and has no effect: remove it",
    "BY_LABEL": "matches labels, and a Pod might not have its job's labels: set them in pod templates, too",
    "label_of_rule": "rule {} sets this label: match a label that authors of jobs set",
    "HIDDEN_GUARANTEE": "unreachable: earlier guarantees apply to all namespaces of this row; move it up",
    "no_unit": "no family that is on has units of {!r}{}",
    "other_unit": "must be the same in all guarantees of a family, but another row has {!r}",
    "joined_rule": "rule {} is now a part of rule {}",
    "removed_rule": "rule {} is removed: the packaged table does not have it",
    "replaced_rule": "rule {} is off, because rule {} replaces it",
    "removed_replaces": "replaces: {0} of rule {1} is removed: there is no rule {0}",
    "renamed_workload": "workload {0} is now a part of {1}: rename the row to {1}",
    "joined_differently": "rules {} and {} are now one rule, {}: change both in the same way",
    "joined_partly": "rules {} and {} are now one rule, {}, and rule {} replaces only {}: replace both",
    "gone_rule": "the packaged table no longer has rule {}: remove the row (docs/rule-table.md)",
    "fixed_value": "{} is now always {}, not {}: remove it",
    "other_version": "is not {}, so this is not a table of release 0.2.0",
    "NOT_ACCEPTED": "0.2.0 does not accept this value",
    "named": (
        "rule {} has the condition `named`, which this version does not have: remove it. A rule that uses "
        "$(job.name) does not apply to jobs with a generateName"
    ),
    "single_nodes": (
        "shape {} keeps single nodes together or apart by {}: use a nodeConfig of at least 2, or remove "
        "`together` and `apart`"
    ),
    "several_labels": (
        "shape {} has units of {} nodes by {}, and other shapes by {}: use one label in all these shapes, or "
        "write two families"
    ),
    "copied_rule": (
        "rule {} is a copy from 30-placement.yaml, whose rules are packaged now: remove the row, or keep "
        "only its name and the keys that you changed"
    ),
    "some_jobs": (
        "rule {0} is only for some Jobs, and the workload {1} now includes Indexed Jobs: match {1}, and "
        "add `numbered: true` if the rule is for Indexed Jobs"
    ),
    "no_variant": (
        "rule {} no longer has a variant of the AWS document for jobs that the rule does not match: use "
        "`extends: aws-document`, or remove the row"
    ),
    "partly_replaced": (
        "rule {0} replaces {1} only for some jobs: exclude these jobs in match of {1}, and remove `replaces`"
    ),
    "several_keys": "several keys have the name {}: use {}",
    "no_key": "no key has the name {!r}{}",
    "other_keys": "Other keys have the same name: {}",
}
"""The constants, and the templates that messages are formatted from."""

TABLES: dict[str, dict[str, str]] = {
    "VIOLATIONS": {
        "missing": "{key} is missing: add it",
        "string_pattern_mismatch": "must be {form}, not {json}",
        "string_too_short": "must not be empty: write a value, or remove the key",
        "string_too_long": "must have at most {max_length} characters, not {json}",
        "too_short": "must have {min_length} or more elements, not {json}",
        "too_long": "must have at most {max_length} elements, not {json}",
        "greater_than_equal": "must be {ge} or more, not {json}",
        "less_than_equal": "must be {le} or less, not {json}",
        "value_error": "{error}",
        "timezone_aware": "{json} has no time zone: write it as 2026-12-31T18:00:00Z or with +01:00",
        "datetime_from_date_parsing": "{json} is not a date with a time: write it as 2026-12-31T18:00:00Z",
        "datetime_parsing": "{json} is not a date with a time: write it as 2026-12-31T18:00:00Z",
    },
    "FORMS": {
        r"\S": "a reason in words",
        "multiple of": "'A to B' or 'multiple of N'",
        "up to": "'up to N'",
        " to ": "'A to B'",
        "=*+": "a name without spaces, '=', '*' and '+'",
        "~[01]": "a JSON pointer, such as /spec/replicas",
        ")?v[": "GROUP/VERSION/Kind, such as batch/v1/Job",
        "[-a-z0-9]*[a-z0-9]": "a name of lower case letters, digits and '-'",
        "A-Za-z0-9_-": "a name of letters, digits, '-' and '_'",
        "A-Za-z0-9": "a name of letters and digits that begins with a lower case letter",
        "^!?": "the name of a namespace, which may contain '*' and begin with '!'",
        "*?": "the name of a namespace, which may contain '*' and '?'",
        "": "in the form that docs/reference.md describes",
    },
    "REMOVED_KEYS": {
        "instanceTypeLabel": "instanceTypeLabels",
        "olderTypeLabels": "instanceTypeLabels",
        "index": "number",
        "numbers": "number: {count: ...}",
        "parent": "function: dirname",
        "smaller": "function: min",
        "counted": "function: count",
        "volume": "template: {/spec/volumes[name=NAME]/name: Exists}",
        "continues": "number: {continues: true}",
        "named": "a message that contains $(job.name)",
        "replaces": "`unless` of the other rule",
    },
    "OWN_LABELS": {
        keys.JOB: (
            "selects by ultraserver-webhook.io/job: add job-label to `needs`, "
            "or the job's Pods repel each other"
        ),
        keys.BLOCK: (
            "selects by ultraserver-webhook.io/block: add this label to the Pod, "
            "or the Pod is not in its own block"
        ),
    },
}
"""The dictionaries of texts."""


def test_this_module_has_all_functions_and_dictionaries() -> None:
    """Fails if this module has no texts for a function or dictionary of the product."""
    assert texts.functions(messages) == set(TEXTS)
    tables = {name for name, value in vars(messages).items() if name.isupper() and isinstance(value, dict)}
    assert tables == {*TABLES, "TYPES", "JSON_TYPES", "NEEDED"}


@pytest.mark.parametrize(
    ("name", "values", "text"), [(name, *case) for name, cases in TEXTS.items() for case in cases]
)
def test_a_function_returns_its_text(name: str, values: tuple[Any, ...], text: str) -> None:
    assert getattr(messages, name)(*values) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_dictionary_has_these_texts(name: str) -> None:
    assert getattr(messages, name) == TABLES[name]


def test_a_needed_rule_is_named_with_its_mode() -> None:
    needed = {mode: template("a") for mode, template in messages.NEEDED.items()}
    assert needed == {Mode.SHADOW: "a, which is in shadow", Mode.OFF: "a, which is off"}


def test_each_stage_of_rules_has_a_heading() -> None:
    assert messages.STAGES == (
        "1. How workers get their devices: the first rule that matches decides.",
        "2. Which placer places the job: the first rule that matches decides; the default is the scheduler.",
        "3. The rules that decide neither devices nor the placer, in this order.",
    )


def test_the_constants_and_templates_have_these_texts() -> None:
    assert texts.constants(messages) == CONSTANTS

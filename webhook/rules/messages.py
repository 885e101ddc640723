"""Messages about rule tables: violations of the schema, problems and notes of lint, conversions, headings.

They have no codes, because the path of a problem already names the row and the key.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from common.texts import did_you_mean
from contract import keys
from webhook.objects.tree import Json, shown
from webhook.rows.messages import takes_no_values
from webhook.rows.policies import Mode

missing: Final = "{} is missing: add it".format
known_ones: Final = "; the known ones are {}".format


def join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def join_or(words: Iterable[str]) -> str:
    *others, last = [*filter(None, words)] or [""]
    return f"{', '.join(others)} or {last}" if others else last


EXTENDS_MISSING: Final = (
    "add `extends: default`: without it, this file would remove the rows of the files before it, such as "
    "those of whole-job admission (the chart's value placement)"
)
not_one_document: Final = "a rule table must be one YAML document, and this file has {}".format
no_files: Final = "there is no rule table: no file whose name ends in {}".format
too_long: Final = "the rule table has more than {} bytes, the maximum of a ConfigMap: make it shorter".format
too_many_files: Final = "the rule table has {} files, and {} is the maximum: merge some of them".format
_CONVERT: Final = "`ultraserver-webhook rules convert FILE` prints the table in the form {1}"
old_version: Final = f"{{0}} is the form of release 0.2.0: {_CONVERT}".format
_EXTENDS: Final = "add `extends: default`, which takes them from the packaged table"
no_sections: Final = f"the table has no {{}}: {_EXTENDS}".format
unknown_row: Final = "no row has the name {!r}{}; a new row needs {}".format
removed_key: Final = "unknown key {!r}: {} replaces this key of 0.2.0".format
must_be: Final = "must be {}, not {}".format
not_between: Final = "must be between {} and {}, not {}".format
is_not: Final = "{} is not {}".format
ALLOWED_PLACEHOLDER: Final = "a placeholder that this field can have"
meant: Final = "; did you mean {!r}?".format
VIOLATIONS: Final[Mapping[str, str]] = {
    "missing": missing("{key}"),
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
}
"""A text for each of pydantic's types of error. Pydantic's own messages do not contain the value."""

FORMS: Final[Mapping[str, str]] = {
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
}
"""Descriptions of the schema's patterns. A pattern has the description of the first key that it contains."""

JSON_TYPES: Final = {"int": "integer", "bool": "boolean", "list": "array", "tuple": "array"}
"""JSON Schema types of pydantic types with other names. A type that is not in `TYPES` either is an object."""

TYPES: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "object": (dict, "a map (KEY: VALUE)"),
    "array": (list, "a list (lines that begin with -)"),
    "string": (str, "text (in quotes)"),
    "boolean": (bool, "true or false (without quotes)"),
    "integer": (int, "a whole number (without quotes)"),
    "number": ((int, float), "a number (without quotes)"),
}
"""The Python type of each JSON Schema type, and the name of the type in messages."""

REMOVED_KEYS: Final = {
    **dict.fromkeys(("instanceTypeLabel", "olderTypeLabels"), "instanceTypeLabels"),
    "index": "number",
    "numbers": "number: {count: ...}",
    "parent": "function: dirname",
    "smaller": "function: min",
    "counted": "function: count",
    "volume": "template: {/spec/volumes[name=NAME]/name: Exists}",
    "continues": "number: {continues: true}",
    "named": "a message that contains $(job.name)",
    "replaces": "`unless` of the other rule",
}
"""The keys of release 0.2.0 that are removed, each with its replacement."""


def form(pattern: str) -> str:
    return next(words for part, words in FORMS.items() if part in pattern)


def unknown_key(key: str, known: Iterable[str]) -> str:
    hint = did_you_mean(key, known := sorted(known)) or known_ones(", ".join(known[:12]))
    return f"unknown key {key!r}{hint}"


def must_be_one(value: Json, choices: Sequence[str]) -> str:
    return must_be(join_or(choices), shown(value)) + did_you_mean(str(value), choices)


def must_have_type(value: Json, types: Iterable[str]) -> str:
    words = " or ".join(TYPES.get(JSON_TYPES.get(name, name), TYPES["object"])[1] for name in types)
    return must_be(words, shown(value))


def either(messages: Iterable[str]) -> str:
    """Returns one message for a value that matches none of several alternatives."""
    starts, ends = zip(*(text.rpartition(", not ")[::2] for text in dict.fromkeys(messages)), strict=True)
    if len({end.partition("; did you mean ")[0] for end in ends}) > 1 or "" in starts:
        return " or ".join(dict.fromkeys(messages))
    return f"{' or '.join(starts).replace(' or must be ', ' or ')}, not {max(ends, key=len)}"


# ---- Problems and notes of lint ----------------------------------------------------------------------------


def unknown_placeholder(name: str, known: Iterable[str], hint: str = "") -> str:
    return f"unknown placeholder $({name}){hint or known_ones(join_names(known))}"


does_nothing: Final = "does nothing: add {}".format
same_name: Final = "{!r} is the name of {} rows: rename one".format
same_rule: Final = "is the same as rule {!r}: remove one of the two".format
same_role: Final = "{!r} is the role of two groups: rename one".format
same_template: Final = "is already the template of group {!r}: use another path".format
selects_all: Final = "{} selects every element of a list, but `template` does not".format
not_a_number: Final = "must be a number, such as 0, not {!r}".format
not_a_quantity: Final = "must be a quantity above 0, such as 1Gi, not {!r}".format
_READS_ALL: Final = "unreachable: workload {} already reads every {}"
hidden_workload: Final = f"{_READS_ALL}; add `when` to one of the two workloads".format
no_field: Final = "the workload has no field {!r}; its fields are {}".format
_DENY: Final = "to deny them with your own message, add a shape with `workers: multiple of 1` and `deny`"
no_shape: Final = f"jobs with this many workers fit no shape: {{}}; {_DENY}".format
_STRADDLES: Final = "whole-job admission places no job of this kind, and jobs of several blocks can straddle"
NO_NUMBER: Final = f"has no `number`, so {_STRADDLES}: add `number`"
NOT_ONE_SOURCE: Final = "each summand needs exactly one of label, env and podName"
SEVERAL_GROUPS: Final = "is empty, so the object is a Pod, which has one group: remove the other groups"
NO_PLACEHOLDER: Final = "cannot contain a placeholder: write the text itself"
takes_nodes: Final = "{!r} is the role of pods that take nodes: use true or devices, or another role".format
FIRST_TYPE_IS_GLOB: Final = "the first type must have no * or ?, because jobs that name no type get it"
NO_UNIT_LABEL: Final = "is empty: write the node label of your units"
every_claim: Final = "{!r} matches every claim of a job: name a ResourceClaimTemplate".format
no_config: Final = f"no shape has node config {{}}{known_ones('{}')}".format
_MAXIMUM: Final = "wait forever; if other nodes of the cluster have more, write {{atLeast: {0}, atMost: {0}}}"
no_maximum: Final = f"jobs that request more than {{0}} are in this family and {_MAXIMUM}".format
_SHARES: Final = "jobs of shape {} share units, unlike jobs of other shapes of {}"
shares_units: Final = f"{_SHARES}: write `apart: required` to share no unit".format
_PINS: Final = (
    "pins workers to nodes, and jobs of shape {}, which are pinned only to a unit, can take these nodes"
)
pins_workers: Final = f"{_PINS}; use a range such as 1 to {{}}".format
hidden_by: Final = "unreachable: the earlier shape {} with the same node config fits all these numbers".format
parts_of_blocks: Final = "{} workers do not fill blocks of {} (nodeConfig){}".format
range_as_config: Final = "; for jobs on a part of a unit, write nodeConfig: {}".format
use_config: Final = "; use nodeConfig {}".format
small_unit: Final = "a unit of {} nodes cannot hold {} workers: write preferred".format
no_rule_matches: Final = "has no effect, because no rule matches {}: {}; add such a rule".format
no_unit_of_one: Final = "with nodeConfig 1 each worker works alone, in no unit: remove `{}`".format
needs_unit: Final = "{} needs a unit of {} nodes: add this unit to `units`".format
too_many_usable: Final = "must be {} (`nodes`) or less".format
_USABLE: Final = "use nodeConfig {2}, so that larger jobs use several units, or remove `usable`"
few_usable: Final = f"no unit has {{0}} usable nodes: {{1}} has {{2}} of {{3}} (`usable`); {_USABLE}".format
_NO_NUMBERS: Final = "whole-job admission cannot admit Pods without numbers, so they wait forever"
NOT_ALL_NUMBERED: Final = f"{_NO_NUMBERS}: add `numbered: true` to `match`"
_COUNTS: Final = "`workers` counts a launcher that runs ranks, and $(job.workers) does not"
COUNTS_LAUNCHER: Final = f"{_COUNTS}: use $(job.nodes)"
NO_GLOBS: Final = "takes no globs: write each resource"
_NO_NAME: Final = "a job with generateName has no name yet, so the rule does not apply to it"
NO_NAME_YET: Final = f"{_NO_NAME}: remove $(job.name)"
MAY_FAIL: Final = "controllers may fail a job if its Pods are deleted: add `unless: fails-with-deleted-pods`"
not_earlier: Final = "must name rules that come before this rule, not {!r}".format
NO_PLACER_YET: Final = "has no value yet when a rule with `placer` is evaluated: remove it"
_FIRST: Final = "the first rule with `placer` that matches decides: remove `unless`"
UNLESS_OF_PLACER: Final = f"has no effect in a rule with `placer`: {_FIRST}"
NO_CANDIDATE: Final = "only candidates have a shape: remove `candidate`"
unknown_workload: Final = f"unknown workload {{!r}}{known_ones('{}')}".format
no_group: Final = "unreachable: no workload of the rule has a group {!r}{}".format
takes_no_nodes: Final = "unreachable: {} takes no nodes, so each object is a candidate: write any".format
add_to_values: Final = "; add {} to values".format
no_topology_key: Final = "shape {} has no topologyKey: exclude it by `match.shape`".format
_SCRIPT: Final = "the init script of rule {} does not support node config {}"
unsupported_config: Final = f"{_SCRIPT}: use {{}}, or another family".format
is_list: Final = "$({}) is a list: it must be the whole value, or all text after !, not a part of {!r}".format
OTHER_JOB_LABEL: Final = "the value of this label must be $(job.id)"
KEY_IS_PLACEHOLDER: Final = "a key cannot be a placeholder: write the key itself"
RECORD: Final = "the webhook writes its record into this annotation: remove it"
SEVERAL_TERMS: Final = "terms are alternatives, so a rule can add only one: merge them"
_EFFECT: Final = "add this effect, or remove tolerationSeconds"
NEEDS_EFFECT: Final = f"tolerationSeconds needs the effect NoExecute: {_EFFECT}"
EXISTS_WITH_VALUE: Final = "operator Exists takes no value: remove the value, or use Equal"
TOLERATES_ALL: Final = "a toleration without a key tolerates every taint: its operator must be Exists"
VALUE_AND_SOURCE: Final = "a variable has either value or valueFrom: remove one of them"
several_sources: Final = "can have only one source, not {}: keep one".format
needless_values: Final = f"{takes_no_values('{}')}: remove the values, or use In or NotIn".format
_SELECTOR: Final = "use an empty namespaceSelector and distinguish jobs by a label"
_NEGATIVE: Final = "{} here makes kube-scheduler 1.36 match the job's own namespace, too"
negative_operator: Final = f"{_NEGATIVE}; {_SELECTOR}".format
OWN_LABELS: Final = {
    keys.JOB: f"selects by {keys.JOB}: add job-label to `needs`, or the job's Pods repel each other",
    keys.BLOCK: f"selects by {keys.BLOCK}: add this label to the Pod, or the Pod is not in its own block",
}
"""The problem of a rule that selects Pods by a label of the webhook and does not set the label."""
no_rule: Final = "no rule is called {!r}{}".format
_SCOPE: Final = "policies[{0}] for {1} applies to all objects of this policy"
hidden_policy: Final = f"unreachable: {_SCOPE}; move it before policies[{{0}}]".format
idle_rule: Final = "rule {} does nothing: it needs {}".format
NEEDED: Final = {Mode.SHADOW: "{}, which is in shadow".format, Mode.OFF: "{}, which is off".format}
has_ended: Final = "ended at {} and has no effect: remove it".format
BY_LABEL: Final = "matches labels, and a Pod might not have its job's labels: set them in pod templates, too"
label_of_rule: Final = "rule {} sets this label: match a label that authors of jobs set".format
HIDDEN_GUARANTEE: Final = "unreachable: earlier guarantees apply to all namespaces of this row; move it up"
no_unit: Final = "no family that is on has units of {!r}{}".format
other_unit: Final = "must be the same in all guarantees of a family, but another row has {!r}".format

# ---- Conversions -------------------------------------------------------------------------------------------

joined_rule: Final = "rule {} is now a part of rule {}".format
removed_rule: Final = "rule {} is removed: the packaged table does not have it".format
replaced_rule: Final = "rule {} is off, because rule {} replaces it".format
removed_replaces: Final = "replaces: {0} of rule {1} is removed: there is no rule {0}".format
renamed_workload: Final = "workload {0} is now a part of {1}: rename the row to {1}".format
_JOINED: Final = "rules {} and {} are now one rule, {}"
joined_differently: Final = f"{_JOINED}: change both in the same way".format
joined_partly: Final = f"{_JOINED}, and rule {{}} replaces only {{}}: replace both".format
gone_rule: Final = "the packaged table no longer has rule {}: remove the row (docs/rule-table.md)".format
fixed_value: Final = "{} is now always {}, not {}: remove it".format
other_version: Final = "is not {}, so this is not a table of release 0.2.0".format
NOT_ACCEPTED: Final = "0.2.0 does not accept this value"
_NAMED: Final = "remove it. A rule that uses $(job.name) does not apply to jobs with a generateName"
named: Final = f"rule {{}} has the condition `named`, which this version does not have: {_NAMED}".format
_KEEPS: Final = "shape {} keeps single nodes together or apart by {}"
single_nodes: Final = f"{_KEEPS}: use a nodeConfig of at least 2, or remove `together` and `apart`".format
_LABELS: Final = "shape {} has units of {} nodes by {}, and other shapes by {}"
several_labels: Final = f"{_LABELS}: use one label in all these shapes, or write two families".format
_COPY: Final = "rule {} is a copy from 30-placement.yaml, whose rules are packaged now"
copied_rule: Final = f"{_COPY}: remove the row, or keep only its name and the keys that you changed".format
_JOBS: Final = "rule {0} is only for some Jobs, and the workload {1} now includes Indexed Jobs: match {1}"
some_jobs: Final = f"{_JOBS}, and add `numbered: true` if the rule is for Indexed Jobs".format
_VARIANT: Final = "rule {} no longer has a variant of the AWS document for jobs that the rule does not match"
no_variant: Final = f"{_VARIANT}: use `extends: aws-document`, or remove the row".format
_REPLACES: Final = "rule {0} replaces {1} only for some jobs"
partly_replaced: Final = f"{_REPLACES}: exclude these jobs in match of {{1}}, and remove `replaces`".format

# ---- Explanations and listings -----------------------------------------------------------------------------

several_keys: Final = "several keys have the name {}: use {}".format
no_key: Final = "no key has the name {!r}{}".format
other_keys: Final = "Other keys have the same name: {}".format
STAGES: Final = (
    "1. How workers get their devices: the first rule that matches decides.",
    "2. Which placer places the job: the first rule that matches decides; the default is the scheduler.",
    "3. The rules that decide neither devices nor the placer, in this order.",
)

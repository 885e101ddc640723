"""Tests that the schema refuses invalid tables, with file, line, path and a message for each violation."""

import pytest

from tests.helpers import load_text
from tests.rules.tables import EXTENDS, HEAD, RULE, SOURCE, Expected, assert_problems, problems
from webhook.objects.tree import walk
from webhook.rows import messages as row_messages
from webhook.rules import messages
from webhook.rules.messages import FORMS
from webhook.rules.problems import TableError
from webhook.rules.schema import pod_template, published_schema

INVALID_ROWS: dict[str, tuple[str, Expected]] = {
    "an unknown key of a rule": (
        RULE + "    warn: w\n    ad: {}\n",
        [(9, "rules[0].ad", messages.unknown_key("ad", ["add"]))],
    ),
    "a removed key of 0.2.0": (
        RULE.replace("worker", "worker, volume: v") + "    warn: w\n",
        [
            (
                7,
                "rules[0].match.volume",
                messages.removed_key("volume", "template: {/spec/volumes[name=NAME]/name: Exists}"),
            )
        ],
    ),
    "a removed key of a section of 0.2.0": (
        "candidates: {olderTypeLabels: [a]}\n",
        [(4, "candidates.olderTypeLabels", messages.removed_key("olderTypeLabels", "instanceTypeLabels"))],
    ),
    "an unknown key of a field": (
        "workloads: [{name: job, fields: {a: {path: /a, dflt: b}}}]\n",
        [(4, "workloads[0].fields.a.dflt", messages.unknown_key("dflt", ["default"]))],
    ),
    "an unknown key that no known key resembles": (
        RULE + "    warn: w\n    zzz: {}\n",
        [
            (
                9,
                "rules[0].zzz",
                "unknown key 'zzz'; the known ones are add, before, deny, devices, match, mode,",
            )
        ],
    ),
    "an unknown key in a fragment": (
        RULE + "    add:\n      spec:\n        nodeSelektor: {a: b}\n",
        [(10, "rules[0].add.spec.nodeSelektor", messages.unknown_key("nodeSelektor", ["nodeSelector"]))],
    ),
    "a number instead of text": (
        "values:\n  waitSeconds: 1800\n",
        [(5, "values.waitSeconds", messages.must_have_type(1800, ["string"]))],
    ),
    "a map instead of a list": (
        "rules: {}\n",
        [(4, "rules", messages.must_have_type({}, ["array"]))],
    ),
    "a list instead of a map": ("values: []\n", [(4, "values", messages.must_have_type([], ["object"]))]),
    "a row that is not a map": (
        "rules:\n  - x\n",
        [(5, "rules[0]", messages.must_have_type("x", ["object"]))],
    ),
    "a row without a name": ("rules:\n  - reason: x\n", [(5, "rules[0]", messages.missing("name"))]),
    "a new row without a required key": (
        "rules:\n  - name: x\n    warn: w\n    reason: r\n",
        [(5, "rules[0]", messages.missing("match"))],
    ),
    "a change of an unknown row": (
        (
            "rules:\n  - {name: blocks-hole, mode: off}\n"
            "families:\n  - {name: trn2u, shapes: [{name: multinode, warn: w}]}\n"
        ),
        [
            (
                5,
                "rules[0]",
                messages.unknown_row("blocks-hole", "; did you mean 'blocks-whole'?", "match and reason"),
            ),
            (
                7,
                "families[0].shapes[0]",
                messages.unknown_row("multinode", "; did you mean 'multi-node'?", "nodeConfig and workers"),
            ),
        ],
    ),
    "a role that is not a name": (
        RULE.replace("worker", "the-boss") + "    warn: w\n",
        [
            (
                7,
                "rules[0].match.role",
                "must be a name of letters and digits that begins with a lower case letter or any, not",
            )
        ],
    ),
    "a node config of 0": (
        "families:\n  - name: trn2u\n    shapes: [{name: s, workers: 5, nodeConfig: 0}]\n",
        [(6, "families[0].shapes[0].nodeConfig", "must be 1 or more")],
    ),
    "a negative number of devices": (
        "families:\n  - {name: trn2u, wholeNode: {aws.amazon.com/neuron: -1}}\n",
        [(5, "families[0].wholeNode[aws.amazon.com/neuron]", "must be 0 or more")],
    ),
    "0 workers": (
        "families:\n  - name: trn2u\n    shapes: [{name: s, workers: 0, nodeConfig: 1}]\n",
        [(6, "families[0].shapes[0].workers", "must be 1 or more")],
    ),
    "an invalid number of workers": (
        "families:\n  - name: trn2u\n    shapes: [{name: s, workers: multiple of many, nodeConfig: 1}]\n",
        [(6, "families[0].shapes[0].workers", "must be a whole number (without quotes) or 'A to B' or")],
    ),
    "a list of numbers of workers in a shape": (
        "families:\n  - name: trn2u\n    shapes: [{name: s, workers: [3, 5], nodeConfig: 1}]\n",
        [
            (
                6,
                "families[0].shapes[0].workers",
                "must be a whole number (without quotes) or 'A to B' or 'multiple of N', not [3, 5]",
            )
        ],
    ),
    "an invalid kind": (
        "workloads: [{name: job, kinds: [trainruns.v1.ml.example.com]}]\n",
        [(4, "workloads[0].kinds[0]", "must be GROUP/VERSION/Kind, such as batch/v1/Job, not")],
    ),
    "a misspelt family": (
        "families:\n  - name: trn2\n    shapes: [{name: s, workers: 5, nodeConfig: 1}]\n",
        [
            (
                5,
                "families[0]",
                messages.unknown_row(
                    "trn2", "; did you mean 'trn2u'?", "instanceTypes and shapes and wholeNode"
                ),
            )
        ],
    ),
    "a role with a capital letter": (
        RULE.replace("worker", "Worker") + "    warn: w\n",
        [
            (
                7,
                "rules[0].match.role",
                (
                    "must be a name of letters and digits that begins with a lower case letter or any, not "
                    "\"Worker\"; did you mean 'worker'?"
                ),
            )
        ],
    ),
    "a range that ends before it begins": (
        "families:\n  - name: trn2u\n    shapes: [{name: s, workers: 16 to 8, nodeConfig: 1}]\n",
        [(6, "families[0].shapes[0].workers", row_messages.not_ascending("16 to 8"))],
    ),
    "an invalid mode": (
        "rules:\n  - name: ultraserver-nodes\n    mode: audit\n",
        [(6, "rules[0].mode", messages.must_be_one("audit", ["enforce", "shadow", "off"]))],
    ),
}


@pytest.mark.parametrize(("text", "expected"), INVALID_ROWS.values(), ids=INVALID_ROWS)
def test_the_schema_refuses_an_invalid_row(text: str, expected: Expected) -> None:
    assert_problems(EXTENDS + text, expected)


def test_every_violation_of_the_schema_is_reported_at_once() -> None:
    text = "valeus: {}\nrules:\n  - {name: X, mod: off}\n  - {name: z, reason: 7, match: {}}\n"
    assert [(line, path) for _, line, path, _ in problems(EXTENDS + text)] == [
        (4, "valeus"),
        (6, "rules[0].mod"),
        (6, "rules[0].name"),
        (7, "rules[1].match"),
        (7, "rules[1].reason"),
    ]


INVALID_TEXTS: dict[str, tuple[str, Expected]] = {
    "an empty file": ("", [(1, "", messages.not_one_document(0))]),
    "two documents": (
        HEAD + "---\n" + HEAD,
        [(1, "", messages.not_one_document(2))],
    ),
    "a list": ("- a\n", [(1, "", messages.must_have_type(["a"], ["object"]))]),
    "invalid YAML": (EXTENDS + "rules: [\n", [(5, "", "did not find expected node content")]),
    "an unknown version": (HEAD.replace("v1alpha2", "v2"), [(1, "apiVersion", "must be ")]),
    "the version of 0.2.0": (
        HEAD.replace("v1alpha2", "v1alpha1"),
        [
            (
                1,
                "apiVersion",
                messages.old_version("ultraserver-webhook.io/v1alpha1", "ultraserver-webhook.io/v1alpha2"),
            )
        ],
    ),
    "an unknown kind": (EXTENDS.replace("RuleTable", "Table"), [(2, "kind", "must be RuleTable, not")]),
    "an unknown table in extends": (
        EXTENDS.replace("default", "mine"),
        [(3, "extends", "must be default or aws-document, not")],
    ),
}


@pytest.mark.parametrize("name", INVALID_TEXTS)
def test_a_text_that_is_not_a_table_is_refused(name: str) -> None:
    text, expected = INVALID_TEXTS[name]
    assert expected[0] in [
        (line, path, message[: len(expected[0][2])]) for _, line, path, message in problems(text)
    ]


def test_a_table_without_extends_must_have_every_required_section() -> None:
    message = messages.no_sections("candidates, workloads, families, rules")
    assert [row[3] for row in problems(HEAD)] == [message]


def test_a_text_that_is_not_utf_8_is_refused_with_the_line() -> None:
    with pytest.raises(TableError, match=r"^mine\.yaml:4: the byte 0xff is not UTF-8"):
        load_text(EXTENDS.encode() + b"values: {a: \xff}\n", SOURCE)


def test_every_pattern_of_the_schema_has_a_description_for_messages() -> None:
    """Protects users from messages that contain a regular expression."""
    rows = {
        name: form
        for name, form in published_schema()["$defs"].items()
        if name not in pod_template()["$defs"]
    }
    patterns = {value for path, value in walk(rows) if path[-1:] == ("pattern",) and isinstance(value, str)}
    assert len(patterns) > 5
    assert [pattern for pattern in patterns if not next(part for part in FORMS if part in pattern)] == []

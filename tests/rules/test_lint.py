"""Tests that loading refuses tables whose rows contradict each other, or would fail in Kubernetes."""

import pytest

from common.tablefiles import packaged_texts
from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import load_text
from tests.rules.tables import (
    EXTENDS,
    RULE,
    SOURCE,
    Expected,
    assert_problems,
    extend_table,
    outcome,
    problems,
)
from webhook.rows import messages as row_messages
from webhook.rules import messages
from webhook.rules.lint import PLACEHOLDERS_OF_SHAPES, notes_on
from webhook.rules.problems import TableError

NODE_CONFIG_4 = "        nodeConfig: 4\n"
SHAPE = "families:\n  - name: trn2u\n    shapes:\n      - name: s\n"
POD_AFFINITY = (
    "    add:\n      spec:\n        affinity:\n          podAffinity:\n"
    "            requiredDuringSchedulingIgnoredDuringExecution:\n"
)
TERM_PATH = "rules[0].add.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"

WORKLOAD = """\
workloads:
  - name: numbered
    kinds: [example.com/v1/Numbered]
    groups: [{role: worker, template: "/pods[*]/template", takesNodes: devices}]
    fields: {size: {path: /spec/size, default: 1Gi}}
"""

ON_FAILURE = RULE + "    add: {metadata: {annotations: {ultraserver-webhook.io/on-node-failure: restart}}}\n"

FAMILY_TO_SHAPES = """\
families:
  - name: others
    instanceTypes: [chip.8x]
    wholeNode: {example.com/chip: 8}
    units: [{label: example.com/pod-domain, nodes: 8, usable: 7}]
    shapes:
      - """

LINT: dict[str, tuple[str, Expected]] = {
    "an unknown placeholder": (
        RULE + "    add:\n      spec:\n        schedulerName: $(job.nane)\n",
        [
            (
                10,
                "rules[0].add.spec.schedulerName",
                messages.unknown_placeholder("job.nane", [], "; did you mean 'job.name'?"),
            )
        ],
    ),
    "an unknown placeholder in a shape": (
        "families:\n  - name: trn2u\n    shapes: [{name: unpaired, warn: $(field.home)}]\n",
        [(6, "families[0].shapes[0].warn", messages.unknown_placeholder("field.home", ["family."]))],
    ),
    "in a shape, a placeholder that has no value for some jobs": (
        "families:\n  - name: trn2u\n    shapes: [{name: unpaired, warn: $(job.name)}]\n",
        [(6, "families[0].shapes[0].warn", messages.unknown_placeholder("job.name", ["family."]))],
    ),
    "a placeholder as a key": (
        RULE + "    add:\n      metadata:\n        labels:\n          $(shape.name): a\n",
        [(11, "rules[0].add.metadata.labels[$(shape.name)]", messages.KEY_IS_PLACEHOLDER)],
    ),
    "a value with the placeholder of another value": (
        "values:\n  a: $(value.b)\n  b: x\n",
        [(5, "values.a", row_messages.nested_value("value.b"))],
    ),
    "a namespaceSelector with a label other than the name": (
        RULE.replace("worker", "worker, namespaceSelector: {matchLabels: {team: a}}") + "    warn: w\n",
        [
            (
                7,
                "rules[0].match.namespaceSelector",
                row_messages.unknown_label("kubernetes.io/metadata.name", "team"),
            )
        ],
    ),
    "an operator of a label selector without values": (
        RULE.replace("worker", "worker, labelSelector: {matchExpressions: [{key: a, operator: NotIn}]}")
        + "    warn: w\n",
        [(7, "rules[0].match.labelSelector", row_messages.needs_values("NotIn"))],
    ),
    "a number of a Pod with two sources": (
        WORKLOAD.replace("devices}", "devices, number: {podName: true, label: a}}"),
        [(7, "workloads[0].groups[0].number", messages.NOT_ONE_SOURCE)],
    ),
    "a completion mode with a placeholder": (
        WORKLOAD.replace(
            "devices}", "devices, number: {label: a, completionMode: {path: /m, default: $(value.m)}}}"
        ),
        [(7, "workloads[0].groups[0].number.completionMode.default", messages.NO_PLACEHOLDER)],
    ),
    "an unknown placeholder in a condition on the template": (
        RULE.replace("worker", "worker, template: {/spec/a: $(job.peers)}") + "    warn: w\n",
        [
            (
                7,
                "rules[0].match.template[0]",
                messages.unknown_placeholder("job.peers", ["family.name"]),
            )
        ],
    ),
    "the placeholder of a list in a message": (
        RULE + "    warn: $(units.own)\n",
        [(8, "rules[0].warn", "unknown placeholder $(units.own)")],
    ),
    "a list and another placeholder in one text": (
        RULE.replace("worker", "worker, template: {/spec/x: $(units.own)-$(shape.name)}") + "    warn: w\n",
        [(7, "rules[0].match.template", messages.is_list("units.own", "$(units.own)-$(shape.name)"))],
    ),
    "two lists in one text": (
        RULE.replace("worker", "worker, template: {/spec/x: $(units.own)$(units.belowJob)}")
        + "    warn: w\n",
        [(7, "rules[0].match.template", messages.is_list("units.own", "$(units.own)$(units.belowJob)"))],
    ),
    "a list and the placeholder of a value in one text": (
        "values: {a: x}\n"
        + RULE.replace("worker", 'worker, template: {/spec/x: "!$(value.a)$(units.own)"}')
        + "    warn: w\n",
        [(8, "rules[0].match.template", messages.is_list("units.own", "!$(value.a)$(units.own)"))],
    ),
    "the function least without a default that is a number": (
        WORKLOAD.replace("default: 1Gi", "function: least"),
        [(8, "workloads[0].fields.size.default", messages.not_a_number(""))],
    ),
    "the placeholder of a topology key that not every shape has": (
        RULE + "    warn: $(shape.topologyKey)\n",
        [(8, "rules[0].warn", messages.no_topology_key("single-node"))],
    ),
    "a claim with a node config that no shape has": (
        "families: [{name: trn2u, claims: {ours: {takes: node, nodeConfig: 3}}}]\n",
        [(4, "families[0].claims.ours.nodeConfig", messages.no_config(3, "1, 2, 4"))],
    ),
    "a claim with an empty name": (
        "families: [{name: trn2u, claims: {'': {takes: node}}}]\n",
        [(4, "families[0].claims[]", messages.every_claim(""))],
    ),
    "a rule that does nothing": (
        RULE,
        [(5, "rules[0]", messages.does_nothing("`add`, `warn`, `deny`, `unplaced` or `placer`"))],
    ),
    "two rules with the same name": (
        RULE + "    warn: a\n  - {name: x, reason: q, match: {role: launcher}, warn: b}\n",
        [
            (5, "rules[0].name", messages.same_name("x", 2)),
            (9, "rules[1].name", messages.same_name("x", 2)),
        ],
    ),
    "two rules with the same content": (
        RULE + "    warn: a\n  - {name: other, reason: q, match: {role: worker}, warn: a}\n",
        [(9, "rules[1]", messages.same_rule("x"))],
    ),
    "an unknown workload": (
        (
            "rules:\n  - name: x\n    reason: r\n    warn: w\n"
            "    match:\n      role: worker\n      workload: gang\n"
        ),
        [(10, "rules[0].match.workload", messages.unknown_workload("gang", ""))],
    ),
    "a condition on a field that the workload does not have": (
        (
            "rules:\n  - name: x\n    reason: r\n    match:\n      role: worker\n      workload: mpijob\n"
            "      fields: {nope: a}\n    warn: w\n"
        ),
        [(10, "rules[0].match.fields.nope", row_messages.no_such_field("mpijob", "nope"))],
    ),
    "a default of a field with a placeholder other than $(value.NAME)": (
        WORKLOAD.replace("default: 1Gi", "default: $(job.id)"),
        [(8, "workloads[0].fields.size.default", messages.unknown_placeholder("job.id", ["value."]))],
    ),
    "a factor from a list that the template does not select": (
        WORKLOAD.replace("devices}", 'devices, number: {podName: true, times: "/jobs[*]/n"}}'),
        [
            (
                7,
                "workloads[0].groups[0]",
                messages.selects_all("/jobs[*]/n"),
            )
        ],
    ),
    "a label of peers with another placeholder than the job's name": (
        WORKLOAD + "    peers: {app: $(job.id)}\n",
        [(9, "workloads[0].peers.app", row_messages.other_peer("$(job.id)"))],
    ),
    "an unknown placer": (
        "rules:\n  - {name: x, reason: r, warn: w, match: {role: worker, placer: slurm}}\n",
        [
            (
                5,
                "rules[0].match.placer",
                messages.must_be_one("slurm", ["scheduler", "kueue", "gang", "whole-job"]),
            )
        ],
    ),
    "a rule with `placer` and with a condition on the placer": (
        "rules:\n  - {name: x, reason: r, placer: whole-job, match: {role: worker, placer: kueue}}\n",
        [(5, "rules[0].match.placer", messages.NO_PLACER_YET)],
    ),
    "a workload with an invalid placement annotation": (
        WORKLOAD + "    place: placer=gate\n",
        [(9, "workloads[0].place", "annotation ultraserver-webhook.io/place cannot be read: ")],
    ),
    "affinity to a block without the block label": (
        (
            "rules:\n  - name: x\n    reason: r\n    match: {role: pod, workload: pod}\n"
            + POD_AFFINITY
            + "              - labelSelector: {matchLabels: {ultraserver-webhook.io/block: $(place.block)}}\n"
            "                topologyKey: k\n"
        ),
        [(13, TERM_PATH, messages.OWN_LABELS[keys.BLOCK])],
    ),
    "a role that the rule's workload does not have": (
        "rules: [{name: x, reason: r, match: {role: pod, workload: mpijob}, warn: w}]\n",
        [(4, "rules[0].match.role", messages.no_group("pod", ""))],
    ),
    "a misspelt role": (
        "rules: [{name: x, reason: r, match: {role: workers, workload: mpijob}, warn: w}]\n",
        [
            (
                4,
                "rules[0].match.role",
                messages.no_group("workers", "; did you mean 'worker'?"),
            )
        ],
    ),
    "a shape with neither nodeConfig nor deny": (
        SHAPE + "        workers: 12\n",
        [(7, "families[0].shapes[0]", messages.missing("nodeConfig"))],
    ),
    "a condition that no shape meets": (
        RULE.replace("worker}", "worker, shape: {together: always}}") + "    warn: w\n",
        [(7, "rules[0].match.shape", row_messages.NO_SUCH_SHAPE)],
    ),
    "`unless` with an unknown rule": (
        RULE + "    warn: w\n    unless: nope\n",
        [(9, "rules[0].unless", messages.not_earlier("nope"))],
    ),
    "`unless` with the rule itself": (
        RULE + "    warn: w\n    unless: x\n",
        [(9, "rules[0].unless", messages.not_earlier("x"))],
    ),
    "a rule with `placer` and `unless`": (
        RULE + "    placer: scheduler\n    unless: native-gang\n",
        [
            (9, "rules[0].unless", messages.UNLESS_OF_PLACER),
            (9, "rules[0].unless", messages.not_earlier("native-gang")),
        ],
    ),
    "a negative operator in a namespaceSelector": (
        RULE + POD_AFFINITY + "              - topologyKey: k\n                namespaceSelector:\n"
        "                  matchExpressions:\n                    - {key: a, operator: NotIn, values: [b]}\n",
        [(14, TERM_PATH + ".namespaceSelector", messages.negative_operator("NotIn"))],
    ),
    "DoesNotExist in a namespaceSelector": (
        RULE + POD_AFFINITY + "              - topologyKey: k\n                namespaceSelector:\n"
        "                  matchExpressions:\n                    - {key: a, operator: DoesNotExist}\n",
        [(14, TERM_PATH + ".namespaceSelector", messages.negative_operator("DoesNotExist"))],
    ),
    "several node selector terms": (
        RULE + "    add:\n      spec:\n        affinity:\n          nodeAffinity:\n"
        "            requiredDuringSchedulingIgnoredDuringExecution:\n              nodeSelectorTerms:\n"
        "                - matchExpressions: [{key: a, operator: Exists}]\n"
        "                - matchExpressions: [{key: b, operator: Exists}]\n",
        [
            (
                13,
                (
                    "rules[0].add.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
                    ".nodeSelectorTerms"
                ),
                messages.SEVERAL_TERMS,
            )
        ],
    ),
    "affinity by the job label without the job label": (
        RULE + POD_AFFINITY + "              - topologyKey: k\n                labelSelector:\n"
        "                  matchLabels: {ultraserver-webhook.io/job: $(job.id)}\n",
        [
            (
                13,
                TERM_PATH,
                messages.OWN_LABELS[keys.JOB],
            )
        ],
    ),
    "affinity by an expression on the job label without the job label": (
        RULE + POD_AFFINITY + "              - topologyKey: k\n                labelSelector:\n"
        "                  matchExpressions: [{key: ultraserver-webhook.io/job, operator: Exists}]\n",
        [
            (
                13,
                TERM_PATH,
                messages.OWN_LABELS[keys.JOB],
            )
        ],
    ),
    "a job label with another value": (
        RULE + "    add:\n      metadata:\n        labels:\n          ultraserver-webhook.io/job: mine\n",
        [(11, "rules[0].add.metadata.labels[ultraserver-webhook.io/job]", messages.OTHER_JOB_LABEL)],
    ),
    "the annotation of the webhook's record": (
        RULE + "    add:\n      metadata:\n        annotations:\n          ultraserver-webhook.io/added: a\n",
        [(11, "rules[0].add.metadata.annotations[ultraserver-webhook.io/added]", messages.RECORD)],
    ),
    "a shape that an earlier shape covers": (
        (
            SHAPE + "        workers: multiple of 3\n        nodeConfig: 1\n"
            "      - name: t\n        workers: 9\n        nodeConfig: 1\n"
        ),
        [
            (
                11,
                "families[0].shapes[1].workers",
                messages.hidden_by("s"),
            )
        ],
    ),
    "the placeholder of an unknown value": (
        RULE + "    warn: $(value.mine)\n",
        [
            (
                8,
                "rules[0].warn",
                messages.unknown_placeholder("value.mine", [], messages.add_to_values("mine")),
            )
        ],
    ),
    "a rule that needs a later rule": (
        (
            "rules:\n  - {name: x, reason: r, match: {role: worker}, warn: w, needs: later}\n"
            "  - {name: later, reason: r, match: {role: worker}, warn: v}\n"
        ),
        [(5, "rules[0].needs", messages.not_earlier("later"))],
    ),
    "a number of workers that does not fill blocks": (
        SHAPE + "        workers: 6\n" + NODE_CONFIG_4,
        [
            (
                8,
                "families[0].shapes[0].workers",
                messages.parts_of_blocks(6, 4, messages.use_config("1 or 2")),
            )
        ],
    ),
    "a range of workers with one node config": (
        FAMILY_TO_SHAPES + "{name: one, workers: 1 to 7, nodeConfig: 7}\n",
        [
            (
                10,
                "families[0].shapes[0].workers",
                messages.parts_of_blocks("1 to 7", 7, messages.range_as_config("1 to 7")),
            )
        ],
    ),
    "more workers than a unit has nodes": (
        SHAPE + "        workers: 8\n" + NODE_CONFIG_4 + "        together: required\n",
        [
            (
                10,
                "families[0].shapes[0].together",
                messages.small_unit(4, 8),
            )
        ],
    ),
    "a value of `apart` that no rule matches": (
        SHAPE + "        workers: 12\n" + NODE_CONFIG_4 + "        apart: preferred\n",
        [
            (
                10,
                "families[0].shapes[0].apart",
                messages.no_rule_matches("apart", "preferred"),
            )
        ],
    ),
    "`apart` without a unit, reported once and not for each rule that needs the unit's label": (
        SHAPE + "        workers: 16\n        nodeConfig: 8\n        apart: required\n",
        [
            (9, "families[0].shapes[0].nodeConfig", "the init script of rule "),
            (10, "families[0].shapes[0].apart", messages.needs_unit("apart", 8)),
        ],
    ),
    "more workers than a unit has usable nodes": (
        FAMILY_TO_SHAPES + "{name: one, workers: 8, nodeConfig: 8, together: required}\n",
        [
            (
                10,
                "families[0].shapes[0].together",
                messages.few_usable(8, "example.com/pod-domain", 7, 8),
            )
        ],
    ),
    "`together` for single nodes": (
        FAMILY_TO_SHAPES + "{name: one, workers: 1, nodeConfig: 1, together: required}\n",
        [
            (
                10,
                "families[0].shapes[0].together",
                messages.no_unit_of_one("together"),
            )
        ],
    ),
    "a node config that the init script does not support, and workers that do not fill blocks": (
        SHAPE + "        workers: 3\n        nodeConfig: 3\n      - {name: t, workers: 3, nodeConfig: 4}\n",
        [
            (
                9,
                "families[0].shapes[0].nodeConfig",
                "the init script of rule init",
            ),
            (
                10,
                "families[0].shapes[1].workers",
                messages.parts_of_blocks(3, 4, messages.use_config("1")),
            ),
        ],
    ),
    "a family whose first instance type is a glob": (
        "families: [{name: trn2u, instanceTypes: [trn2u.*]}]\n",
        [(4, "families[0].instanceTypes", messages.FIRST_TYPE_IS_GLOB)],
    ),
    "more usable nodes than nodes of a unit": (
        "families: [{name: trn2u, units: [{label: rack, nodes: 8, usable: 9}]}]\n",
        [(4, "families[0].units[0].usable", messages.too_many_usable(8))],
    ),
    "an unknown family": (
        "rules: [{name: x, reason: r, match: {role: worker, family: trn9}, warn: w}]\n",
        [
            (
                4,
                "rules[0].match.family",
                row_messages.no_such_family("trn2u"),
            )
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), LINT.values(), ids=LINT)
def test_loading_refuses_an_invalid_table(text: str, expected: Expected) -> None:
    assert_problems(EXTENDS + text, expected)


def test_a_rule_with_affinity_by_the_job_label_loads_if_it_needs_the_job_label() -> None:
    text, _ = LINT["affinity by the job label without the job label"]
    load_text(EXTENDS + text.replace("    match:", "    needs: job-label\n    match:"), SOURCE)


GPU_FAMILY = """families:
  - name: others
    instanceTypes: [gpu.4x]
    wholeNode: {nvidia.com/gpu: 4}
    units: [{label: example.com/pod, nodes: 8}]
    shapes:
      - {name: one, workers: 1 to 8, nodeConfig: 1 to 8, together: required}
      - {name: more, workers: multiple of 1, nodeConfig: 4 to 8, together: preferred}
"""
DENYING_SHAPE = '      - {name: none, workers: multiple of 1, deny: "$(job.nodes) workers do not fit"}\n'


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            GPU_FAMILY.replace(": 4}", ": {atLeast: 4, atMost: 4}}"),
            [("shapes", messages.no_shape("9, 11, 13, 17"))],
        ),
        (
            GPU_FAMILY + DENYING_SHAPE,
            [("wholeNode", messages.no_maximum(4))],
        ),
        (GPU_FAMILY.replace("nvidia.com/gpu", "example.com/chip") + DENYING_SHAPE, []),
        (
            GPU_FAMILY.replace("nvidia.com/gpu", "example.com/chip").replace(
                "{name: more", "{name: single, workers: multiple of 1, nodeConfig: 1}\n      - {name: more"
            ),
            [("shapes", messages.pins_workers("one", 8))],
        ),
        (
            "families: [{name: trn2u, shapes: [{name: six, workers: 6, nodeConfig: 2}]}]\n",
            [
                (
                    "shapes",
                    messages.shares_units("six", "trn2u"),
                )
            ],
        ),
        (
            "rules: [{name: x, reason: r, match: {role: worker}, placer: whole-job}]\n",
            [("placer", messages.NOT_ALL_NUMBERED)],
        ),
        (ON_FAILURE, [("add", messages.MAY_FAIL)]),
        (ON_FAILURE + "    unless: fails-with-deleted-pods\n", []),
        (
            RULE.replace("worker}", "worker, workers: 3}")
            + '    deny: "$(job.workers) workers: use 2 or 4"\n',
            [("deny", messages.COUNTS_LAUNCHER)],
        ),
        (
            RULE.replace("worker}", "worker, workers: 3}") + '    deny: "$(job.nodes) workers: use 2 or 4"\n',
            [],
        ),
        (
            RULE.replace("worker}", "worker, requests: [x/y, x/z*]}") + "    deny: use less\n",
            [("match", messages.NO_GLOBS)],
        ),
        (RULE + '    deny: "no job $(job.name)"\n', [("deny", messages.NO_NAME_YET)]),
        (WORKLOAD, [("groups", messages.NO_NUMBER)]),
        (WORKLOAD.replace("devices}", "devices, number: {podName: true}}"), []),
        ("", []),
    ],
)
def test_lint_notes_a_valid_row_that_is_probably_a_mistake(text: str, notes: list[tuple[str, str]]) -> None:
    result = [(path, message) for path, message in notes_on(load_text(EXTENDS + text, SOURCE))]
    assert [path[2] for path, _ in result] == [key for key, _ in notes]
    assert all(message.startswith(start) for (_, message), (_, start) in zip(result, notes, strict=True))


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = "\n".join(
        ["rules:", "  - {name: x, reason: r, match: {role: worker}}"]
        + [f"  - {{name: r{i}, reason: r, match: {{role: worker}}, warn: $(no.{i})}}" for i in range(3)]
        + [
            "families:",
            "  - {name: trn2u, shapes: [{name: s, workers: 12, nodeConfig: 2, apart: preferred}]}",
        ]
    )
    assert [(line, path) for _, line, path, _ in problems(EXTENDS + text)] == [
        (5, "rules[0]"),
        (6, "rules[1].warn"),
        (7, "rules[2].warn"),
        (8, "rules[3].warn"),
        (10, "families[0].shapes[0].apart"),
    ]


def test_a_packaged_row_that_a_new_row_hides_is_reported_with_the_packaged_file_and_line() -> None:
    shape = SHAPE + "        workers: multiple of 2\n        nodeConfig: 2\n"
    rows = problems(EXTENDS + shape)
    assert [(source, path, message.split(":")[0]) for source, _, path, message in rows] == [
        ("packaged families", "families[0].shapes[1].workers", "unreachable"),
        ("packaged families", "families[0].shapes[4].workers", "unreachable"),
    ]
    assert [_packaged_line(source, line).split("name: ")[1].split(",")[0] for source, line, _, _ in rows] == [
        "two-node",
        "multi-pair",
    ]


def test_a_problem_of_a_changed_row_is_reported_at_the_change() -> None:
    """A change can cause a problem in a key that only the packaged row has."""
    text = "rules:\n  - name: apart-across-namespaces\n    match: {role: worker}\n"
    ((source, line, path, _),) = problems(EXTENDS + text)
    assert (source, line, path.endswith("topologyKey")) == (SOURCE, 5, True)
    assert_problems(
        EXTENDS + "families:\n  - name: trn2u\n    shapes:\n      - {name: two-node, workers: 6}\n",
        [(7, "families[0].shapes[0].together", messages.small_unit(2, 6))],
    )
    text = "rules:\n  - name: apart-across-namespaces\n    match: {role: worker, workload: nope}\n"
    assert (SOURCE, 6, "rules[0].match.workload") in [row[:3] for row in problems(EXTENDS + text)]


def test_the_text_of_a_problem_is_file_line_path_and_message() -> None:
    with pytest.raises(TableError) as refused:
        load_text(EXTENDS + RULE, SOURCE)
    message = messages.does_nothing("`add`, `warn`, `deny`, `unplaced` or `placer`")
    assert str(refused.value) == f"mine.yaml:5: rules[0]: {message}"


def _packaged_line(source: str, number: int) -> str:
    text = packaged_texts()[source.removeprefix("packaged ")].decode()
    return text.splitlines()[number - 1].strip()


@pytest.mark.parametrize("placeholder", sorted(PLACEHOLDERS_OF_SHAPES))
def test_every_job_has_a_value_for_each_placeholder_of_a_shape(placeholder: str) -> None:
    """Protects reviews: a placeholder without a value would raise an error for each job of the shape."""
    row = f"{{name: four-node, warn: 'x $({placeholder})'}}"
    result = outcome(extend_table(f"families: [{{name: trn2u, shapes: [{row}]}}]\n"), mpijob())
    assert any(warning.startswith("x ") for warning in result.warnings)

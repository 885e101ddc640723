"""Tests that tables of release 0.2.0 are converted: the packaged tables, and tables that a user wrote."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from contract.keys import INIT_SCRIPT
from testbed.mpijob import mpijob
from testbed.release import source
from tests.helpers import load_text, request_for
from tests.rules.packaged import RULES, TABLES, cases
from tests.rules.tables import EXTENDS, SOURCE, parse_yaml
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine import admit
from webhook.engine.outcome import Request
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import get_map
from webhook.rows import messages as row_messages
from webhook.rows.conditions import Annotations
from webhook.rows.families import Unit
from webhook.rows.table import Rule, Table
from webhook.rows.written import Range
from webhook.rules import messages
from webhook.rules.convert import convert_table
from webhook.rules.problems import TableError
from webhook.rules.schema import OLD_VERSION as OLD
from webhook.rules.schema import VERSION
from webhook.ruletests.expected import comparable

RELEASE = "61684e23369530e2b72a7f2ba1622156889b0023"
OUTCOMES = Path(__file__).parent / "outcomes-0.2.0.json"
"""For the digest of each request, the digest of the outcomes of 0.2.0's tables."""

OLD_VERSION = EXTENDS.replace("v1alpha2", "v1alpha1")
FILES = {
    "packaged": [],
    "hyperpod": ["10-hyperpod", "15-kueue"],
    "everything": [
        "10-hyperpod",
        "15-kueue",
        "16-kueue-level",
        "20-pods",
        "30-neuron-scheduler",
        "30-placement",
        "40-missed-jobs",
    ],
}
"""For each name of a converted table, the chart's files that change the packaged table."""

pytestmark = pytest.mark.skipif(not source.has_commit(RELEASE), reason="this clone is shallow")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


@cache
def file_of_release(path: str) -> Any:
    """Returns the value of a YAML file of the release."""
    return parse_yaml(source.git("show", f"{RELEASE}:{path}"))


def table_of_release(*files: str) -> str:
    """Returns the packaged table of the release, changed by files of the release's chart."""
    table = dict(file_of_release("webhook/rules/default.yaml"))
    for changes in (file_of_release(f"manifests/chart/rules/{file}.yaml") for file in files):
        for key in ("values", "candidates"):
            table[key] = {**table[key], **changes.get(key, {})}
        for key in ("workloads", "rules"):
            rows = {row["name"]: row for row in table[key]}
            rows |= {row["name"]: {**rows.get(row["name"], {}), **row} for row in changes.get(key, [])}
            table[key] = [*rows.values()]
    return dump_yaml(table)


def converted_tables() -> Mapping[str, Table]:
    return {
        name: load_text(convert_table((name, table_of_release(*files))), name)
        for name, files in FILES.items()
    }


def requests() -> Iterator[tuple[Request, Any]]:
    """Yields the requests of all packaged cases, and MPIJobs of many sizes and of each node config."""
    yield from ((case.request, case.stored) for folder in TABLES for case in cases(folder))
    for workers in (*range(13), 24, 31, 100_001):
        yield request_for(mpijob(workers)), None
        for config in "124":
            annotations = {"ultraserver-webhook.io/node-config": config}
            yield request_for(mpijob(workers, annotations=annotations)), None


def outcome(table: Table, request: Request, stored: Any) -> Any:
    """Returns the outcome of a table, without the init script's text, which changes with releases."""
    result = admit(table, request, stored)
    mutated = comparable(result.after)
    get_map(mutated, ANNOTATIONS).pop(INIT_SCRIPT, None)
    return [mutated, sorted(result.fired()), bool(result.denials), len(result.warnings)]


@pytest.mark.limit(8, "four hundred requests by three tables")
def test_converted_tables_have_the_outcomes_of_the_release_for_every_packaged_case() -> None:
    outcomes_of_release = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    all_tables, compared = converted_tables(), 0
    for request, stored in requests():
        key = digest([request.object, request.namespace, request.uid, stored])
        if key in outcomes_of_release:  # newer cases are not in the file
            outcomes = {name: outcome(table, request, stored) for name, table in all_tables.items()}
            assert digest(outcomes) == outcomes_of_release[key], request.object
            compared += 1
    assert compared >= 0.8 * len(outcomes_of_release)


def test_converted_files_of_the_releases_chart_equal_the_present_files() -> None:
    for path in sorted(RULES.glob("*.yaml")):
        if path.stem != "30-placement":  # its rows are now in the packaged table
            name = f"manifests/chart/rules/{path.name}"
            text = convert_table((name, source.git("show", f"{RELEASE}:{name}")))
            converted, present = (load_text(content, name) for content in (text, path.read_bytes()))
            assert (converted.values, converted.candidates, converted.families) == (
                present.values,
                present.candidates,
                present.families,
            )
            assert (without_texts(converted), converted.workloads) == (
                without_texts(present),
                present.workloads,
            ), name


TOPOLOGIES = {
    f"kueue.x-k8s.io/podset-{strictness}-topology": ("",)
    for strictness in ("required", "preferred", "unconstrained", "slice-required")
}
ANY_TOPOLOGY = {"kueue.x-k8s.io/podset-*-topology": ("",)}


def without_texts(table: Table) -> list[Rule]:
    """Returns a table's rules with constant texts, and with one condition for all topologies of Kueue."""
    rules = [replace(rule, reason="a reason", warn=rule.warn and "a warning") for rule in table.rules]
    for index, rule in enumerate(rules):
        annotations = rule.match.annotations.value if rule.match.annotations else {}
        if annotations.items() >= TOPOLOGIES.items():
            rest = {key: value for key, value in annotations.items() if key not in TOPOLOGIES}
            rules[index] = replace(
                rule, match=replace(rule.match, annotations=Annotations(rest | ANY_TOPOLOGY))
            )
    return rules


USER_TABLE = """\
# Ours.
values: {waitSeconds: "60"}  # a minute

# Which jobs.
candidates:
  requests: [example.com/chip, aws.amazon.com/neuron]
  instanceTypes: [big]
  elsewhere: {labels: {queue: other}}

# Sizes.
shapes:
  - {name: four-node, together: preferred}
  - {name: rack, workers: 18, nodeConfig: 18, topologyKey: example.com/rack, apart: required}
# Rules.
rules:
  - {name: job-label, mode: off}  # not here
"""


def test_candidates_and_shapes_become_a_family_and_other_sections_keep_their_comments() -> None:
    text = convert_table((SOURCE, OLD_VERSION + USER_TABLE))
    head, _, rest = text.partition("# Which jobs.")
    assert head == EXTENDS + '# Ours.\nvalues: {waitSeconds: "60"}  # a minute\n\n'
    assert rest.startswith("\ncandidates:\n  elsewhere:\n")
    assert "# Sizes.\nfamilies:\n" in rest
    assert rest.endswith("# Rules.\nrules:\n  - {name: job-label, mode: off}  # not here\n")
    table = load_text(text, SOURCE)
    (family,) = table.enabled_families
    assert (family.name, family.instance_types) == ("trn2u", ("big",))
    assert family.whole_node == {"example.com/chip": Range(), "aws.amazon.com/neuron": Range(16)}
    assert family.units[0] == Unit("example.com/rack", 18)
    assert family.shapes[0].name == "rack"
    assert {shape.name: shape.together for shape in family.shapes}["four-node"] == "preferred"


@pytest.mark.parametrize(
    "text",
    [
        f"{{{OLD_VERSION.strip().replace(chr(10), ', ')}, candidates: {{instanceTypes: [a]}}}}",
        OLD_VERSION
        + "candidates: {requests: &two [a, b], instanceTypes: [a]}\n"
        + "rules: [{name: job-label, replaces: *two}]\n",
    ],
    ids=["one line", "an anchor in a removed key"],
)
def test_a_text_that_cannot_be_changed_by_lines_is_formatted_again(text: str) -> None:
    assert "\nfamilies:\n- name: trn2u\n" in convert_table((SOURCE, text))


def test_a_flag_of_a_field_becomes_a_function() -> None:
    fields = (
        "{a: /a, b: {path: /b, parent: true, counted: false}, c: {path: /c, default: 1Gi, smaller: true}}"
    )
    row = parse_yaml(
        convert_table((SOURCE, f"{OLD_VERSION}workloads: [{{name: mine, fields: {fields}}}]\n"))
    )["workloads"][0]
    directory, minimum = (
        {"path": "/b", "function": "dirname"},
        {"path": "/c", "default": "1Gi", "function": "min"},
    )
    assert row["fields"] == {"a": "/a", "b": directory, "c": minimum}


def test_the_keys_for_the_number_of_a_pod_become_one_key() -> None:
    index = "[{source: name, times: 2}, {source: labels/a}, {source: env/B}]"
    group = f"{{role: worker, template: /t, index: {index}, continues: true, numbers: /n, otherwise: helper}}"
    updates = "{suspend: /s, active: /status/replicaStatuses}"
    text = f"{OLD_VERSION}workloads: [{{name: mine, groups: [{group}], updates: {updates}}}]\n"
    row = parse_yaml(convert_table((SOURCE, text)))["workloads"][0]
    assert row["updates"] == {"suspend": "/s"}
    number = {
        "podName": True,
        "times": 2,
        "plus": [{"label": "a"}, {"env": "B"}],
        "continues": True,
        "count": "/n",
    }
    assert row["groups"] == [{"role": "worker", "template": "/t", "number": number}]


def test_a_condition_on_volumes_becomes_a_condition_on_the_template_and_named_is_removed() -> None:
    match = (
        "{workload: [job, indexed-job, mpijob], role: worker, named: true, volume: [v, w], "
        "template: {/spec/a: b}}"
    )
    text = f"{OLD_VERSION}rules: [{{name: mine, reason: r, match: {match}, warn: w $(job.name)}}]\n"
    assert parse_yaml(convert_table((SOURCE, text)))["rules"][0]["match"] == {
        "workload": ["job", "mpijob"],
        "role": "worker",
        "template": [
            {"/spec/a": "b", "/spec/volumes[name=v]/name": "Exists"},
            {"/spec/a": "b", "/spec/volumes[name=w]/name": "Exists"},
        ],
    }


def test_a_rule_that_replaces_another_rule_switches_it_off() -> None:
    replaces = "replaces: [nodes-with-server-id, gone]"
    rule = f"{{name: mine, reason: r, match: {{role: worker}}, warn: w, {replaces}}}"
    assert parse_yaml(convert_table((SOURCE, f"{OLD_VERSION}rules: [{rule}]\n")))["rules"] == [
        {"name": "nodes-with-server-id", "mode": "off"},
        {"name": "mine", "reason": "r", "match": {"role": "worker"}, "warn": "w"},
    ]


def test_a_row_that_switches_a_removed_rule_off_is_removed() -> None:
    assert (
        parse_yaml(convert_table((SOURCE, OLD_VERSION + "rules: [{name: wait-hostfilename, mode: off}]\n")))[
            "rules"
        ]
        == []
    )


def test_rows_that_switch_two_joined_rules_off_become_one_row() -> None:
    rows = ", ".join(
        f"{{name: kueue-level-unset-{strictness}, mode: off}}" for strictness in ("required", "preferred")
    )
    text = convert_table((SOURCE, f"{OLD_VERSION}rules: [{rows}]\n"))
    assert 'mode: "off"' in text
    assert parse_yaml(text)["rules"] == [{"name": "kueue-level-unset-in-job", "mode": "off"}]


def test_off_is_read_with_and_without_quotes() -> None:
    required, preferred = (
        f"name: kueue-level-unset-{strictness}, mode:" for strictness in ("required", "preferred")
    )
    text = convert_table((SOURCE, f"{OLD_VERSION}rules: [{{{required} off}}, {{{preferred} 'off'}}]\n"))
    assert parse_yaml(text)["rules"] == [{"name": "kueue-level-unset-in-job", "mode": "off"}]


def test_a_rule_that_replaces_two_joined_rules_switches_their_new_rule_off() -> None:
    replaces = "replaces: [kueue-level-unset-required, kueue-level-unset-preferred]"
    rule = f"{{name: mine, reason: r, match: {{role: worker}}, warn: w, {replaces}}}"
    assert parse_yaml(convert_table((SOURCE, f"{OLD_VERSION}rules: [{rule}]\n")))["rules"] == [
        {"name": "kueue-level-unset-in-job", "mode": "off"},
        {"name": "mine", "reason": "r", "match": {"role": "worker"}, "warn": "w"},
    ]


def test_the_file_of_whole_job_admission_is_refused_because_the_packaged_table_has_its_rules() -> None:
    name = "manifests/chart/rules/30-placement.yaml"
    with pytest.raises(TableError, match=re.escape(messages.copied_rule("pods-not-at-once"))):
        convert_table((name, source.git("show", f"{RELEASE}:{name}")))


JOINED = ("kueue-level-unset-required", "kueue-level-unset-preferred")
REFUSED = {
    "workloads: [{name: a, groups: [{role: worker, otherwise: idle}]}]": (
        messages.fixed_value("otherwise", "helper", "idle")
    ),
    "shapes: [{name: four-node, topologyKey: example.com/four}]": (
        messages.several_labels(
            "multi-node", 4, "neuron.amazonaws.com/ultraserver-server-id-4", "example.com/four"
        )
    ),
    "shapes: [{name: alone, workers: 3, nodeConfig: 1, topologyKey: zone, together: preferred}]": (
        messages.single_nodes("alone", "zone")
    ),
    "shapes: [{name: a, workers: 3, nodeConfig: 3}]": messages.several_labels(
        "a", 3, "no label", "neuron.amazonaws.com/ultraserver-server-id-4"
    ),
    "shapes: [{workers: 3}]": f"mine.yaml:4: shapes[0]: {messages.missing('name')}",
    "rules: [{name: a, mode: off}, {reason: r, match: {role: worker}}]": (
        f"rules[1]: {messages.missing('name')}"
    ),
    "workloads: [{kinds: [example.com/v1/Gang]}]": f"workloads[0]: {messages.missing('name')}",
    "rules: [{name: a, reason: r, match: {role: worker}, warn: w, replaces: kueue-level-unset-preferred}]": (
        messages.joined_partly(*JOINED, "kueue-level-unset-in-job", "a", "kueue-level-unset-preferred")
    ),
    "rules: [{name: init-in-job-image, mode: off}]": (messages.no_variant("init-in-job-image")),
    "rules: [{name: driver-sets-mode, mode: off}]": messages.gone_rule("driver-sets-mode"),
    "rules: [{name: kueue-own-pair, mode: off}]": messages.gone_rule("kueue-own-pair"),
    "rules: [{name: wait-as-mpirun, mode: off}]": messages.gone_rule("wait-as-mpirun"),
    "rules: [{name: a, reason: r, match: {role: worker, every: true}, replaces: job-label}]": (
        messages.partly_replaced("a", "job-label")
    ),
    "rules: [{name: a, match: {workload: indexed-job, role: worker}}]": (messages.some_jobs("a", "job")),
    "rules: [{name: a, match: {workload: job, role: worker}}]": messages.some_jobs("a", "job"),
    "rules: [{name: a, match: {workload: '!indexed-job', role: worker}}]": messages.some_jobs("a", "job"),
    "workloads: [{name: indexed-job, updates: always}]": messages.renamed_workload("indexed-job", "job"),
    "rules: [{name: a, match: {role: worker, named: true}, warn: w}]": (messages.named("a")),
    "rules: [{name: a, match: {named: false}, warn: $(job.name)}]": messages.named("a"),
    "candidates: []": f"mine.yaml:4: candidates: {messages.NOT_ACCEPTED}",
    "\nshapes:\n  - {name: four-node}\n  - {name: a, workers: 3}": (
        f"mine.yaml:7: shapes[1]: {messages.missing('nodeConfig')}"
    ),
    "\nworkloads:\n  - name: a\n    groups:\n      - {role: worker, template: /t, index: [labels/a]}": (
        f"mine.yaml:8: workloads[0].groups[0].index[0]: {messages.NOT_ACCEPTED}"
    ),
    "rules: [{name: a, match: worker}]": f"rules[0].match: {messages.NOT_ACCEPTED}",
    "rules: [{name: jobs-in-order, reason: r, match: {role: worker}, placer: affinity}]": (
        messages.copied_rule("jobs-in-order")
    ),
    "rules: [{name: kueue-level-unset-preferred, mode: off}]": (
        messages.joined_differently(*JOINED, "kueue-level-unset-in-job")
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_table_that_cannot_be_converted_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(TableError) as refused:
        convert_table((SOURCE, OLD_VERSION + text))
    assert REFUSED[text] in str(refused.value)


def test_the_command_prints_notes_on_removed_rows_and_problems_of_the_converted_table(tmp_path: Path) -> None:
    """Protects pipelines from a converted table that does less, or that the webhook refuses."""
    (file := tmp_path / "mine.yaml").write_text(
        OLD_VERSION
        + "rules:\n  - {name: no-such-row, mode: off}\n  - {name: kueue-level-unset-required, mode: off}\n"
        "  - {name: kueue-level-unset-preferred, mode: off}\n"
        "  - {name: mine, reason: r, match: {role: worker}, warn: w,\n"
        "     replaces: [unpaired, together-preferred]}\n"
    )
    result = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"note: {messages.removed_rule('no-such-row')}",
        f"note: {messages.joined_rule('kueue-level-unset-required', 'kueue-level-unset-in-job')}",
        f"note: {messages.joined_rule('kueue-level-unset-preferred', 'kueue-level-unset-in-job')}",
        f"note: {messages.removed_replaces('unpaired', 'mine')}",
        f"note: {messages.replaced_rule('together-preferred', 'mine')}",
    ]
    file.write_text(
        OLD_VERSION + "rules: [{name: mine, reason: r, match: {role: worker, shape: {name: s}}, warn: w}]\n"
    )
    result = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert (result.exit_code, result.stdout) == (1, convert_table((SOURCE, file.read_text())))
    assert f"the printed table:4: rules[0].match.shape: {row_messages.NO_SUCH_SHAPE}" in result.stderr


def test_the_command_prints_a_table_that_loads_and_refuses_a_table_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OLD_VERSION + USER_TABLE, encoding="utf-8")
    result = CliRunner().invoke(main, ["rules", "lint", str(file)])
    assert messages.old_version(OLD, VERSION) in result.output
    result = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert (result.exit_code, result.stdout) == (0, convert_table((SOURCE, OLD_VERSION + USER_TABLE)))
    file.write_text(result.stdout, encoding="utf-8")
    assert CliRunner().invoke(main, ["rules", "show", "--rules", str(file)]).exit_code == 0
    result = CliRunner().invoke(main, ["rules", "lint", str(file)])
    assert "families[0].shapes[1].nodeConfig: the init script of rule" in result.output
    result = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert result.exit_code == 2
    assert messages.other_version(OLD) in result.output

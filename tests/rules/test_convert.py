"""Tables of 0.2.0, converted: what the packaged ones did to every packaged case, and what a person wrote."""

import hashlib
import json
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
from tests.helpers import load_text, requested
from tests.rules.packaged import RULES, TABLES, cases
from tests.rules.tables import EXTENDS, SOURCE, parsed
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine import admit
from webhook.engine.outcome import Request
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import get_map
from webhook.rows.conditions import Annotations
from webhook.rows.families import Unit
from webhook.rows.table import Rule, Table
from webhook.rows.written import Range
from webhook.rules.convert import convert_table
from webhook.rules.problems import TableError
from webhook.ruletests.expected import comparable

RELEASE = "61684e23369530e2b72a7f2ba1622156889b0023"
OUTCOMES = Path(__file__).parent / "outcomes-0.2.0.json"
"""By a digest of a request one of what 0.2.0's tables did with it, before there were families."""

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
"""Sets of the chart's files that are laid over the packaged table."""

pytestmark = pytest.mark.skipif(not source.has_commit(RELEASE), reason="this clone is shallow")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


@cache
def old(path: str) -> Any:
    """Returns a file of the release, as a value."""
    return parsed(source.git("show", f"{RELEASE}:{path}"))


def whole(*files: str) -> str:
    """Returns the packaged table of the release with files of the chart laid over it."""
    table = dict(old("webhook/rules/default.yaml"))
    for over in (old(f"manifests/chart/rules/{file}.yaml") for file in files):
        for key in ("values", "candidates"):
            table[key] = {**table[key], **over.get(key, {})}
        for key in ("workloads", "rules"):
            rows = {row["name"]: row for row in table[key]}
            rows |= {row["name"]: {**rows.get(row["name"], {}), **row} for row in over.get(key, [])}
            table[key] = [*rows.values()]
    return dump_yaml(table)


def tables() -> Mapping[str, Table]:
    return {name: load_text(convert_table((name, whole(*files))), name) for name, files in FILES.items()}


def requests() -> Iterator[tuple[Request, Any]]:
    """Yields the requests of all packaged cases, and MPIJobs of many sizes and of each node config."""
    yield from ((case.request, case.stored) for folder in TABLES for case in cases(folder))
    for workers in (*range(13), 24, 31, 100_001):
        yield requested(mpijob(workers)), None
        for config in "124":
            annotations = {"ultraserver-webhook.io/node-config": config}
            yield requested(mpijob(workers, annotations=annotations)), None


def outcome(table: Table, request: Request, stored: Any) -> Any:
    """Returns what a table does; without the init script's text, which changes with releases."""
    result = admit(table, request, stored)
    after = comparable(result.after)
    get_map(after, ANNOTATIONS).pop(INIT_SCRIPT, None)
    return [after, sorted(result.fired()), bool(result.denials), len(result.warnings)]


@pytest.mark.limit(8, "four hundred requests by five tables")
def test_the_tables_of_the_release_before_do_the_same_with_every_packaged_case() -> None:
    known = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    every, before = tables(), 0
    for request, stored in requests():
        key = digest([request.object, request.namespace, request.uid, stored])
        if key in known:  # a case that came later is not
            done = {name: outcome(table, request, stored) for name, table in every.items()}
            assert digest(done) == known[key], request.object
            before += 1
    assert before >= 0.8 * len(known)


def test_files_that_the_chart_of_the_release_laid_over_the_packaged_table_are_as_those_of_today() -> None:
    for path in sorted(RULES.glob("*.yaml")):
        if path.stem != "30-placement":  # which the packaged table has itself now
            name = f"manifests/chart/rules/{path.name}"
            text = convert_table((name, source.git("show", f"{RELEASE}:{name}")))
            then, now = (load_text(each, name) for each in (text, path.read_bytes()))
            assert (then.values, then.candidates, then.families) == (now.values, now.candidates, now.families)
            assert (without_texts(then), then.workloads) == (without_texts(now), now.workloads), name


TOPOLOGIES = {
    f"kueue.x-k8s.io/podset-{of}-topology": ("",)
    for of in ("required", "preferred", "unconstrained", "slice-required")
}
ANY_TOPOLOGY = {"kueue.x-k8s.io/podset-*-topology": ("",)}


def without_texts(table: Table) -> list[Rule]:
    """Returns the rules with the same reason and warning, and with one condition on Kueue's topologies."""
    rules = [replace(rule, reason="a reason", warn=rule.warn and "a warning") for rule in table.rules]
    for at, rule in enumerate(rules):
        named = rule.match.annotations.value if rule.match.annotations else {}
        if named.items() >= TOPOLOGIES.items():
            rest = {key: value for key, value in named.items() if key not in TOPOLOGIES}
            rules[at] = replace(rule, match=replace(rule.match, annotations=Annotations(rest | ANY_TOPOLOGY)))
    return rules


MINE = """\
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


def test_what_a_person_wrote_stays_with_its_comments_and_machines_become_a_family() -> None:
    text = convert_table((SOURCE, OLD_VERSION + MINE))
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
    ids=["one line", "an anchor that goes"],
)
def test_what_cannot_be_kept_line_by_line_is_written_again(text: str) -> None:
    assert "\nfamilies:\n- name: trn2u\n" in convert_table((SOURCE, text))


def test_a_flag_of_a_field_becomes_a_function() -> None:
    fields = (
        "{a: /a, b: {path: /b, parent: true, counted: false}, c: {path: /c, default: 1Gi, smaller: true}}"
    )
    row = parsed(convert_table((SOURCE, f"{OLD_VERSION}workloads: [{{name: mine, fields: {fields}}}]\n")))[
        "workloads"
    ][0]
    directory, least = (
        {"path": "/b", "function": "dirname"},
        {"path": "/c", "default": "1Gi", "function": "min"},
    )
    assert row["fields"] == {"a": "/a", "b": directory, "c": least}


def test_what_was_said_of_a_pods_number_is_one_key() -> None:
    index = "[{source: name, times: 2}, {source: labels/a}, {source: env/B}]"
    group = f"{{role: worker, template: /t, index: {index}, continues: true, numbers: /n, otherwise: helper}}"
    updates = "{suspend: /s, active: /status/replicaStatuses}"
    text = f"{OLD_VERSION}workloads: [{{name: mine, groups: [{group}], updates: {updates}}}]\n"
    row = parsed(convert_table((SOURCE, text)))["workloads"][0]
    assert row["updates"] == {"suspend": "/s"}
    number = {
        "podName": True,
        "times": 2,
        "plus": [{"label": "a"}, {"env": "B"}],
        "continues": True,
        "count": "/n",
    }
    assert row["groups"] == [{"role": "worker", "template": "/t", "number": number}]


def test_conditions_that_are_gone_are_conditions_on_the_template() -> None:
    match = (
        "{workload: [job, indexed-job, mpijob], role: worker, named: true, volume: [v, w], "
        "template: {/spec/a: b}}"
    )
    text = f"{OLD_VERSION}rules: [{{name: mine, reason: r, match: {match}, warn: w $(job.name)}}]\n"
    assert parsed(convert_table((SOURCE, text)))["rules"][0]["match"] == {
        "workload": ["job", "mpijob"],
        "role": "worker",
        "template": [
            {"/spec/a": "b", "/spec/volumes[name=v]/name": "Exists"},
            {"/spec/a": "b", "/spec/volumes[name=w]/name": "Exists"},
        ],
    }


def test_a_rule_in_the_place_of_another_switches_that_off() -> None:
    replaces = "replaces: [nodes-with-server-id, gone]"
    rule = f"{{name: mine, reason: r, match: {{role: worker}}, warn: w, {replaces}}}"
    assert parsed(convert_table((SOURCE, f"{OLD_VERSION}rules: [{rule}]\n")))["rules"] == [
        {"name": "nodes-with-server-id", "mode": "off"},
        {"name": "mine", "reason": "r", "match": {"role": "worker"}, "warn": "w"},
    ]


def test_a_rule_that_is_gone_may_be_off() -> None:
    assert (
        parsed(convert_table((SOURCE, OLD_VERSION + "rules: [{name: wait-hostfilename, mode: off}]\n")))[
            "rules"
        ]
        == []
    )


def test_two_rules_that_are_one_now_may_both_be_off() -> None:
    rows = ", ".join(f"{{name: kueue-level-unset-{of}, mode: off}}" for of in ("required", "preferred"))
    text = convert_table((SOURCE, f"{OLD_VERSION}rules: [{rows}]\n"))
    assert 'mode: "off"' in text
    assert parsed(text)["rules"] == [{"name": "kueue-level-unset-in-job", "mode": "off"}]


def test_off_means_the_same_with_and_without_quotes() -> None:
    required, preferred = (f"name: kueue-level-unset-{of}, mode:" for of in ("required", "preferred"))
    text = convert_table((SOURCE, f"{OLD_VERSION}rules: [{{{required} off}}, {{{preferred} 'off'}}]\n"))
    assert parsed(text)["rules"] == [{"name": "kueue-level-unset-in-job", "mode": "off"}]


def test_a_rule_in_the_place_of_two_that_are_one_now_switches_that_off() -> None:
    replaces = "replaces: [kueue-level-unset-required, kueue-level-unset-preferred]"
    rule = f"{{name: mine, reason: r, match: {{role: worker}}, warn: w, {replaces}}}"
    assert parsed(convert_table((SOURCE, f"{OLD_VERSION}rules: [{rule}]\n")))["rules"] == [
        {"name": "kueue-level-unset-in-job", "mode": "off"},
        {"name": "mine", "reason": "r", "match": {"role": "worker"}, "warn": "w"},
    ]


def test_the_file_of_whole_job_admission_is_refused_because_the_packaged_table_has_its_rules() -> None:
    name = "manifests/chart/rules/30-placement.yaml"
    with pytest.raises(TableError, match="pods-not-at-once is a copy from 30-placement"):
        convert_table((name, source.git("show", f"{RELEASE}:{name}")))


REFUSED = {
    "workloads: [{name: a, groups: [{role: worker, otherwise: idle}]}]": (
        "otherwise is now always helper, not idle: remove it"
    ),
    "shapes: [{name: four-node, topologyKey: example.com/four}]": (
        "shape multi-node has units of 4 nodes by neuron.amazonaws.com/ultraserver-server-id-4, and "
        "other shapes by example.com/four: use the same label in both, or write two families"
    ),
    "shapes: [{name: alone, workers: 3, nodeConfig: 1, topologyKey: zone, together: preferred}]": (
        "shape alone keeps single nodes together or apart by zone: use a nodeConfig of"
    ),
    "shapes: [{name: a, workers: 3, nodeConfig: 3}]": "shape a has units of 3 nodes by no label, and other",
    "shapes: [{workers: 3}]": "mine.yaml:4: shapes[0]: name is missing: add it",
    "rules: [{name: a, mode: off}, {reason: r, match: {role: worker}}]": "rules[1]: name is missing: add it",
    "workloads: [{kinds: [example.com/v1/Gang]}]": "workloads[0]: name is missing: add it",
    "rules: [{name: a, reason: r, match: {role: worker}, warn: w, replaces: kueue-level-unset-preferred}]": (
        "kueue-level-unset-in-job, and rule a replaces only kueue-level-unset-preferred: replace both"
    ),
    "rules: [{name: init-in-job-image, mode: off}]": (
        "rule init-in-job-image no longer has a variant of the AWS document"
    ),
    "rules: [{name: driver-sets-mode, mode: off}]": "the packaged table no longer has rule driver-sets-mode",
    "rules: [{name: kueue-own-pair, mode: off}]": "the packaged table no longer has rule kueue-own-pair",
    "rules: [{name: wait-as-mpirun, mode: off}]": "the packaged table no longer has rule wait-as-mpirun",
    "rules: [{name: a, reason: r, match: {role: worker, every: true}, replaces: job-label}]": (
        "rule a replaces job-label only for some jobs: exclude these jobs in match of job-label"
    ),
    "rules: [{name: a, match: {workload: indexed-job, role: worker}}]": (
        "rule a is only for some Jobs, and the workload job now includes Indexed Jobs: match job"
    ),
    "rules: [{name: a, match: {workload: job, role: worker}}]": "rule a is only for some Jobs",
    "rules: [{name: a, match: {workload: '!indexed-job', role: worker}}]": "rule a is only for some Jobs",
    "workloads: [{name: indexed-job, updates: always}]": "workload indexed-job is now a part of job",
    "rules: [{name: a, match: {role: worker, named: true}, warn: w}]": (
        "rule a has the condition `named`, which this version does not have: remove it. A rule that"
    ),
    "rules: [{name: a, match: {named: false}, warn: $(job.name)}]": "rule a has the condition `named`",
    "candidates: []": "mine.yaml:4: candidates: 0.2.0 does not accept this value",
    "\nshapes:\n  - {name: four-node}\n  - {name: a, workers: 3}": (
        "mine.yaml:7: shapes[1]: nodeConfig is missing: add it"
    ),
    "\nworkloads:\n  - name: a\n    groups:\n      - {role: worker, template: /t, index: [labels/a]}": (
        "mine.yaml:8: workloads[0].groups[0].index[0]: 0.2.0 does not accept this value"
    ),
    "rules: [{name: a, match: worker}]": "rules[0].match: 0.2.0 does not accept this value",
    "rules: [{name: jobs-in-order, reason: r, match: {role: worker}, placer: affinity}]": (
        "rule jobs-in-order is a copy from 30-placement.yaml, whose rules are packaged now: remove the row"
    ),
    "rules: [{name: kueue-level-unset-preferred, mode: off}]": (
        "rules kueue-level-unset-required and kueue-level-unset-preferred are now one rule, "
        "kueue-level-unset-in-job: change both in the same way"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_table_that_cannot_be_converted_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(TableError) as refused:
        convert_table((SOURCE, OLD_VERSION + text))
    assert REFUSED[text] in str(refused.value)


def test_the_command_names_what_is_lost_and_what_does_not_load(tmp_path: Path) -> None:
    """Protects from a pipeline that replaces a table by one that does less, or that no webhook loads."""
    (file := tmp_path / "mine.yaml").write_text(
        OLD_VERSION
        + "rules:\n  - {name: no-such-row, mode: off}\n  - {name: kueue-level-unset-required, mode: off}\n"
        "  - {name: kueue-level-unset-preferred, mode: off}\n"
        "  - {name: mine, reason: r, match: {role: worker}, warn: w,\n"
        "     replaces: [unpaired, together-preferred]}\n"
    )
    done = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "note: rule no-such-row is removed: the packaged table does not have it",
        "note: rule kueue-level-unset-required is now a part of rule kueue-level-unset-in-job",
        "note: rule kueue-level-unset-preferred is now a part of rule kueue-level-unset-in-job",
        "note: replaces: unpaired of rule mine is removed: there is no rule unpaired",
        "note: rule together-preferred is off, because rule mine replaces it",
    ]
    file.write_text(
        OLD_VERSION + "rules: [{name: mine, reason: r, match: {role: worker, shape: {name: s}}, warn: w}]\n"
    )
    done = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert (done.exit_code, done.stdout) == (1, convert_table((SOURCE, file.read_text())))
    assert "the printed table:4: rules[0].match.shape: unreachable: no shape of the table" in done.stderr


def test_the_command_prints_a_table_that_loads_and_refuses_what_is_none_of_0_2_0(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OLD_VERSION + MINE, encoding="utf-8")
    done = CliRunner().invoke(main, ["rules", "lint", str(file)])
    assert "`ultraserver-webhook rules convert FILE` prints the table in the form" in done.output
    done = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert (done.exit_code, done.stdout) == (0, convert_table((SOURCE, OLD_VERSION + MINE)))
    file.write_text(done.stdout, encoding="utf-8")
    assert CliRunner().invoke(main, ["rules", "show", "--rules", str(file)]).exit_code == 0
    done = CliRunner().invoke(main, ["rules", "lint", str(file)])
    assert "families[0].shapes[1].nodeConfig: the init script of rule" in done.output
    done = CliRunner().invoke(main, ["rules", "convert", str(file)])
    assert done.exit_code == 2
    assert "this is not a table of release 0.2.0" in done.output

"""Tests of the reports of ``preview -o json`` and ``-o why``, which have the rule behind each change."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from werkzeug.test import Client

from common.tablefiles import packaged_texts
from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import unfold
from tests.plane.kinds.jobs import job
from tests.preview.schema import SCHEMA, assert_matches_schema
from webhook.app import create_app
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.preview import messages
from webhook.preview.views import preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource

INSTANCE_TYPE = "node.kubernetes.io~1instance-type"
OBJECTS: list[dict[str, Any]] = [
    mpijob(),
    mpijob(-1),
    mpijob(annotations={keys.INJECT: "false"}),
    mpijob(resource=None),
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}},
    {"apiVersion": "v1", "kind": "ConfigMap"},
    {"apiVersion": 7, "kind": "7", "metadata": {"name": 7}},
]
TABLE = """\
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
rules:
  - name: job-label
    mode: off
  - name: ours
    reason: Ours.
    match: {role: worker}
    onConflict: override
    add: {spec: {hostname: h}}
  - {name: ultraserver-nodes, onConflict: override}
  - {name: together-required, add: {spec: {subdomain: s}}}
"""


def run_preview(output_format: str, *objects: Any, options: tuple[str, ...] = ()) -> str:
    text = "---\n".join(map(dump_yaml, objects))
    return CliRunner().invoke(main, ["preview", "-o", output_format, *options], input=text).stdout


def preview_items(*objects: Any, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(run_preview("json", *objects, options=options))["items"]
    return document


@pytest.fixture
def table_options(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "ours.yaml").write_text(TABLE)
    return "--rules", str(tmp_path / "ours.yaml")


@pytest.mark.parametrize("options", [(), ("--all-rules",)])
def test_the_output_matches_the_published_schema(options: tuple[str, ...]) -> None:
    """The objects have every kind of outcome. The schema allows no unknown keys, so it has every key."""
    for schema in SCHEMA["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(run_preview("json", *OBJECTS, options=options))
    assert_matches_schema(document)
    outcomes = ["changed", "refused", "opted-out", "no-candidate", "unchanged", "no-workload", "no-workload"]
    assert [item["outcome"] for item in document["items"]] == outcomes


def test_json_has_separate_keys_for_kind_namespace_and_name_and_has_numbers() -> None:
    """Protects programs from parsing titles and numbers out of texts."""
    (item,) = preview_items(mpijob())
    assert item["object"] == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "namespace": "default",
        "name": "train",
        "generateName": "",
    }
    assert item["job"] == {
        "id": "default.train",
        "shape": "four-node",
        "workers": 4,
        "nodes": 4,
        "nodeConfig": 4,
        "devices": "requested",
        "placer": "whole-job",
    }


def test_a_rule_has_its_file_and_line(table_options: tuple[str, str]) -> None:
    """A change has the line of the row with `add`, and a disabled rule the line of the row with `mode`."""
    (item,) = preview_items(mpijob(worker_spec={"hostname": "mine"}), options=table_options)
    changes = {change["path"].rpartition("/")[2]: change for change in item["changes"]}
    assert changes["hostname"] == {
        "path": "/spec/mpiReplicaSpecs/Worker/template/spec/hostname",
        "before": "mine",
        "after": "h",
        "rule": {"name": "ours", "source": {"file": table_options[1], "line": 7}},
    }
    lines = packaged_texts()["rules"].decode().splitlines()
    source = changes[INSTANCE_TYPE]["rule"]["source"]
    assert (source["file"], lines[source["line"] - 1].strip()) == (
        "packaged rules",
        "- name: ultraserver-nodes",
    )
    assert changes["subdomain"]["rule"]["source"] == {"file": table_options[1], "line": 13}
    (label,) = [rule for rule in item["rules"] if rule["name"] == "job-label"]
    assert label["source"] == {"file": table_options[1], "line": 5}


def test_the_text_has_skipped_rules_only_with_all_rules() -> None:
    """Protects readers: forty lines about skipped rules would hide the rules that fired."""
    text, text_with_all_rules = (
        run_preview("why", mpijob(), options=options) for options in ((), ("--all-rules",))
    )
    assert "\n  fired    " in text
    assert "\n  devices  requested\n  placer   whole-job\n" in text
    assert f"\n  rules    {messages.RULE_ORDER}\n" in text
    assert ("\n  skipped  " in text, "\n  skipped  " in text_with_all_rules) == (False, True)


def test_json_has_rules_for_candidates_only_for_candidates_unless_all_rules_are_requested() -> None:
    """The report on a job that is not a candidate has no rules for candidates."""
    no_candidate, config_map = mpijob(resource=None), {"apiVersion": "v1", "kind": "ConfigMap"}
    match = {rule.name: rule.match for rule in load_installed().rules}
    names = [rule["name"] for rule in preview_items(no_candidate)[0]["rules"]]
    assert names == [name for name in names if match[name].candidate is not True]
    for item in preview_items(no_candidate, config_map, options=("--all-rules",)):
        assert [rule["name"] for rule in item["rules"]] == list(match)
        assert all(rule["why"] for rule in item["rules"])
    (item,) = preview_items(mpijob(), options=("--all-rules",))
    why = {rule["name"]: rule["why"] for rule in item["rules"]}
    assert why["blocks-whole"] == messages.other_role("pod, ", "pod", "mpijob")
    assert why["own-hostfile-mounts"] == messages.other_role("", "pod", "mpijob")
    assert why["time-limit-unknown"] == messages.other_fault("timeLimit")


def test_the_text_has_the_rule_of_each_change_and_the_failed_condition_of_each_skipped_rule(
    table_options: tuple[str, str],
) -> None:
    """The text has the outcome, the position of each rule with its fields, and why a rule is skipped."""
    text = run_preview(
        "why", mpijob(worker_spec={"hostname": "mine"}), mpijob(-1), options=(*table_options, "--all-rules")
    )
    placed, refused, totals = text.split("\n\n")
    assert placed.startswith(
        "<stdin>:1: MPIJob default/train\n"
        "  not placed: its workers ask for aws.amazon.com/neuron, but no rule of the table"
    )
    assert totals == "0 placed, 1 not placed, 1 refused\n"
    # A JSON pointer is not folded, so that it can be copied.
    assert [line for line in text.splitlines() if len(line) > 100 and " " in line.strip()] == []
    pointer = "/spec/mpiReplicaSpecs/Worker/template/spec/hostname"
    placed = unfold(placed)
    conflict = 'replaced your value: spec.mpiReplicaSpecs.Worker.template.spec.hostname is "mine", not "h"'
    assert f'  fired    ours ({table_options[1]}:7): Ours. {conflict} {pointer}: "h", was "mine"\n' in placed
    assert f"  skipped  job-label ({table_options[1]}:5): switched off\n" in placed
    assert "shape four-node has together required, not preferred\n" in placed
    assert f"  no rule  {messages.NO_RULE} " in placed
    assert "MPIJob default/train\n  refused: " in refused
    assert "\n  reason   invalid job\n  refused  " in refused


WORDS = {"warnings": "warning", "denials": "refused", "hints": "hint", "notes": "note"}


@pytest.mark.parametrize(
    ("workers", "size"), [(1, "1 worker, 1 node, node config 1"), (4, "4 workers, 4 nodes, node config 4")]
)
def test_the_numbers_of_workers_and_nodes_have_a_singular(workers: int, size: str) -> None:
    assert f"({size})" in run_preview("why", mpijob(workers))


@pytest.mark.parametrize("output_format", ["diff", "why", "github", "junit", "page"])
def test_every_output_has_every_message_with_the_same_prefix(output_format: str) -> None:
    """Protects users from warnings that are missing in some outputs."""
    indexed_job = job(4, completionMode="Indexed")
    indexed_job["metadata"]["labels"] = {"run": 5}
    indexed_job["spec"]["paralelism"] = indexed_job["spec"].pop("parallelism")
    text = "---\n".join(map(dump_yaml, [indexed_job, mpijob(-1)]))
    reports = json.loads(CliRunner().invoke(main, ["preview", "-o", "json"], input=text).stdout)["items"]
    assert {key for key in WORDS for item in reports if item[key]} == {*WORDS}
    if output_format == "page":
        source = TableSource(placement=True)
        answer = Client(create_app(preview_blueprint(source))).post("/", data={"object": text})
        output = answer.get_data(as_text=True).partition("<form")[0]
    else:
        output = CliRunner().invoke(main, ["preview", "-o", output_format], input=text).output
    output = " ".join(unescape(output).split())
    prefixes = {"junit": "{word}: ", "diff": "{word} ", "why": "{word} "}
    for item in reports:
        for key, word in WORDS.items():
            prefix = (
                "refused: "
                if (output_format, key) == ("diff", "denials")
                else prefixes.get(output_format, "")
            )
            assert all(f"{prefix.format(word=word)}{message}" in output for message in item[key])

"""``-o json`` and ``-o why``: who decided, for tools and for people."""

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
from tests.helpers import unfolded
from tests.plane.kinds.jobs import job
from tests.preview.schema import SCHEMA, assert_as_published
from webhook.app import create_app
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.preview.views import preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource

NAME = "node.kubernetes.io~1instance-type"
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


def shown(form: str, *objects: Any, options: tuple[str, ...] = ()) -> str:
    text = "---\n".join(map(dump_yaml, objects))
    return CliRunner().invoke(main, ["preview", "-o", form, *options], input=text).stdout


def items(*objects: Any, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(shown("json", *objects, options=options))["items"]
    return document


@pytest.fixture
def ours(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "ours.yaml").write_text(TABLE)
    return "--rules", str(tmp_path / "ours.yaml")


@pytest.mark.parametrize("options", [(), ("--all-rules",)])
def test_the_output_conforms_to_the_published_schema(options: tuple[str, ...]) -> None:
    """Every outcome validates; the schema has every key, because it allows no other."""
    for schema in SCHEMA["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(shown("json", *OBJECTS, options=options))
    assert_as_published(document)
    kinds = ["changed", "refused", "opted-out", "no-candidate", "unchanged", "no-workload", "no-workload"]
    assert [item["outcome"] for item in document["items"]] == kinds


def test_json_separates_kind_namespace_and_name_and_has_numbers() -> None:
    """No one has to take a title apart, or read a number out of a text."""
    (item,) = items(mpijob())
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


def test_a_rule_is_shown_with_its_file_and_line(ours: tuple[str, str]) -> None:
    """A field by where what is added is written, a rule that is off by where it is switched off."""
    (item,) = items(mpijob(worker_spec={"hostname": "mine"}), options=ours)
    changes = {change["path"].rpartition("/")[2]: change for change in item["changes"]}
    assert changes["hostname"] == {
        "path": "/spec/mpiReplicaSpecs/Worker/template/spec/hostname",
        "before": "mine",
        "after": "h",
        "rule": {"name": "ours", "source": {"file": ours[1], "line": 7}},
    }
    lines = packaged_texts()["rules"].decode().splitlines()
    source = changes[NAME]["rule"]["source"]
    assert (source["file"], lines[source["line"] - 1].strip()) == (
        "packaged rules",
        "- name: ultraserver-nodes",
    )
    assert changes["subdomain"]["rule"]["source"] == {"file": ours[1], "line": 13}
    (label,) = [rule for rule in item["rules"] if rule["name"] == "job-label"]
    assert label["source"] == {"file": ours[1], "line": 5}


def test_people_read_of_skipped_rules_only_if_they_ask() -> None:
    """Protects the rules that fired from forty lines on those that did not."""
    plain, every = (shown("why", mpijob(), options=options) for options in ((), ("--all-rules",)))
    assert "\n  fired    " in plain
    # The stages of the table, in their order.
    assert "\n  devices  requested\n  placer   whole-job\n  rules    applied in the order below\n" in plain
    assert ("\n  skipped  " in plain, "\n  skipped  " in every) == (False, True)


def test_only_rules_for_the_kind_are_shown_unless_all_are_requested() -> None:
    """A job that is not a candidate has no list of all that would be done to candidates."""
    plain, other = mpijob(resource=None), {"apiVersion": "v1", "kind": "ConfigMap"}
    match = {rule.name: rule.match for rule in load_installed().rules}
    few = [rule["name"] for rule in items(plain)[0]["rules"]]
    assert few == [name for name in few if match[name].candidate is not True]
    for item in items(plain, other, options=("--all-rules",)):
        assert [rule["name"] for rule in item["rules"]] == list(match)
        assert all(rule["why"] for rule in item["rules"])


def test_people_read_who_set_what_and_which_condition_failed(ours: tuple[str, str]) -> None:
    """The text has the outcome, a rule's place above the fields that it set, and why others are skipped."""
    text = shown("why", mpijob(worker_spec={"hostname": "mine"}), mpijob(-1), options=(*ours, "--all-rules"))
    placed, refused, totals = text.split("\n\n")
    assert placed.startswith(
        "<stdin>:1: MPIJob default/train\n"
        "  not placed: its workers ask for aws.amazon.com/neuron, but no rule of the table"
    )
    assert totals == "0 placed, 1 not placed, 1 refused\n"
    # A pointer stays in one piece, to be copied.
    assert [line for line in text.splitlines() if len(line) > 100 and " " in line.strip()] == []
    at = "/spec/mpiReplicaSpecs/Worker/template/spec/hostname"
    placed = unfolded(placed)
    before = 'replaced your value: spec.mpiReplicaSpecs.Worker.template.spec.hostname is "mine", not "h"'
    assert f'  fired    ours ({ours[1]}:7): Ours. {before} {at}: "h", was "mine"\n' in placed
    assert f"  skipped  job-label ({ours[1]}:5): switched off\n" in placed
    assert "shape four-node has together required, not preferred\n" in placed
    assert "  no rule  these fields belong to no rule: the record, a launcher's init" in placed
    assert "MPIJob default/train\n  refused: " in refused
    assert "\n  reason   invalid job\n  refused  " in refused


WORDS = {"warnings": "warning", "denials": "refused", "hints": "hint", "notes": "note"}


@pytest.mark.parametrize(
    ("workers", "size"), [(1, "1 worker, 1 node, node config 1"), (4, "4 workers, 4 nodes, node config 4")]
)
def test_one_worker_and_one_node_are_singular(workers: int, size: str) -> None:
    assert f"({size})" in shown("why", mpijob(workers))


@pytest.mark.parametrize("form", ["diff", "why", "github", "junit", "page"])
def test_every_output_has_every_message_behind_the_same_word(form: str) -> None:
    """Protects people from a warning that one output has and another one has not."""
    other = job(4, completionMode="Indexed")
    other["metadata"]["labels"] = {"run": 5}
    other["spec"]["paralelism"] = other["spec"].pop("parallelism")
    text = "---\n".join(map(dump_yaml, [other, mpijob(-1)]))
    reports = json.loads(CliRunner().invoke(main, ["preview", "-o", "json"], input=text).stdout)["items"]
    assert {key for key in WORDS for item in reports if item[key]} == {*WORDS}
    if form == "page":
        source = TableSource(placement=True)
        answer = Client(create_app(preview_blueprint(source))).post("/", data={"object": text})
        expected = answer.get_data(as_text=True).partition("<form")[0]
    else:
        expected = CliRunner().invoke(main, ["preview", "-o", form], input=text).output
    expected = " ".join(unescape(expected).split())
    signs = {"junit": "{word}: ", "diff": "{word} ", "why": "{word} "}
    for item in reports:
        for key, word in WORDS.items():
            sign = (
                "refused: " if (form, key) == ("diff", "denials") else signs.get(form, "").format(word=word)
            )
            assert all(f"{sign}{message}" in expected for message in item[key])

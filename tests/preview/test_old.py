"""Tests of ``preview --old``, which previews the update of a stored object."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.mpijob import mpijob
from tests.helpers import unfold
from tests.rules.tables import EXTENDS, mutate
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine.messages import message
from webhook.objects.tree import Json, put
from webhook.rules.load import load_installed


def suspended_job(workers: int = 4, name: str = "train") -> Json:
    return put(mpijob(workers, name=name), ("spec", "runPolicy"), {"suspend": True})


STORED = mutate(load_installed(), suspended_job())


def run(folder: Path, *objects: Json, old: list[Json], options: tuple[str, ...] = ()) -> Result:
    (path := folder / "old.yaml").write_text("---\n".join(map(dump_yaml, old)))
    text = "---\n".join(map(dump_yaml, objects))
    return CliRunner().invoke(
        main, ["preview", "--old", str(path), *options], input=text, catch_exceptions=False
    )


def only_item(result: Result) -> dict[str, Any]:
    (document,) = json.loads(result.stdout)["items"]
    return dict(document)


def test_an_update_gets_removed_additions_back_and_a_resized_job_has_its_new_pods(tmp_path: Path) -> None:
    """The file of --old has other objects, too: kind, namespace and name select the stored object."""
    other_objects = [
        suspended_job(2, "other"),
        put(STORED, ("metadata", "namespace"), "ml"),
        {**STORED, "kind": "Job"},
    ]
    result = run(tmp_path, suspended_job(), old=[*other_objects, STORED], options=("-o", "json"))
    item = only_item(result)
    assert (item["operation"], item["outcome"], result.exit_code) == ("UPDATE", "changed", 1)
    assert item["reason"] == "put back what the update removed"
    result = run(tmp_path, suspended_job(8), old=[STORED], options=("--pods",))
    assert message("launcher-kept", "train-launcher") in unfold(result.stderr)
    assert "  Pod      worker 0-7 of 8: as in the job's template" in result.stderr


UNCHANGED_UPDATES: dict[str, tuple[Json, Json, str]] = {
    "running": (
        put(STORED, ("spec", "runPolicy"), {}) | {"status": {"startTime": "x"}},
        mpijob(),
        "pods were already created",
    ),
    "without additions": (suspended_job(), suspended_job(), "nothing was added to the stored object"),
    "a condition whose type is a list": (
        suspended_job() | {"status": {"conditions": [{"type": [], "status": "True"}]}},
        suspended_job(),
        "nothing was added to the stored object",
    ),
    "opted out": (
        STORED,
        put(suspended_job(), ("metadata", "annotations"), {"ultraserver-webhook.io/inject": "false"}),
        "opted out by ultraserver-webhook.io/inject",
    ),
    "being deleted": (
        STORED,
        put(suspended_job(), ("metadata", "deletionTimestamp"), "x"),
        "it is being deleted",
    ),
    "an invalid number of workers": (
        STORED,
        suspended_job(-1),
        "it is admitted unchanged: the number of workers must be a whole number",
    ),
    "no workload": (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
        "no workload of the rule table matches kind v1/Secret",
    ),
    "a Pod": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        "the rule table has no `updates` for a pod",
    ),
}


@pytest.mark.parametrize("case", UNCHANGED_UPDATES)
def test_an_update_that_the_webhook_does_not_change_has_a_reason(tmp_path: Path, case: str) -> None:
    """Covers the conditions of ADR 0021 under which the webhook does not change an update."""
    stored, sent, why = UNCHANGED_UPDATES[case]
    output = only_item(run(tmp_path, sent, old=[stored], options=("-o", "json")))
    assert (output["outcome"], output["patch"]) == ("unchanged", [])
    assert why in output["reason"]


def test_a_table_in_shadow_mode_changes_no_update_and_reports_this(tmp_path: Path) -> None:
    (table := tmp_path / "t.yaml").write_text(f"{EXTENDS}mode: shadow\n")
    result = run(tmp_path, suspended_job(), old=[STORED], options=("--rules", str(table)))
    assert (
        result.exit_code,
        "updates are admitted unchanged: the rule table is not enforced" in result.stdout,
    ) == (0, True)


@pytest.mark.parametrize(
    ("old", "options", "text"),
    [
        ([suspended_job(4, "other")], (), "but --old does not have this object: preview it without --old"),
        ([STORED, STORED], (), "--old has it at {old}:1, {old}:"),
        ([STORED], ("--must-place",), "--must-place is for new objects"),
    ],
    ids=["no stored object", "two stored objects", "--must-place"],
)
def test_an_update_that_cannot_be_previewed_is_an_error(
    tmp_path: Path, old: list[Json], options: tuple[str, ...], text: str
) -> None:
    """The message has the position of the document and of the stored objects, unless an option is wrong."""
    result = run(tmp_path, suspended_job(), old=old, options=options)
    assert result.exit_code == 2
    assert text.format(old=tmp_path / "old.yaml") in unfold(result.stderr)
    if not options:
        assert "<stdin>:1:1: it would update kubeflow.org/v2beta1/MPIJob default/train, but" in unfold(
            result.stderr
        )

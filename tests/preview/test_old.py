"""``preview --old``: an update of what is stored, as the cluster does it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.mpijob import mpijob
from tests.helpers import unfolded
from tests.rules.tables import EXTENDS, after
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine.messages import message
from webhook.objects.tree import Json, put
from webhook.rules.load import load_installed


def suspended(workers: int = 4, name: str = "train") -> Json:
    return put(mpijob(workers, name=name), ("spec", "runPolicy"), {"suspend": True})


STORED = after(load_installed(), suspended())


def run(folder: Path, *objects: Json, old: list[Json], words: tuple[str, ...] = ()) -> Result:
    (path := folder / "old.yaml").write_text("---\n".join(map(dump_yaml, old)))
    text = "---\n".join(map(dump_yaml, objects))
    return CliRunner().invoke(
        main, ["preview", "--old", str(path), *words], input=text, catch_exceptions=False
    )


def item(result: Result) -> dict[str, Any]:
    (document,) = json.loads(result.stdout)["items"]
    return dict(document)


def test_what_a_file_takes_out_is_put_back_and_a_new_size_gets_its_own(tmp_path: Path) -> None:
    """The stored object is found among others by its kind, namespace and name."""
    others = [suspended(2, "other"), put(STORED, ("metadata", "namespace"), "ml"), {**STORED, "kind": "Job"}]
    result = run(tmp_path, suspended(), old=[*others, STORED], words=("-o", "json"))
    actual = item(result)
    assert (actual["operation"], actual["outcome"], result.exit_code) == ("UPDATE", "changed", 1)
    assert actual["reason"] == "put back what the update removed"
    resized = run(tmp_path, suspended(8), old=[STORED], words=("--pods",))
    assert message("launcher-kept", "train-launcher") in unfolded(resized.stderr)
    assert "  Pod      worker 0-7 of 8: unchanged" in resized.stderr


LEFT: dict[str, tuple[Json, Json, str]] = {
    "running": (
        put(STORED, ("spec", "runPolicy"), {}) | {"status": {"startTime": "x"}},
        mpijob(),
        "pods were already created",
    ),
    "not added to": (suspended(), suspended(), "nothing was added to the stored object"),
    "a condition of no type": (
        suspended() | {"status": {"conditions": [{"type": [], "status": "True"}]}},
        suspended(),
        "nothing was added to the stored object",
    ),
    "opted out": (
        STORED,
        put(suspended(), ("metadata", "annotations"), {"ultraserver-webhook.io/inject": "false"}),
        "opted out by ultraserver-webhook.io/inject",
    ),
    "deleted": (STORED, put(suspended(), ("metadata", "deletionTimestamp"), "x"), "it is being deleted"),
    "unreadable": (
        STORED,
        suspended(-1),
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


@pytest.mark.parametrize("what", LEFT)
def test_an_update_that_is_left_alone_has_a_reason(tmp_path: Path, what: str) -> None:
    """Each of the conditions of ADR 0021, in words."""
    stored, sent, why = LEFT[what]
    output = item(run(tmp_path, sent, old=[stored], words=("-o", "json")))
    assert (output["outcome"], output["patch"]) == ("unchanged", [])
    assert why in output["reason"]


def test_a_table_in_shadow_changes_no_update_and_reports_it(tmp_path: Path) -> None:
    """With anything that it would put back."""
    (table := tmp_path / "t.yaml").write_text(f"{EXTENDS}mode: shadow\n")
    result = run(tmp_path, suspended(), old=[STORED], words=("--rules", str(table)))
    assert (
        result.exit_code,
        "updates are admitted unchanged: the rule table is not enforced" in result.stdout,
    ) == (0, True)


@pytest.mark.parametrize(
    ("old", "words", "text"),
    [
        ([suspended(4, "other")], (), "but --old does not have it: leave out --old for it"),
        ([STORED, STORED], (), "--old has it at {old}:1, {old}:"),
        ([STORED], ("--must-place",), "--must-place is for new objects"),
    ],
    ids=["none", "several", "--must-place"],
)
def test_what_cannot_be_an_update_is_an_error(
    tmp_path: Path, old: list[Json], words: tuple[str, ...], text: str
) -> None:
    """With the place of the document, and of what is stored."""
    result = run(tmp_path, suspended(), old=old, words=words)
    assert result.exit_code == 2
    assert text.format(old=tmp_path / "old.yaml") in unfolded(result.stderr)
    if not words:
        assert "<stdin>:1:1: it would update kubeflow.org/v2beta1/MPIJob default/train, but" in unfolded(
            result.stderr
        )

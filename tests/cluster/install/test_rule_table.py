"""The table in its ConfigMap: reloaded while running, refused when broken, switched off as a whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs import template
from tests.cluster.realnodes.replicas import TABLE, put_table, values
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.install.installation import Installation

OPERATIONS = "docs/operations.md"


@pytest.fixture
def own_table(installed: Installation) -> Iterator[Installation]:
    """An installation whose table is changed, and changed back."""
    containers, tables = running(installed), said(installed, "table_info")
    yield installed
    installed.run(OPERATIONS, "Switch the table on again")
    # While replicas have different tables, one warns of what another has done.
    until(lambda: said(installed, "table_info") == tables)
    until(installed.places)
    assert containers <= running(installed), "a change of the table started a process anew"


def running(installed: Installation) -> set[str]:
    """The serving containers; one that is started again has another name."""
    return {pod["status"]["containerStatuses"][0]["containerID"] for pod in installed.pods()}


def said(installed: Installation, metric: str) -> set[str]:
    """The lines of a metric of the serving pods."""
    name = f"ultraserver_webhook_{metric}"
    return {f"{name}{value}" for value in values(installed.own, installed.pods(), name)}


def tolerations(installed: Installation) -> object:
    shown = installed.team.create(mpijob(4), "--dry-run=server")
    return template(shown, "Worker")["spec"].get("tolerations")


def test_a_table_that_is_changed_and_applied_is_in_use_without_a_restart(own_table: Installation) -> None:
    file = own_table.folder / "manifests" / "base" / "rules.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(TABLE, encoding="utf-8")
    try:
        assert "rules, revision" in own_table.run(OPERATIONS, "The rule table")
        # Every replica, one after the other.
        until(lambda: all(tolerations(own_table) for _ in range(4)))
        assert said(own_table, "table_stale") == {"ultraserver_webhook_table_stale 0.0"}
    finally:
        file.write_text(before, encoding="utf-8")


def test_a_broken_table_is_refused_with_what_lint_says(own_table: Installation) -> None:
    refused = put_table(own_table.own, TABLE.replace("reason:", "reasn:").replace("worker", "workr"))
    assert 'admission webhook "rule-table.ultraserver-webhook.io" denied the request' in refused
    assert "rules.yaml:6: /rules/0" in refused
    assert "unknown key 'reasn'; did you mean 'reason'?" in refused
    assert own_table.places()


def test_the_kill_switch_works_without_a_restart(own_table: Installation) -> None:
    own_table.run(OPERATIONS, "The kill switch")
    until(lambda: [own_table.dry_run() for _ in range(4)] == [(False, "")] * 4)


def test_a_broken_table_that_slipped_through_is_not_taken_up_and_is_told(own_table: Installation) -> None:
    hooks = own_table.kubectl.get_json("validatingwebhookconfiguration", "ultraserver-webhook")["webhooks"]
    index = [hook["name"] for hook in hooks].index("rule-table.ultraserver-webhook.io")
    removal = json.dumps([{"op": "remove", "path": f"/webhooks/{index}"}])
    own_table.kubectl.run(
        *("patch", "validatingwebhookconfiguration", "ultraserver-webhook", "--type=json", "-p", removal)
    )
    until(lambda: put_table(own_table.own, TABLE.replace("reason:", "reasn:")) == "")
    until(lambda: said(own_table, "table_stale") == {"ultraserver_webhook_table_stale 1.0"})
    assert own_table.places()
    assert len(own_table.pods()) == 2

"""Tests of the rule table in its ConfigMap: reloaded without a restart, refused if broken, switched off."""

from collections.abc import Iterator

import pytest

from testbed.plane.jobs import template
from testbed.plane.load import steady_load
from testbed.waiting import until
from tests.nodes.install.installation import OPERATIONS, TEAM, Installation
from tests.nodes.replicas import CONFIG, REPLICAS, SERVING, TABLE, metric_samples, put_table, ready, restarts

BROKEN = TABLE.replace("reason:", "reasn:").replace("worker", "workr")


@pytest.fixture
def own_table(installed: Installation) -> Iterator[Installation]:
    """An installation whose rule table a test changes. The table is restored after the test."""
    # A replica that a rollout ends still answers on kept connections, and no longer gets a changed ConfigMap.
    installed.own.wait_for(lambda serving: [*map(ready, serving["items"])] == [True] * REPLICAS, *SERVING)
    containers, table = restarts(installed.pods()), samples(installed, "table_info")
    yield installed
    installed.run(OPERATIONS, "Switch the table on again")
    installed.reset()
    # While replicas have different tables, a replica warns of changes that another replica made.
    until(lambda: samples(installed, "table_info") == table, "the installed table in every replica")
    installed.wait_until_jobs_are_placed()
    assert restarts(installed.pods()) == containers, "a change of the table restarted a container"


def samples(installed: Installation, metric: str) -> set[str]:
    """Returns the samples of a metric in all serving Pods."""
    return metric_samples(installed.own, installed.pods(), metric)


def wait_changed(installed: Installation, before: set[str]) -> None:
    """Waits until all replicas have the same table, which differs from the earlier table."""

    def changed() -> bool:
        now = samples(installed, "table_info")
        return len(now) == 1 and now != before

    until(changed, "another table in every replica")


def test_a_changed_table_is_used_without_a_restart_and_a_broken_table_is_refused_or_not_used(
    own_table: Installation,
) -> None:
    table = samples(own_table, "table_info")
    with steady_load(own_table.control_plane.kubeconfig, TEAM) as load:
        (own_table.folder / "rules.yaml").write_text(TABLE, encoding="utf-8")
        assert "rules, revision" in own_table.run(OPERATIONS, "The rule table")
        wait_changed(own_table, table)
        created, warnings = own_table.create()
        (toleration,) = template(created, "Worker")["spec"]["tolerations"]
        assert (toleration["key"], warnings) == ("example.com/ultraserver", "")

        message = put_table(own_table.own, BROKEN)
        assert 'admission webhook "rule-table.ultraserver-webhook.io" denied the request' in message
        assert "rules.yaml:6: rules[0]" in message
        assert "unknown key 'reasn'; did you mean 'reason'?" in message

        # The webhook checks only ConfigMaps with this label.
        own_table.own.run("label", *CONFIG, "ultraserver-webhook.io/rules-")
        assert put_table(own_table.own, BROKEN) == ""
        until(lambda: samples(own_table, "table_stale") == {" 1.0"}, "every replica to report a stale table")
        assert own_table.create()[0]["spec"] == created["spec"]
        assert len(own_table.pods()) == 2
    assert load.lost_creates == []


def test_the_kill_switch_works_without_a_restart(own_table: Installation) -> None:
    table = samples(own_table, "table_info")
    own_table.run(OPERATIONS, "The kill switch")
    wait_changed(own_table, table)
    assert own_table.dry_run() == (False, "")

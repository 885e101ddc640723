"""The table in its ConfigMap: reloaded while running, refused or not taken up when broken, switched off."""

from collections.abc import Iterator

import pytest

from testbed.plane.jobs import template
from testbed.plane.load import jobs_keep_coming
from testbed.waiting import until
from tests.nodes.install.installation import OPERATIONS, TEAM, Installation
from tests.nodes.replicas import CONFIG, REPLICAS, SERVING, TABLE, put_table, ready, restarts, values

BROKEN = TABLE.replace("reason:", "reasn:").replace("worker", "workr")


@pytest.fixture
def own_table(installed: Installation) -> Iterator[Installation]:
    """An installation whose table is changed, and changed back."""
    # A replica that a rollout ends still answers on kept connections, and no longer gets a changed ConfigMap.
    installed.own.wait_for(lambda serving: [*map(ready, serving["items"])] == [True] * REPLICAS, *SERVING)
    containers, table = restarts(installed.pods()), samples(installed, "table_info")
    yield installed
    installed.run(OPERATIONS, "Switch the table on again")
    installed.reset()
    # While replicas have different tables, one warns of what another has done.
    until(lambda: samples(installed, "table_info") == table, "the installed table in every replica")
    installed.wait_places()
    assert restarts(installed.pods()) == containers, "a change of the table started a process again"


def samples(installed: Installation, metric: str) -> set[str]:
    """Returns the samples of a metric in all serving Pods."""
    return values(installed.own, installed.pods(), metric)


def wait_changed(installed: Installation, before: set[str]) -> None:
    """Waits until every replica has one table, and not the one before."""

    def changed() -> bool:
        now = samples(installed, "table_info")
        return len(now) == 1 and now != before

    until(changed, "another table in every replica")


def test_a_changed_table_is_used_without_a_restart_and_a_broken_one_refused_or_not_taken_up(
    own_table: Installation,
) -> None:
    table = samples(own_table, "table_info")
    with jobs_keep_coming(own_table.control_plane.kubeconfig, TEAM) as load:
        (own_table.folder / "rules.yaml").write_text(TABLE, encoding="utf-8")
        assert "rules, revision" in own_table.run(OPERATIONS, "The rule table")
        wait_changed(own_table, table)
        made, warned = own_table.create()
        (toleration,) = template(made, "Worker")["spec"]["tolerations"]
        assert (toleration["key"], warned) == ("example.com/ultraserver", "")

        refused = put_table(own_table.own, BROKEN)
        assert 'admission webhook "rule-table.ultraserver-webhook.io" denied the request' in refused
        assert "rules.yaml:6: rules[0]" in refused
        assert "unknown key 'reasn'; did you mean 'reason'?" in refused

        # The check finds a table by this label.
        own_table.own.run("label", *CONFIG, "ultraserver-webhook.io/rules-")
        assert put_table(own_table.own, BROKEN) == ""
        until(lambda: samples(own_table, "table_stale") == {" 1.0"}, "replicas that say their table is stale")
        assert own_table.create()[0]["spec"] == made["spec"]
        assert len(own_table.pods()) == 2
    assert load.lost == []


def test_the_kill_switch_works_without_a_restart(own_table: Installation) -> None:
    table = samples(own_table, "table_info")
    own_table.run(OPERATIONS, "The kill switch")
    wait_changed(own_table, table)
    assert own_table.dry_run() == (False, "")

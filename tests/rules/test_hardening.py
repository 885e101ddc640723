"""The rows that go beyond the document: each goes by a line of YAML. What they add is in test_placed.py."""

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.tables import DOCUMENTED, after, extended, outcome
from webhook.objects.tree import get
from webhook.rules.load import load_default

DEFAULT = load_default()
HARDENING = [
    rule.name
    for rule in DEFAULT.rules
    if rule.name not in DOCUMENTED and rule.name in outcome(DEFAULT, mpijob(4)).fired()
]
IMAGE = "values: {initImage: registry.example/init:1}\n"


@pytest.mark.parametrize("name", HARDENING)
def test_a_hardening_row_is_switched_off_by_its_name_and_nothing_else_goes(name: str) -> None:
    (row,) = [rule for rule in DEFAULT.rules if rule.name == name]
    by_default = set(outcome(DEFAULT, mpijob(4)).fired())
    off = outcome(extended(IMAGE + f"rules: [{{name: {name}, mode: off}}]"), mpijob(4))
    # What needs it goes with it, and what these replace comes back where no other row takes its place.
    gone = [row, *(rule for rule in DEFAULT.rules if rule.needs == (name,))]
    back = {replaced for rule in gone for replaced in rule.replaces} & set(DOCUMENTED)
    back |= {"init-mounts-both-paths"} if "ultraserver-init" in back else set()
    assert set(off.fired()) == (by_default - {rule.name for rule in gone}) | back
    assert [rule.why for rule in off.rules if rule.name == name] == ["switched off"]


@pytest.mark.parametrize("off", ["", "wait-for-all-workers", "init-in-job-image"])
def test_the_launcher_waits_before_it_checks_whichever_row_adds_the_container(off: str) -> None:
    table = extended(IMAGE + f"rules: [{{name: {off}, mode: off}}]" if off else "")
    containers = get(after(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["wait-hostfilename", "ultraserver-init-container"]


def test_init_containers_may_do_and_ask_for_what_the_launchers_own_container_does() -> None:
    own = {"securityContext": {"runAsUser": 7}, "resources": {"requests": {"cpu": "1"}}}
    job = mpijob()
    get(job, (*LAUNCHER, "spec"))["containers"][0] |= own
    for item in get(after(DEFAULT, job), (*LAUNCHER, "spec", "initContainers")):
        assert {key: item[key] for key in own} == own


@pytest.mark.parametrize("spelling", ["off", '"off"', "false", "Off"])
def test_off_means_off_however_yaml_reads_it(spelling: str) -> None:
    table = extended(f"rules: [{{name: nodes-with-server-id, mode: {spelling}}}]")
    assert "nodes-with-server-id" not in outcome(table, mpijob(4)).fired()


def test_a_job_without_a_name_is_told_apart_and_kept_together_by_the_webhooks_own_label() -> None:
    for workers, rows in (
        (4, ["apart-across-namespaces", "together-required"]),
        (16, ["apart-across-namespaces", "together-preferred"]),
    ):
        found = outcome(DEFAULT, mpijob(workers, generate_name="gen-"))
        assert set(rows) <= set(found.fired())
        assert "training.kubeflow.org/job-name" not in str(found.after)
        label = get(found.after, (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job"))
        assert label.startswith(("default.gen-_", "default.gen_"))

"""Each row goes by a line of YAML. Their cases have what they add."""

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.tables import after, extended, outcome
from webhook.objects.tree import get
from webhook.rules.load import load_default

DEFAULT = load_default()
FIRED = outcome(DEFAULT, mpijob(4)).fired()


@pytest.mark.parametrize("name", FIRED)
def test_a_rule_is_switched_off_by_its_name_and_nothing_else_goes_but_what_needs_it(name: str) -> None:
    off = outcome(extended(f"rules: [{{name: {name}, mode: off}}]"), mpijob(4))
    gone = {name, *(rule.name for rule in DEFAULT.rules if rule.needs == (name,))}
    assert set(off.fired()) == set(FIRED) - gone
    assert [rule.why for rule in off.rules if rule.name == name] == ["switched off"]


def test_the_launcher_waits_before_it_checks() -> None:
    containers = get(after(DEFAULT, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["wait-hostfilename", "ultraserver-init-container"]


def test_init_containers_may_do_and_ask_for_what_the_launchers_own_container_does() -> None:
    own = {"securityContext": {"runAsUser": 7}, "resources": {"requests": {"cpu": "1"}}}
    job = mpijob()
    get(job, (*LAUNCHER, "spec"))["containers"][0] |= own
    for item in get(after(DEFAULT, job), (*LAUNCHER, "spec", "initContainers")):
        assert {key: item[key] for key in own} == own


@pytest.mark.parametrize("spelling", ["off", '"off"', "false", "Off"])
def test_off_means_off_in_every_reading_of_yaml(spelling: str) -> None:
    table = extended(f"rules: [{{name: nodes-with-server-id, mode: {spelling}}}]")
    assert "nodes-with-server-id" not in outcome(table, mpijob(4)).fired()


def test_a_job_with_a_generated_name_is_placed_by_a_label_of_the_webhook() -> None:
    for workers, rows in (
        (4, ["apart-across-namespaces", "together-required"]),
        (16, ["apart-across-namespaces", "together-preferred"]),
    ):
        result = outcome(DEFAULT, mpijob(workers, generate_name="gen-"))
        assert set(rows) <= set(result.fired())
        assert "training.kubeflow.org/job-name" not in str(result.after)
        label = get(result.after, (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job"))
        assert label.startswith(("default.gen-_", "default.gen_"))

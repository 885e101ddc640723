"""The rows that go beyond the document: each adds what it says, and each goes by a line of YAML."""

import pytest

from tests.helpers import LAUNCHER, WORKER, mpijob
from tests.rules.tables import after, extended, outcome, parsed
from tests.rules.test_document import DOCUMENTED
from webhook.engine.tree import get
from webhook.rules.load import load_default

DEFAULT = load_default()
HARDENING = [
    rule.name
    for rule in DEFAULT.rules
    if rule.name not in DOCUMENTED and rule.name in outcome(DEFAULT, mpijob(4)).fired()
]
NAMED = ["wait-for-all-workers", "init-in-job-image", "apart-across-namespaces", "nodes-with-server-id"]
IMAGE = "values: {initImage: registry.example/init:1}\n"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_the_hardening_rows_are_on_by_default() -> None:
    assert set(NAMED) <= set(HARDENING)


@pytest.mark.parametrize("name", HARDENING)
def test_a_hardening_row_is_switched_off_by_its_name_and_nothing_else_goes(name: str) -> None:
    (row,) = [rule for rule in DEFAULT.rules if rule.name == name]
    by_default = set(outcome(DEFAULT, mpijob(4)).fired())
    off = outcome(extended(IMAGE + f"rules: [{{name: {name}, mode: off}}]"), mpijob(4))
    # What it replaces comes back where no other row takes its place, and what needs it goes with it.
    back = set(row.replaces) & set(DOCUMENTED)
    needing = {rule.name for rule in DEFAULT.rules if rule.needs == (name,)}
    assert set(off.fired()) == (by_default - {name} - needing) | back
    assert [rule.why for rule in off.rules if rule.name == name] == ["switched off in the table"]


@pytest.mark.parametrize("off", ["", "wait-for-all-workers", "init-in-job-image"])
def test_the_launcher_waits_before_it_checks_whichever_row_adds_the_container(off: str) -> None:
    table = extended(IMAGE + f"rules: [{{name: {off}, mode: off}}]" if off else "")
    containers = get(after(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["wait-hostfilename", "ultraserver-init-container"]


@pytest.mark.parametrize("spelling", ["off", '"off"', "false", "Off"])
def test_off_means_off_however_yaml_reads_it(spelling: str) -> None:
    table = extended(f"rules: [{{name: nodes-with-server-id, mode: {spelling}}}]")
    assert "nodes-with-server-id" not in outcome(table, mpijob(4)).fired()


def test_apart_across_namespaces_adds_a_term_over_all_namespaces_and_the_label_it_selects_by() -> None:
    result = after(DEFAULT, mpijob(4), namespace="ml")
    assert get(result, (*WORKER, "metadata", "labels")) == {"ultraserver-webhook.io/job": "ml.train"}
    assert get(result, (*WORKER, "spec", "affinity", "podAntiAffinity", REQUIRED))[1:] == parsed("""
- labelSelector:
    matchExpressions:
    - {key: ultraserver-webhook.io/job, operator: NotIn, values: [ml.train]}
    matchLabels: {training.kubeflow.org/job-role: worker}
  namespaceSelector: {}
  topologyKey: neuron.amazonaws.com/ultraserver-server-id-4
""")


def test_without_apart_across_namespaces_a_named_job_is_apart_in_its_namespace_only() -> None:
    result = after(extended("rules: [{name: apart-across-namespaces, mode: off}]"), mpijob(4))
    assert len(get(result, (*WORKER, "spec", "affinity", "podAntiAffinity", REQUIRED))) == 1


def test_nodes_with_server_id_requires_the_label_of_the_shapes_topology() -> None:
    for workers, suffix in ((2, 2), (4, 4), (16, 4), (6, 2)):
        terms = get(
            after(DEFAULT, mpijob(workers)),
            (*WORKER, "spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"),
        )
        key = f"neuron.amazonaws.com/ultraserver-server-id-{suffix}"
        assert terms == [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_shape_without_a_topology_gets_no_affinity_at_all(workers: int) -> None:
    assert get(after(DEFAULT, mpijob(workers)), (*WORKER, "spec", "affinity")) is None


def test_wait_for_all_workers_stands_in_the_documented_containers_place() -> None:
    for workers in (1, 2, 16):
        result = after(DEFAULT, mpijob(workers))
        names = [item["name"] for item in get(result, (*LAUNCHER, "spec", "initContainers"))]
        assert names == ["wait-hostfilename", "ultraserver-init-container"]
        env = get(result, (*LAUNCHER, "spec", "initContainers"))[0]["env"]
        assert {"name": "ULTRASERVER_WORKERS", "value": str(workers)} in env


def test_the_row_that_stands_in_anothers_place_is_named() -> None:
    why = {rule.name: rule.why for rule in outcome(DEFAULT, mpijob(4)).rules}
    assert why["wait-hostfilename"] == "replaced by rule wait-for-all-workers"


def test_a_job_without_a_name_is_told_apart_and_kept_together_by_the_webhooks_own_label() -> None:
    for workers, rows in (
        (4, ["apart-across-namespaces", "together-required-by-job-label"]),
        (16, ["apart-across-namespaces", "together-preferred-by-job-label"]),
    ):
        found = outcome(DEFAULT, mpijob(workers, generate_name="gen-"))
        assert set(rows) <= set(found.fired())
        assert "training.kubeflow.org/job-name" not in str(found.after)
        label = get(found.after, (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job"))
        assert label.startswith(("default.gen-_", "default.gen_"))


def test_a_job_without_a_name_is_apart_by_its_label_where_the_row_for_mpijobs_is_off() -> None:
    table = extended("rules: [{name: apart-across-namespaces, mode: off}]")
    found = outcome(table, mpijob(4, generate_name="gen-"))
    (term,) = get(found.after, (*WORKER, "spec", "affinity", "podAntiAffinity", REQUIRED))
    assert "apart-by-job-label" in found.fired()
    assert term["labelSelector"]["matchExpressions"][0] == {
        "key": "ultraserver-webhook.io/job",
        "operator": "Exists",
    }


@pytest.mark.parametrize("workers", [1, 3, 4, 16])
def test_every_worker_says_which_job_it_belongs_to(workers: int) -> None:
    result = after(DEFAULT, mpijob(workers), namespace="ml")
    assert get(result, (*WORKER, "metadata", "labels")) == {"ultraserver-webhook.io/job": "ml.train"}

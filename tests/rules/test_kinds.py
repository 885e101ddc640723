"""Tests of the packaged rules for training-operator's MPIJobs, and for JobSets."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.rules.tables import extend_table, mutate, outcome
from webhook.engine import messages as engine_messages
from webhook.rows import messages as row_messages
from webhook.rules.load import load_default

DISCOVER_HOSTS = "#!/bin/sh\necho train-worker-0:1\necho train-worker-1:1"
"""discover_hosts.sh as training-operator 1.9.3 writes it (updateDiscoverHostsInConfigMap)."""


def mpijob_v1(workers: int = 4) -> dict[str, Any]:
    """Returns an MPIJob of training-operator."""
    return {**mpijob(workers), "apiVersion": "kubeflow.org/v1"}


def launcher_of(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the launcher's pod spec of the mutated job."""
    spec: dict[str, Any] = mutate(load_default(), job)["spec"]["mpiReplicaSpecs"]["Launcher"]["template"][
        "spec"
    ]
    return spec


def run_wait_container(tmp_path: Path, workers: int, hosts: str) -> subprocess.CompletedProcess[str]:
    """Runs the command of the added init container, with these hosts and a maximum wait of 1 s."""
    (container,) = launcher_of(mpijob_v1(workers))["initContainers"]
    (tmp_path / "discover_hosts.sh").write_text(hosts, encoding="utf-8")
    command = [word.replace("/etc/mpi", str(tmp_path)) for word in container["command"]]
    env = {item["name"]: item["value"] for item in container["env"]} | {"ULTRASERVER_WAIT_SECONDS": "1"}
    env["PATH"] = "/usr/bin:/bin"
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("first_lines", ["", "echo train-launcher:1\n\n"])
def test_the_init_container_waits_until_the_operator_lists_every_worker(
    tmp_path: Path, first_lines: str
) -> None:
    hosts = DISCOVER_HOSTS.replace("#!/bin/sh\n", f"#!/bin/sh\n{first_lines}")
    complete = run_wait_container(tmp_path, 2, hosts)
    assert (complete.returncode, complete.stdout, complete.stderr) == (0, "all 2 workers run\n", "")
    incomplete = run_wait_container(tmp_path, 3, hosts)
    assert incomplete.returncode == 1
    assert incomplete.stdout.startswith("2 of 3 workers run after 1 s")


@pytest.mark.parametrize(
    "keys", ["warn: at $(field.home)", "match: {role: worker, fields: {home: '*'}}\n    warn: w"]
)
def test_a_rule_with_a_field_is_skipped_for_kinds_without_it(keys: str) -> None:
    match = "" if "match" in keys else "match: {role: worker}\n    "
    table = extend_table(f"rules:\n  - name: mine\n    reason: r\n    {match}{keys}\n")
    assert "mine" in outcome(table, mpijob()).fired()
    (row,) = (row for row in outcome(table, mpijob_v1()).rules if row.name == "mine")
    assert row.why in {engine_messages.no_value("field.home"), row_messages.no_field("mpijob-v1", "home")}


def test_the_reason_of_a_jobset_without_device_requests_names_the_template() -> None:
    job = {"name": "trainers", "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    result = outcome(
        load_default(),
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [job]}},
    )
    assert result.operations == ()
    assert result.reason == engine_messages.no_node("spec.replicatedJobs[*].template.spec.template")


def test_pods_of_a_jobset_that_select_an_instance_type_take_nodes() -> None:
    ultraserver_spec = {
        "nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"},
        "containers": [],
    }
    jobs = [
        {"name": name, "template": {"spec": {"parallelism": 2, "template": {"spec": spec}}}}
        for name, spec in (("chosen", ultraserver_spec), ("other", {"containers": []}))
    ]
    job = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}}
    assert outcome(load_default(), job).facts["nodes"] == "2"


@pytest.mark.parametrize(
    ("devices", "inject", "nodes"),
    [((16, 1), False, 4), ((1, 0), False, 0), ((1, 0), True, 4), ((0, 0), True, 8), ((16, 1), True, 4)],
)
def test_pods_of_a_jobset_take_nodes_if_they_request_whole_nodes_or_are_opted_in(
    devices: tuple[int, ...], nodes: int, *, inject: bool
) -> None:
    def replicated_job(number: int, count: int) -> dict[str, Any]:
        limits = {"limits": {"aws.amazon.com/neuron": count}} if count else {}
        pod = {"spec": {"containers": [{"name": "x", "image": "i", "resources": limits}]}}
        return {"name": f"r{number}", "template": {"spec": {"parallelism": 4, "template": pod}}}

    metadata = {"name": "train", "annotations": {"ultraserver-webhook.io/inject": "true"} if inject else {}}
    spec = {"replicatedJobs": [replicated_job(number, count) for number, count in enumerate(devices)]}
    job = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
    assert int(outcome(load_default(), job).facts.get("nodes", 0)) == nodes

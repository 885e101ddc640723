"""The component placement: what its pods may do, and that its rows and its program mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from placement import model
from placement.__main__ import main
from placement.read import read_pod
from tests.helpers import LAUNCHER, WORKER, mpijob, requested
from tests.manifests.objects import of_kind, one, pod_specs
from webhook.engine import evaluate, keys
from webhook.engine.tree import get
from webhook.rules.load import load_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.manifests.conftest import Build
    from webhook.engine.table import Table
    from webhook.engine.tree import Json

NAME = "ultraserver-placement"


@pytest.fixture
def overlay(built: Callable[[str], Build]) -> Build:
    return built("overlays/placement")


@pytest.fixture
def table(overlay: Build) -> Table:
    return load_texts([*tables(overlay).items()], "placement")


def tables(overlay: Build) -> dict[str, str]:
    """The files of an overlay's table."""
    found: dict[str, str] = one(overlay, "ConfigMap", "ultraserver-webhook-rules")["data"]
    return found


def test_every_program_leaves_ultraserver_nodes_to_jobs_where_there_are_others(overlay: Build) -> None:
    """On real nodes, two programs that said nothing of it were put there first."""
    specs = pod_specs(overlay)
    assert {*specs} == {"ultraserver-webhook", "ultraserver-webhook-certs", NAME}
    for spec in specs.values():
        (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (term,) = preferred["preference"]["matchExpressions"]
        assert (term["key"], term["operator"]) == ("node.kubernetes.io/instance-type", "NotIn")
        assert set(term["values"]) == {"trn2u.48xlarge", "ml.trn2u.48xlarge"}


def test_it_runs_as_strictly_as_the_others(overlay: Build) -> None:
    specs = pod_specs(overlay)
    assert specs[NAME]["securityContext"] == specs["ultraserver-webhook-certs"]["securityContext"]
    (container,) = specs[NAME]["containers"]
    (other,) = specs["ultraserver-webhook-certs"]["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["image"] == other["image"]
    assert one(overlay, "Deployment", NAME)["spec"]["replicas"] == 2


def test_it_may_see_nodes_and_pods_change_pods_and_write_events_and_nothing_else(overlay: Build) -> None:
    rules = one(overlay, "ClusterRole", NAME)["rules"]
    assert {(rule["resources"][0], *rule["verbs"]) for rule in rules} == {
        ("nodes", "list", "watch"),
        ("pods", "list", "watch", "patch", "delete"),
        ("events", "create"),
    }
    policy, opened = of_kind(overlay, "ValidatingAdmissionPolicy")
    account = f"system:serviceaccount:ultraserver-webhook:{NAME}"
    assert account in policy["spec"]["matchConditions"][0]["expression"]
    assert account in opened["spec"]["matchConditions"][1]["expression"]
    assert model.OPENED in str(opened["spec"])
    text = str(policy["spec"]["validations"])
    assert model.GATE in text
    assert model.OPENED in text


def test_the_webhook_and_the_program_mean_the_same_keys() -> None:
    assert (model.PREFIX, model.JOB, model.NODE_CONFIG) == (keys.PREFIX, keys.JOB, keys.NODE_CONFIG)


def test_the_program_knows_every_argument_it_is_given(overlay: Build) -> None:
    known = {name for parameter in main.commands["run"].params for name in parameter.opts}
    (container,) = pod_specs(overlay)[NAME]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= known


def pod_of(table: Table, job: Json, index: int) -> model.Pod:
    """A worker as the operator would make it of what the table makes of a job."""
    outcome = evaluate(table, requested(job))
    template = get(outcome.after, WORKER)
    labels = template["metadata"]["labels"] | {"training.kubeflow.org/replica-index": str(index)}
    metadata = template["metadata"] | {
        "namespace": "default",
        "name": f"train-worker-{index}",
        "labels": labels,
    }
    found = read_pod({"metadata": metadata, "spec": template["spec"]})
    assert found
    return found


@pytest.mark.parametrize(
    ("workers", "place"),
    [
        (1, model.Place(0, 1, 1, model.HOSTNAME)),
        (2, model.Place(0, 2, 2, model.SERVER_2)),
        (3, model.Place(0, 3, 1, model.HOSTNAME)),
        (4, model.Place(0, 4, 4, model.SERVER_4)),
        (6, model.Place(0, 6, 2, model.SERVER_2)),
        (16, model.Place(0, 16, 4, model.SERVER_4)),
    ],
)
def test_the_program_understands_what_the_rows_write(workers: int, place: model.Place, table: Table) -> None:
    found = pod_of(table, mpijob(workers), 0)
    assert found.place == place
    assert (found.job, found.gated, found.problem) == ("default.train", True, "")


def test_a_launcher_that_runs_ranks_is_counted(table: Table) -> None:
    job = mpijob(3)
    job["spec"]["runLauncherAsWorker"] = True
    found = pod_of(table, job, 3)
    assert found.place == model.Place(3, 4, 4, model.SERVER_4)


@pytest.mark.parametrize(("workers", "index"), [(8, 0), (8, 3), (8, 4), (16, 15), (6, 1), (6, 4)])
def test_the_program_pins_the_blocks_that_the_rows_for_pods_keep_together(
    workers: int, index: int, table: Table
) -> None:
    template = get(evaluate(table, requested(mpijob(workers))).after, WORKER)
    labels = {"operator-name": "mpi-operator", "job-name": "train", "replica-index": str(index)}
    labels = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": dict(template["metadata"]),
        "spec": template["spec"],
    }
    pod["metadata"]["labels"] = template["metadata"]["labels"] | labels
    made = evaluate(table, requested(pod)).after
    place = pod_of(table, mpijob(workers), index).place
    assert place
    assert made["metadata"]["labels"]["ultraserver-webhook.io/block"] == str(place.block)
    terms = made["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == [place.key]


def test_a_job_that_names_a_queue_gets_no_gate(table: Table) -> None:
    job = mpijob(4)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    assert "whole-job" not in str(evaluate(table, requested(job)).after)


def test_a_job_of_another_scheduler_gets_no_gate(table: Table) -> None:
    for name, gated in (("volcano", False), ("default-scheduler", True)):
        job = mpijob(4)
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = name
        assert ("whole-job" in str(evaluate(table, requested(job)).after)) is gated


@pytest.mark.parametrize("row", ["whole-job-workers", "job-label"])
@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_launcher_does_not_wait_for_workers_without_the_gate(row: str, mode: str, overlay: Build) -> None:
    own = yaml.safe_load(tables(overlay)["rules.yaml"]) | {"rules": [{"name": row, "mode": mode}]}
    files = tables(overlay) | {"rules.yaml": yaml.safe_dump(own)}
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    outcome = evaluate(load_texts([*files.items()], "placement"), requested(job))
    assert model.GATE not in str(outcome.after)
    assert not outcome.denials


def test_a_launcher_that_comes_last_and_runs_ranks_is_refused(table: Table) -> None:
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    (denial,) = evaluate(table, requested(job)).denials
    assert "use launcherCreationPolicy AtStartup" in denial
    job["spec"]["runLauncherAsWorker"] = False
    assert not evaluate(table, requested(job)).denials


def test_without_the_component_nothing_is_gated(built: Callable[[str], Build]) -> None:
    outcome = evaluate(load_texts([*tables(built("base")).items()], "base"), requested(mpijob(4)))
    assert model.GATE not in str(outcome.after)


def test_a_launcher_names_its_job_where_affinity_terms_do_not_see_it(table: Table) -> None:
    template = get(evaluate(table, requested(mpijob(4))).after, LAUNCHER)
    assert "labels" not in template["metadata"]
    found = read_pod(template)
    assert found
    assert (found.job, found.gated, found.place) == ("default.train", True, None)

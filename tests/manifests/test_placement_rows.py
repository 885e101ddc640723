"""Tests that the rows of whole-job admission agree with the placement program.

tests/plane/manifests/test_placement.py tests that the chart installs these rows.
"""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given

from common.pointers import field_name, parse_pointer
from contract import keys
from contract.placement import Index, Placement, Placer, Summand
from placement.decide.plan import Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Node, Pod, UnitKind, UnitSettings
from placement.observe.read import read_pod
from placement.observe.units import watch_units
from testbed import chart
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from testbed.plane.nodes import INSTANCE_TYPE
from tests.engine.strategies import jobs, without_marks
from tests.helpers import examples, request_for
from tests.placement.world import CAPACITY, NOW, decide
from tests.rules.tables import EXTENDS
from webhook.engine import evaluate
from webhook.objects import record
from webhook.objects.tree import Json, get, put
from webhook.rows.table import Table
from webhook.rules.load import load_installed, load_texts

INDEX = Index((Summand("labels/training.kubeflow.org/replica-index"),))


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """The files of an installation's rule table."""
    (objects,) = (item["data"] for item in chart.objects() if item["kind"] == "ConfigMap")
    return dict(objects)


@pytest.fixture(scope="module")
def table(files: dict[str, str]) -> Table:
    return load_texts([*files.items()], "placement")


def pod_of(table: Table, job: Json, index: int) -> Pod:
    """Returns a worker Pod, as the operator creates it from the changed job."""
    outcome = evaluate(table, request_for(job))
    template = get(outcome.after, WORKER)
    labels = template["metadata"]["labels"] | {"training.kubeflow.org/replica-index": str(index)}
    metadata = template["metadata"] | {
        "namespace": "default",
        "name": f"train-worker-{index}",
        "labels": labels,
    }
    pod = read_pod({"metadata": metadata, "spec": template["spec"]})
    assert pod
    return pod


@pytest.mark.parametrize(
    ("workers", "size", "unit"),
    [
        (1, 1, keys.HOSTNAME),
        (2, 2, keys.SERVER_2),
        (3, 1, keys.HOSTNAME),
        (4, 4, keys.SERVER_4),
        (6, 2, keys.SERVER_2),
        (16, 4, keys.SERVER_4),
    ],
)
def test_the_program_reads_the_placement_annotations_of_the_rows(
    workers: int, size: int, unit: str, table: Table
) -> None:
    pod = pod_of(table, mpijob(workers), workers - 1)
    assert (pod.placement, pod.number) == (
        Placement(Placer.WHOLE_JOB, workers, size, unit, INDEX),
        workers - 1,
    )
    assert (pod.job, pod.gated, pod.fault) == ("default.train", True, None)


POD = {
    "spec": {
        "containers": [{"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}]
    }
}
INDEXED = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": POD}
JOBSETS = "jobset.x-k8s.io/v1alpha2/JobSet"
FIRST, SECOND = ({"name": name, "replicas": 2, "template": {"spec": INDEXED}} for name in ("a", "b"))
JOBSET: dict[str, Json] = {"replicatedJobs": [FIRST, SECOND]}
PYTORCH: dict[str, Json] = {
    "pytorchReplicaSpecs": {"Master": {"template": POD}, "Worker": {"replicas": 3, "template": POD}}
}
KINDS: dict[str, tuple[str, dict[str, Json], str]] = {
    "Job": ("batch/v1/Job", INDEXED, "gate"),
    "Job without indexes": ("batch/v1/Job", INDEXED | {"completionMode": "NonIndexed"}, "affinity"),
    "Job with more completions than parallelism": ("batch/v1/Job", INDEXED | {"completions": 8}, "affinity"),
    "JobSet": (JOBSETS, JOBSET, "gate"),
    "JobSet that creates its Jobs in order": (
        JOBSETS,
        JOBSET | {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        "affinity",
    ),
    "JobSet without indexes": (
        JOBSETS,
        {"replicatedJobs": [FIRST | {"template": {"spec": INDEXED | {"completionMode": "NonIndexed"}}}]},
        "affinity",
    ),
    "JobSet whose second Jobs wait for the first": (
        JOBSETS,
        {"replicatedJobs": [FIRST, SECOND | {"dependsOn": [{"name": "a", "status": "Ready"}]}]},
        "affinity",
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}},
        "gate",
    ),
    "LeaderWorkerSet whose workers wait for the leader": (
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}},
        "affinity",
    ),
    "PyTorchJob": ("kubeflow.org/v1/PyTorchJob", PYTORCH, "gate"),
    "elastic PyTorchJob": (
        "kubeflow.org/v1/PyTorchJob",
        PYTORCH | {"elasticPolicy": {"minReplicas": 4, "maxReplicas": 8}},
        "affinity",
    ),
}


@pytest.mark.parametrize(("kind", "spec", "placer"), KINDS.values(), ids=KINDS.keys())
def test_a_job_gets_the_gate_if_all_its_pods_are_created_at_once_and_have_indexes(
    kind: str, spec: dict[str, Json], placer: str, table: Table
) -> None:
    version, _, name = kind.rpartition("/")
    job = {"apiVersion": version, "kind": name, "metadata": {"name": "train"}, "spec": spec}
    after = evaluate(table, request_for(job)).after
    text = str(after)
    assert f"placer={placer} " in text
    assert (f"'name': '{keys.GATE}'" in text) == (placer == "gate")
    assert text.count("placer=") == text.count(f"placer={placer} ")


def test_a_row_of_the_user_can_choose_affinity_for_jobs(files: dict[str, str]) -> None:
    mine = f"""{EXTENDS}rules:
  - name: slow-starters
    reason: Their Pods come one after the other.
    match: {{role: worker, labels: {{team: slow}}}}
    placer: scheduler
"""
    table = load_texts([*files.items(), ("slow.yaml", mine)], "slow")
    job = mpijob(4)
    assert "placer=gate " in str(evaluate(table, request_for(job)).after)
    job["metadata"]["labels"] = {"team": "slow"}
    after = str(evaluate(table, request_for(job)).after)
    assert "placer=affinity " in after
    assert keys.GATE not in after


RACKS = f"""{EXTENDS}families:
  - name: trn2u
    instanceTypes: [racked.48xlarge]
    units: [{{label: example.com/rack, nodes: 18}}]
    shapes: [{{name: racks, workers: multiple of 18, nodeConfig: 18, together: preferred, apart: required}}]
"""


def test_a_row_of_the_user_can_add_units_of_another_size(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    units = watch_units(tmp_path).refresh
    (tmp_path / "racks.yaml").write_text(RACKS, encoding="utf-8")  # while the program runs
    table, job = load_installed(tmp_path), mpijob(36)
    resources = get(job, WORKER)["spec"]["containers"][0]["resources"]
    resources["requests"] = resources["limits"]  # as the API server stores it
    pods = [replace(pod_of(table, job, index), name=f"w-{index}", uid=f"{index}") for index in range(36)]
    labels = {INSTANCE_TYPE: "racked.48xlarge"}
    nodes = [
        Node(f"n{number}", {**labels, "example.com/rack": f"rack-{number // 18}"}, allocatable=CAPACITY)
        for number in range(3 * 18 - 1)
    ]
    decision = decide(Topology(nodes), pods, NOW, Tuning(units=units()))
    (admission,) = decision.admissions
    assert admission.blocks == {0: "rack-0", 1: "rack-1"}


def test_units_of_own_rows_are_added_to_the_packaged_units(tmp_path: Path) -> None:
    assert watch_units(None).refresh() == UNITS
    (tmp_path / "own.yaml").write_text(
        "families: [{name: trn2u, units: [{label: example.com/four, nodes: 4}]}]"
    )
    assert watch_units(tmp_path).refresh() == UNITS | UnitSettings({"example.com/four": UnitKind(4)})


def job_with_ranks(**launcher: Json) -> Json:
    """Returns a job of three workers whose launcher runs ranks, so that it also takes a node."""
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, **launcher}
    first, *_ = get(job, LAUNCHER)["spec"]["containers"]
    first["resources"] = get(job, WORKER)["spec"]["containers"][0]["resources"]
    return job


def test_a_launcher_that_runs_ranks_is_counted_as_a_worker(table: Table) -> None:
    job = job_with_ranks()
    launcher = pod_of(table, job, 3)
    assert (launcher.placement, launcher.number) == (
        Placement(Placer.WHOLE_JOB, 4, 4, keys.SERVER_4, INDEX),
        3,
    )


@pytest.mark.parametrize(("workers", "index"), [(8, 0), (8, 3), (8, 4), (16, 15), (6, 1), (6, 4)])
def test_the_program_pins_the_blocks_that_the_rows_for_pods_keep_together(
    workers: int, index: int, table: Table, files: dict[str, str]
) -> None:
    base_table = load_texts([("rules.yaml", files["rules.yaml"])], "base")
    template = get(evaluate(base_table, request_for(mpijob(workers))).after, WORKER)
    labels = template["metadata"]["labels"] | {"training.kubeflow.org/replica-index": str(index)}
    metadata = template["metadata"] | {"labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    changed_pod = evaluate(base_table, request_for(pod)).after
    gated_pod = pod_of(table, mpijob(workers), index)
    assert gated_pod.placement
    assert changed_pod["metadata"]["labels"][keys.BLOCK] == str(gated_pod.block)
    terms = changed_pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == [gated_pod.placement.unit]
    # A Pod with a placement annotation gets a pin, so it needs no affinity terms.
    metadata = metadata | {"annotations": {keys.PLACEMENT: str(gated_pod.placement)}}
    assert not evaluate(table, request_for(pod | {"metadata": metadata})).operations


def test_the_name_of_the_default_scheduler_does_not_prevent_whole_job_admission(table: Table) -> None:
    job = mpijob(4, worker_spec={"schedulerName": "default-scheduler"})
    assert "whole-job" in str(evaluate(table, request_for(job)).after)


def test_no_pod_waits_if_a_pod_that_takes_a_node_requests_no_devices(table: Table) -> None:
    # The program ignores Pods without devices, so the other Pods would wait forever.
    opted_in = mpijob(4, resource=None, annotations={keys.INJECT: "true"})
    ranks = job_with_ranks()
    del get(ranks, LAUNCHER)["spec"]["containers"][0]["resources"]
    for job, labelled in ((opted_in, False), (ranks, True)):
        outcome = evaluate(table, request_for(job))
        assert (get(outcome.after, (*WORKER, "metadata", "labels", keys.JOB)) is not None) is labelled
        assert not any(record.is_gated(get(outcome.after, path)) for path in (WORKER, LAUNCHER))
        assert "placer=gate" not in str(outcome.after)


FORGED = {
    "metadata": {
        "labels": {keys.JOB: "team-b.victim", "mine": "x"},
        "annotations": {
            keys.JOB: "team-b.victim",
            keys.PLACEMENT: "placer=gate workers=24 size=2 unit=topology.kubernetes.io/zone index=name",
            keys.OPENED: "2026-01-01T00:00:00Z",
            "mine": "x",
        },
    },
    "spec": {"schedulingGates": [{"name": "example.com/mine"}, {"name": keys.GATE}]},
}
"""Forged fields, by which one pod would hold a whole zone, and harmless fields of the user."""

QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "research"}}
JOBS_WITHOUT_GATE: dict[str, Json] = {
    "opted out by an annotation": {"annotations": {keys.INJECT: "false"}},
    "opted out by a label": {"labels": {keys.INJECT: "disabled"}},
    "no devices": {"resource": None},
    "a Kueue queue": QUEUE,
    "another scheduler": {"worker_spec": {"schedulerName": "volcano"}},
}


def forged_job(labels: dict[str, str] | None = None, **tree: Json) -> Json:
    """Returns a job of four workers whose templates have the forged fields."""
    job = mpijob(4, **tree)
    job["metadata"] |= {"labels": labels} if labels else {}
    for path in (WORKER, LAUNCHER):
        template = get(job, path)
        spec = template["spec"] | copy.deepcopy(FORGED["spec"])
        job = put(job, path, copy.deepcopy(FORGED) | {"spec": spec})
    return job


@pytest.mark.parametrize("changes", [*JOBS_WITHOUT_GATE.values(), {}], ids=[*JOBS_WITHOUT_GATE, "placed"])
def test_forged_marks_are_replaced_or_removed_with_a_warning(changes: dict[str, Json], table: Table) -> None:
    plain = mpijob(4, **{key: value for key, value in changes.items() if key != "labels"})
    plain["metadata"] |= {"labels": changes["labels"]} if "labels" in changes else {}
    honest, outcome = (evaluate(table, request_for(job)) for job in (plain, forged_job(**changes)))
    for path in (WORKER, LAUNCHER):
        template = get(outcome.after, path)
        assert record.find_marks(template) == record.find_marks(get(honest.after, path))
        assert template["metadata"]["labels"]["mine"] == template["metadata"]["annotations"]["mine"] == "x"
        assert template["spec"]["schedulingGates"][0] == {"name": "example.com/mine"}
        for path_of_mark in record.find_marks(FORGED):
            messages = [
                text
                for text in outcome.warnings
                if f" your value: {field_name((*path, *parse_pointer(path_of_mark)))} is " in text
            ]
            same = record.find_marks(template).get(path_of_mark) == record.find_marks(FORGED)[path_of_mark]
            assert len(messages) == (0 if same else 1), path_of_mark
    assert not evaluate(table, request_for(outcome.after)).operations


def test_marks_in_a_valid_record_are_replaced_without_a_warning(table: Table) -> None:
    stored = evaluate(table, request_for(mpijob(4))).after
    renamed = put(stored, ("metadata", "name"), "other")
    outcome, fresh = (evaluate(table, request_for(job)) for job in (renamed, mpijob(4, name="other")))
    assert outcome.warnings == ()
    assert outcome.after == fresh.after


@examples(35)
@given(job=jobs())
def test_forged_marks_do_not_change_the_result_and_a_second_call_changes_nothing(
    job: Json, table: Table
) -> None:
    honest = job
    for path in (WORKER, LAUNCHER):
        if get(job, path):
            honest = put(honest, path, without_marks(get(job, path)))
    outcome, plain = (evaluate(table, request_for(variant)) for variant in (job, honest))
    if outcome.denials:
        assert plain.denials
        return
    for path in (WORKER, LAUNCHER):
        assert record.find_marks(get(outcome.after, path)) == record.find_marks(get(plain.after, path))
    assert evaluate(table, request_for(outcome.after, uid="another")).operations == ()


@pytest.mark.parametrize("row", ["whole-job-workers", "job-label"])
@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_launcher_gets_no_gate_if_its_workers_get_no_gate(
    row: str, mode: str, files: dict[str, str]
) -> None:
    own = yaml.safe_load(files["rules.yaml"]) | {"rules": [{"name": row, "mode": mode}]}
    files = files | {"rules.yaml": yaml.safe_dump(own)}
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    outcome = evaluate(load_texts([*files.items()], "placement"), request_for(job))
    assert keys.GATE not in str(outcome.after)
    assert not outcome.denials


@pytest.mark.parametrize("spec", ["worker_spec", "launcher_spec"])
def test_pods_with_a_node_name_get_no_gate(spec: str, table: Table) -> None:
    """The API server refuses a Pod with a node name and a gate."""
    job = mpijob(4, **{spec: {"nodeName": "node-1"}})
    after = evaluate(table, request_for(job)).after
    for path in (WORKER, LAUNCHER):
        pod = get(after, (*path, "spec"))
        assert not ("nodeName" in pod and "schedulingGates" in pod)


def test_a_launcher_that_runs_ranks_and_is_created_last_is_refused(table: Table) -> None:
    job = job_with_ranks(launcherCreationPolicy="WaitForWorkersReady")
    (denial,) = evaluate(table, request_for(job)).denials
    assert "set launcherCreationPolicy to AtStartup" in denial
    job["spec"]["runLauncherAsWorker"] = False
    assert not evaluate(table, request_for(job)).denials


def test_a_launcher_has_its_job_in_an_annotation_because_affinity_terms_match_labels(table: Table) -> None:
    template = get(evaluate(table, request_for(mpijob(4))).after, LAUNCHER)
    assert "labels" not in template["metadata"]
    pod = read_pod(template)
    assert pod
    assert (pod.job, pod.gated, pod.placement) == ("default.train", True, None)

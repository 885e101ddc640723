"""The rows of whole-job admission and its program mean the same.

That Helm puts these rows next to the installation's is in tests/plane/manifests/test_placement.py.
"""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given

from common.pointers import field_name, parse_pointer
from contract import keys
from contract.place import Index, Place, Placer, Summand
from placement.decide.plan import Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Node, Pod, UnitKind, UnitSettings
from placement.observe.read import read_pod
from placement.observe.units import watch_units
from testbed import chart
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from testbed.plane.nodes import INSTANCE_TYPE
from tests.engine.strategies import jobs, without_claims
from tests.helpers import examples, requested
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
    """The files of the table of an installation."""
    (objects,) = (item["data"] for item in chart.objects() if item["kind"] == "ConfigMap")
    return dict(objects)


@pytest.fixture(scope="module")
def table(files: dict[str, str]) -> Table:
    return load_texts([*files.items()], "placement")


def pod_of(table: Table, job: Json, index: int) -> Pod:
    """Returns a worker as the operator would make it of what the table makes of a job."""
    outcome = evaluate(table, requested(job))
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
def test_the_program_understands_what_the_rows_write(
    workers: int, size: int, unit: str, table: Table
) -> None:
    job = pod_of(table, mpijob(workers), workers - 1)
    assert (job.place, job.number) == (Place(Placer.WHOLE_JOB, workers, size, unit, INDEX), workers - 1)
    assert (job.job, job.gated, job.fault) == ("default.train", True, None)


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
    "Job without numbers": ("batch/v1/Job", INDEXED | {"completionMode": "NonIndexed"}, "affinity"),
    "Job of more Pods than at a time": ("batch/v1/Job", INDEXED | {"completions": 8}, "affinity"),
    "JobSet": (JOBSETS, JOBSET, "gate"),
    "JobSet in order": (JOBSETS, JOBSET | {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, "affinity"),
    "JobSet without numbers": (
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
    "LeaderWorkerSet whose leader comes first": (
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}},
        "affinity",
    ),
    "PyTorchJob": ("kubeflow.org/v1/PyTorchJob", PYTORCH, "gate"),
    "PyTorchJob of changing size": (
        "kubeflow.org/v1/PyTorchJob",
        PYTORCH | {"elasticPolicy": {"minReplicas": 4, "maxReplicas": 8}},
        "affinity",
    ),
}


@pytest.mark.parametrize(("kind", "spec", "placer"), KINDS.values(), ids=KINDS.keys())
def test_a_job_of_any_kind_waits_whole_if_its_pods_are_all_there_at_once_and_have_numbers(
    kind: str, spec: dict[str, Json], placer: str, table: Table
) -> None:
    version, _, name = kind.rpartition("/")
    job = {"apiVersion": version, "kind": name, "metadata": {"name": "train"}, "spec": spec}
    after = evaluate(table, requested(job)).after
    text = str(after)
    assert f"placer={placer} " in text
    assert (f"'name': '{keys.GATE}'" in text) == (placer == "gate")
    assert text.count("placer=") == text.count(f"placer={placer} ")


def test_a_row_of_ones_own_leaves_jobs_to_affinity(files: dict[str, str]) -> None:
    mine = f"""{EXTENDS}rules:
  - name: slow-starters
    reason: Their Pods come one after the other.
    match: {{role: worker, labels: {{team: slow}}}}
    placer: scheduler
"""
    table = load_texts([*files.items(), ("slow.yaml", mine)], "slow")
    job = mpijob(4)
    assert "placer=gate " in str(evaluate(table, requested(job)).after)
    job["metadata"]["labels"] = {"team": "slow"}
    after = str(evaluate(table, requested(job)).after)
    assert "placer=affinity " in after
    assert keys.GATE not in after


RACKS = f"""{EXTENDS}families:
  - name: trn2u
    instanceTypes: [racked.48xlarge]
    units: [{{label: example.com/rack, nodes: 18}}]
    shapes: [{{name: racks, workers: multiple of 18, nodeConfig: 18, together: preferred, apart: required}}]
"""


def test_machines_of_another_size_are_a_row(files: dict[str, str], tmp_path: Path) -> None:
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


def test_units_are_rows_that_are_laid_over_the_packaged_ones(tmp_path: Path) -> None:
    assert watch_units(None).refresh() == UNITS
    (tmp_path / "own.yaml").write_text(
        "families: [{name: trn2u, units: [{label: example.com/four, nodes: 4}]}]"
    )
    assert watch_units(tmp_path).refresh() == UNITS | UnitSettings({"example.com/four": UnitKind(4)})


def with_ranks(**launcher: Json) -> Json:
    """Returns a job whose launcher is one of four that take a node."""
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, **launcher}
    first, *_ = get(job, LAUNCHER)["spec"]["containers"]
    first["resources"] = get(job, WORKER)["spec"]["containers"][0]["resources"]
    return job


def test_a_launcher_that_runs_ranks_is_counted(table: Table) -> None:
    job = with_ranks()
    launcher = pod_of(table, job, 3)
    assert (launcher.place, launcher.number) == (Place(Placer.WHOLE_JOB, 4, 4, keys.SERVER_4, INDEX), 3)


@pytest.mark.parametrize(("workers", "index"), [(8, 0), (8, 3), (8, 4), (16, 15), (6, 1), (6, 4)])
def test_the_program_pins_the_blocks_that_the_rows_for_pods_keep_together(
    workers: int, index: int, table: Table, files: dict[str, str]
) -> None:
    without = load_texts([("rules.yaml", files["rules.yaml"])], "base")
    template = get(evaluate(without, requested(mpijob(workers))).after, WORKER)
    labels = template["metadata"]["labels"] | {"training.kubeflow.org/replica-index": str(index)}
    metadata = template["metadata"] | {"labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    made = evaluate(without, requested(pod)).after
    job = pod_of(table, mpijob(workers), index)
    assert job.place
    assert made["metadata"]["labels"][keys.BLOCK] == str(job.block)
    terms = made["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == [job.place.unit]
    # One that waits for its pin needs no terms next to it.
    metadata = metadata | {"annotations": {keys.PLACE: str(job.place)}}
    assert not evaluate(table, requested(pod | {"metadata": metadata})).operations


def test_the_schedulers_own_name_is_none_of_another(table: Table) -> None:
    job = mpijob(4, worker_spec={"schedulerName": "default-scheduler"})
    assert "whole-job" in str(evaluate(table, requested(job)).after)


def test_where_not_all_that_take_a_node_ask_for_devices_nothing_waits(table: Table) -> None:
    # The program would not count those without, and the others would wait for them for ever.
    opted_in = mpijob(4, resource=None, annotations={keys.INJECT: "true"})
    ranks = with_ranks()
    del get(ranks, LAUNCHER)["spec"]["containers"][0]["resources"]
    for job, labelled in ((opted_in, False), (ranks, True)):
        outcome = evaluate(table, requested(job))
        assert (get(outcome.after, (*WORKER, "metadata", "labels", keys.JOB)) is not None) is labelled
        assert not any(record.is_gated(get(outcome.after, path)) for path in (WORKER, LAUNCHER))
        assert "placer=gate" not in str(outcome.after)


FORGED = {
    "metadata": {
        "labels": {keys.JOB: "team-b.victim", "mine": "x"},
        "annotations": {
            keys.JOB: "team-b.victim",
            keys.PLACE: "placer=gate workers=24 size=2 unit=topology.kubernetes.io/zone index=name",
            keys.OPENED: "2026-01-01T00:00:00Z",
            "mine": "x",
        },
    },
    "spec": {"schedulingGates": [{"name": "example.com/mine"}, {"name": keys.GATE}]},
}
"""What holds a whole zone for one pod, and what is its author's own."""

QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "research"}}
LEFT_ALONE: dict[str, Json] = {
    "opted out by an annotation": {"annotations": {keys.INJECT: "false"}},
    "opted out by a label": {"labels": {keys.INJECT: "disabled"}},
    "no devices": {"resource": None},
    "a Kueue queue": QUEUE,
    "another scheduler": {"worker_spec": {"schedulerName": "volcano"}},
}


def forged(labels: dict[str, str] | None = None, **tree: Json) -> Json:
    """Returns a job of four workers that claims to be another's, both of its templates."""
    job = mpijob(4, **tree)
    job["metadata"] |= {"labels": labels} if labels else {}
    for path in (WORKER, LAUNCHER):
        template = get(job, path)
        spec = template["spec"] | copy.deepcopy(FORGED["spec"])
        job = put(job, path, copy.deepcopy(FORGED) | {"spec": spec})
    return job


@pytest.mark.parametrize("requests", [*LEFT_ALONE.values(), {}], ids=[*LEFT_ALONE, "placed"])
def test_forged_placement_annotations_are_replaced_or_removed_with_a_warning(
    requests: dict[str, Json], table: Table
) -> None:
    plain = mpijob(4, **{key: value for key, value in requests.items() if key != "labels"})
    plain["metadata"] |= {"labels": requests["labels"]} if "labels" in requests else {}
    honest, outcome = (evaluate(table, requested(job)) for job in (plain, forged(**requests)))
    for path in (WORKER, LAUNCHER):
        template = get(outcome.after, path)
        assert record.find_marks(template) == record.find_marks(get(honest.after, path))
        assert template["metadata"]["labels"]["mine"] == template["metadata"]["annotations"]["mine"] == "x"
        assert template["spec"]["schedulingGates"][0] == {"name": "example.com/mine"}
        for place in record.find_marks(FORGED):
            messages = [
                text
                for text in outcome.warnings
                if f" your value: {field_name((*path, *parse_pointer(place)))} is " in text
            ]
            same = record.find_marks(template).get(place) == record.find_marks(FORGED)[place]
            assert len(messages) == (0 if same else 1), place
    assert not evaluate(table, requested(outcome.after)).operations


def test_a_claim_that_an_honest_record_names_is_taken_back_without_a_word(table: Table) -> None:
    stored = evaluate(table, requested(mpijob(4))).after
    renamed = put(stored, ("metadata", "name"), "other")
    outcome, fresh = (evaluate(table, requested(job)) for job in (renamed, mpijob(4, name="other")))
    assert outcome.warnings == ()
    assert outcome.after == fresh.after


@examples(35)
@given(job=jobs())
def test_no_claim_is_ever_taken_over_and_a_second_call_has_nothing_to_do(job: Json, table: Table) -> None:
    honest = job
    for path in (WORKER, LAUNCHER):
        if get(job, path):
            honest = put(honest, path, without_claims(get(job, path)))
    outcome, plain = (evaluate(table, requested(each)) for each in (job, honest))
    if outcome.denials:
        assert plain.denials
        return
    for path in (WORKER, LAUNCHER):
        assert record.find_marks(get(outcome.after, path)) == record.find_marks(get(plain.after, path))
    assert evaluate(table, requested(outcome.after, uid="another")).operations == ()


@pytest.mark.parametrize("row", ["whole-job-workers", "job-label"])
@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_launcher_does_not_wait_for_workers_without_the_gate(
    row: str, mode: str, files: dict[str, str]
) -> None:
    own = yaml.safe_load(files["rules.yaml"]) | {"rules": [{"name": row, "mode": mode}]}
    files = files | {"rules.yaml": yaml.safe_dump(own)}
    job = mpijob(3)
    job["spec"] |= {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    outcome = evaluate(load_texts([*files.items()], "placement"), requested(job))
    assert keys.GATE not in str(outcome.after)
    assert not outcome.denials


@pytest.mark.parametrize("spec", ["worker_spec", "launcher_spec"])
def test_pods_that_name_their_node_have_no_gate_which_the_api_server_would_refuse(
    spec: str, table: Table
) -> None:
    job = mpijob(4, **{spec: {"nodeName": "node-1"}})
    after = evaluate(table, requested(job)).after
    for path in (WORKER, LAUNCHER):
        pod = get(after, (*path, "spec"))
        assert not ("nodeName" in pod and "schedulingGates" in pod)


def test_a_launcher_that_comes_last_and_runs_ranks_is_refused(table: Table) -> None:
    job = with_ranks(launcherCreationPolicy="WaitForWorkersReady")
    (denial,) = evaluate(table, requested(job)).denials
    assert "set launcherCreationPolicy to AtStartup" in denial
    job["spec"]["runLauncherAsWorker"] = False
    assert not evaluate(table, requested(job)).denials


def test_a_launcher_names_its_job_where_affinity_terms_do_not_see_it(table: Table) -> None:
    template = get(evaluate(table, requested(mpijob(4))).after, LAUNCHER)
    assert "labels" not in template["metadata"]
    pod = read_pod(template)
    assert pod
    assert (pod.job, pod.gated, pod.place) == ("default.train", True, None)

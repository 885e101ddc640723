"""Public cases in which someone else places a job, or a job was missed or counted wrongly, and their like.

Kueue with a topology of the author (05), gangs of Kubernetes (07), Jobs that a controller made (11), AWS's
third template of claims (12), and Pods that do not run at once.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.docs.blocks import REPOSITORY
from tests.rules.tables import outcome
from webhook.documents import read_documents
from webhook.engine import Outcome
from webhook.objects.tree import Json, get, get_map, put
from webhook.rows.table import Table
from webhook.rules.load import load_texts

FIELD: Final = REPOSITORY / "tests" / "data" / "field"
PODSET: Final = "kueue.x-k8s.io/podset-"
SERVER: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
PAIR: Final = "neuron.amazonaws.com/ultraserver-server-id-2"
LAYER: Final = "topology.k8s.aws/network-node-layer-3"
HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
QUEUE: Final = {"kueue.x-k8s.io/queue-name": "team-a"}
INJECT: Final = {"ultraserver-webhook.io/inject": "true"}
TEMPLATES: Final[dict[str, list[tuple[str | int, ...]]]] = {
    "MPIJob": [WORKER],
    "Job": [("spec", "template")],
    "JobSet": [("spec", "replicatedJobs", 0, "template", "spec", "template")],
    "PyTorchJob": [("spec", "pytorchReplicaSpecs", role, "template") for role in ("Master", "Worker")],
    "LeaderWorkerSet": [("spec", "leaderWorkerTemplate", "workerTemplate")],
}
"""By kind the paths of the templates whose Pods take nodes."""


def installed(*components: str) -> Table:
    """Returns the packaged table with whole-job admission and further files of the chart."""
    folder = REPOSITORY / "manifests" / "chart" / "rules"
    names = sorted(path for part in ("30-placement", *components) for path in folder.glob(f"{part}*"))
    return load_texts([(path.name, path.read_bytes()) for path in names], "installed")


PLAIN: Final = installed()
KUEUE: Final = installed("15-kueue")


def case(name: str) -> list[Any]:
    (path,) = FIELD.glob(f"{name}-*.yaml")
    return [document.value for document in read_documents(Path(path).read_bytes(), path.name)]


def job(kind: str, workers: int = 4, *, spec: Json = None, **annotations: str) -> Any:
    """Returns a job of a kind whose templates have such annotations, and more in the spec of their Pods."""
    containers = [{"name": "w", "image": "train:1", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}]
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": containers, **(spec or {})}}
    indexed = {"completionMode": "Indexed", "parallelism": workers, "completions": workers, "template": pod}
    of_kind: dict[str, tuple[str, Json]] = {
        "Job": ("batch/v1", indexed),
        "JobSet": (
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [{"name": "w", "template": {"spec": indexed}}]},
        ),
        "PyTorchJob": (
            "kubeflow.org/v1",
            {
                "pytorchReplicaSpecs": {
                    "Master": {"template": pod},
                    "Worker": {"replicas": workers - 1, "template": pod},
                }
            },
        ),
        "LeaderWorkerSet": (
            "leaderworkerset.x-k8s.io/v1",
            {"replicas": 2, "leaderWorkerTemplate": {"size": workers, "workerTemplate": pod}},
        ),
    }
    if kind == "MPIJob":
        result = put(mpijob(workers), WORKER, pod)
    else:
        version, found_spec = of_kind[kind]
        result = {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": found_spec}
    return json.loads(json.dumps(result))  # no part of it twice: patches are applied in place


def queued(kind: str, workers: int = 4, **asked: str) -> Any:
    """Returns a job in a queue whose templates ask Kueue for something."""
    one_job = job(kind, workers, **{PODSET + key.replace("_", "-"): value for key, value in asked.items()})
    one_job["metadata"]["labels"] = QUEUE
    return one_job


def maps(result: Outcome, kind: str, *inside: str) -> list[dict[str, Any]]:
    """Returns what each template that takes nodes has somewhere afterwards."""
    return [get_map(result.after, (*path, *inside)) for path in TEMPLATES[kind]]


def asks(result: Outcome, kind: str) -> list[dict[str, str]]:
    """Returns what each of these templates asks Kueue for."""
    marks = maps(result, kind, "metadata", "annotations")
    return [{key.removeprefix(PODSET): mark[key] for key in mark if key.startswith(PODSET)} for mark in marks]


def held(result: Outcome, kind: str) -> list[set[str]]:
    """Returns those of each of these templates the affinity to Pods, and the gate, that it has."""
    gates = [{"schedulingGates"} & spec.keys() for spec in maps(result, kind, "spec")]
    terms = [affinity.keys() - {"nodeAffinity"} for affinity in maps(result, kind, "spec", "affinity")]
    return [term | gate for term, gate in zip(terms, gates, strict=True)]


def warned(result: Outcome, words: str) -> bool:
    return any(words in text for text in result.warnings)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("strict", ["required", "preferred", "unconstrained"])
@pytest.mark.parametrize("level", [LAYER, "example.com/rack", SERVER, HOST])
def test_a_job_that_asks_kueue_for_a_topology_has_no_pod_affinity(kind: str, strict: str, level: str) -> None:
    """With one template it asks for slices, too, where Kueue takes them; else a warning says what lacks."""
    requests = (
        {"unconstrained_topology": "true"} if strict == "unconstrained" else {f"{strict}_topology": level}
    )
    result = outcome(KUEUE, queued(kind, **requests))
    assert not any(held(result, kind))
    for each in asks(result, kind):
        assert each.items() >= {key.replace("_", "-"): value for key, value in requests.items()}.items()
    kept = kind != "PyTorchJob" and (strict == "unconstrained" or level != HOST)
    slices = kept and (strict, level) != ("required", SERVER)
    assert all(("slice-size" in each) is slices for each in asks(result, kind))
    assert warned(result, "nothing keeps the workers on whole units") is not kept


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("term", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_of_the_author_is_a_warning_where_kueue_chooses_the_nodes(kind: str, term: str) -> None:
    """Kueue does not read it, so it may admit the job to nodes that the scheduler refuses."""
    selector = {"matchLabels": {"app": "cache"}}
    for key, warns in ((SERVER, True), (HOST, False)):
        required = {REQUIRED: [{"topologyKey": key, "labelSelector": selector}]}
        document = queued(kind, required_topology=LAYER)
        for path in TEMPLATES[kind]:
            get(document, path)["spec"]["affinity"] = {term: json.loads(json.dumps(required))}
        result = outcome(KUEUE, document)
        assert warned(result, f"affinity.{term}.{REQUIRED}[0]") is warns
        assert not warned(outcome(PLAIN, document), "does not read the pod affinity")


NATIVE: Final = [
    {"schedulingGroup": {"podGroupName": "gang-workers"}},
    {"workloadRef": {"name": "gang", "podGroup": "workers"}},
    {"workloadRef": {"name": "gang", "podGroup": "workers", "podGroupReplicaKey": "0"}},
]
"""As in Kubernetes 1.36 and 1.37, and in 1.35."""


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("spec", NATIVE)
@pytest.mark.parametrize("table", [PLAIN, KUEUE], ids=["whole-job", "kueue"])
def test_native_gangs_of_every_kind_have_no_affinity_and_no_gate(kind: str, spec: Json, table: Table) -> None:
    for workers in (4, 8):
        result = outcome(table, job(kind, workers, spec=spec))
        assert not any(held(result, kind))
        assert warned(result, "Kubernetes' own gang scheduling")


def test_an_empty_group_is_none() -> None:
    result = outcome(PLAIN, job("Job", spec={"schedulingGroup": {}}))
    assert held(result, "Job") == [{"podAffinity", "podAntiAffinity", "schedulingGates"}]


def owned(kind: str, version: str, **metadata: Json) -> Any:
    owner = {"apiVersion": version, "kind": kind, "name": "s", "uid": "a", "controller": True}
    one_job = job("Job")
    one_job["metadata"] |= {"ownerReferences": [owner], **metadata}
    return one_job


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("ScaledJob", "keda.sh/v1alpha1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("AppWrapper", "workload.codeflare.dev/v1beta2"),
        ("CronJob", "batch/v1"),
        ("Job", "batch.volcano.sh/v1alpha1"),
    ],
)
def test_a_job_of_a_controller_that_is_not_placed_itself_is_like_one_without_owner(
    kind: str, version: str
) -> None:
    assert outcome(PLAIN, owned(kind, version)).fired() == outcome(PLAIN, job("Job")).fired()


@pytest.mark.parametrize("kind", ["MPIJob", "JobSet", "TrainJob", "PyTorchJob", "LeaderWorkerSet"])
def test_a_job_that_another_object_owns_names_where_to_opt_in(kind: str) -> None:
    """Also where it is opted in itself."""
    result = outcome(PLAIN, owned(kind, "example.com/v1", annotations=INJECT))
    assert not result.operations
    assert f"requires another owner than {kind}" in result.reason
    assert "ultraserver-webhook.io/inject has no effect on it" in result.reason


def test_a_misplaced_key_on_a_template_gets_a_hint_with_the_right_place() -> None:
    document = job("Job", spec={"containers": [{"name": "w", "image": "train:1"}]}, **INJECT)
    result = outcome(PLAIN, document)
    assert not result.operations
    assert "ultraserver-webhook.io/inject has an effect only in the job's metadata" in result.reason
    document["metadata"]["annotations"] = INJECT
    assert outcome(PLAIN, document).operations


def test_the_installation_sends_the_jobs_that_the_table_places() -> None:
    text = (REPOSITORY / "manifests" / "chart" / "templates" / "registrations.yaml").read_text(
        encoding="utf-8"
    )
    (row,) = (row for row in PLAIN.workloads if row.name == "job")
    assert f"owner.kind in {[kind.removeprefix('!') for kind in row.when['owner']]}" in text


@pytest.mark.parametrize(
    ("parallelism", "completions", "more", "workers", "gated"),
    [
        (4, 100, {"completionMode": "Indexed"}, 4, False),
        (8, 4, {"completionMode": "Indexed"}, 4, True),
        (8, 4, {}, 4, False),
        (8, None, {}, 8, False),
        (None, 8, {}, 1, False),
        (4, 4, {"completionMode": "Indexed", "suspend": True}, 4, True),
    ],
)
def test_no_more_pods_count_than_run_at_once(
    parallelism: int | None, completions: int | None, more: dict[str, Json], workers: int, *, gated: bool
) -> None:
    document = job("Job")
    given = {"parallelism": parallelism, "completions": completions}
    document["spec"] = {
        "template": document["spec"]["template"],
        **{key: value for key, value in given.items() if value is not None},
        **more,
    }
    result = outcome(PLAIN, document)
    assert result.facts["workers"] == str(workers)
    assert ("schedulingGates" in held(result, "Job")[0]) is gated


@pytest.mark.parametrize(
    ("replicas", "parallelism", "completions", "workers"),
    [(4, 1, 1, 4), (2, 2, 2, 4), (2, 4, 2, 4), (3, 4, 1, 3)],
)
def test_jobs_of_a_jobset_count_so_as_well(
    replicas: int, parallelism: int, completions: int, workers: int
) -> None:
    """Their numbers, too: Pods of the second Job follow those of the first without a gap."""
    document = job("JobSet")
    (part,) = document["spec"]["replicatedJobs"]
    part["replicas"] = replicas
    part["template"]["spec"] |= {"parallelism": parallelism, "completions": completions}
    result = outcome(PLAIN, document)
    assert result.facts["workers"] == str(workers)
    assert "schedulingGates" in held(result, "JobSet")[0]
    each = min(parallelism, completions)
    factor = f"*{each}" if each > 1 else ""
    place = get(
        result.after, (*TEMPLATES["JobSet"][0], "metadata", "annotations", "ultraserver-webhook.io/place")
    )
    assert f"index=labels/jobset.sigs.k8s.io/job-index{factor}+labels/" in str(place)


def claiming(kind: str, workers: int, *names: str) -> Any:
    claims = [{"name": f"c{at}", "resourceClaimTemplateName": name} for at, name in enumerate(names)]
    uses = [{"name": claim["name"]} for claim in claims]
    containers = [{"name": "w", "image": "train:1", "resources": {"claims": uses}}]
    return job(kind, workers, spec={"containers": containers, "resourceClaims": claims})


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize(
    ("workers", "names", "line"),
    [
        (2, ["us-and-lnc-config"], "two-node"),
        (4, ["us-and-lnc-config"], "multi-pair"),
        (2, ["us-and-lnc-config", "us-2-node-config"], "two-node"),
        (4, ["us-4-node-config"], "four-node"),
        (3, ["us-and-lnc-config"], "3 workers do not fit node config 2 of "),
        (4, ["us-and-lnc-config", "us-4-node-config"], "use the same in both"),
    ],
)
def test_claims_of_the_templates_of_aws_in_every_mix(
    kind: str, workers: int, names: list[str], line: str
) -> None:
    result = outcome(PLAIN, claiming(kind, workers, *names))
    assert result.facts.get("shape") == line or any(line in text for text in result.denials)


@pytest.mark.parametrize(("status", "workers", "offset"), [("Complete", 2, ""), ("Ready", 4, "+2")])
def test_jobs_of_a_jobset_that_come_after_each_other_do_not_count_together(
    status: str, workers: int, offset: str
) -> None:
    """Blocks go by numbers, which begin at 0 again."""
    document = job("JobSet", 2)
    first = document["spec"]["replicatedJobs"][0]
    second = json.loads(json.dumps(first)) | {"name": "later", "dependsOn": [{"name": "w", "status": status}]}
    document["spec"]["replicatedJobs"].append(second)
    result = outcome(PLAIN, document)
    assert result.facts["workers"] == str(workers)
    template = ("spec", "replicatedJobs", 1, "template", "spec", "template")
    place = get(result.after, (*template, "metadata", "annotations", "ultraserver-webhook.io/place"))
    assert str(place).endswith(f"+labels/batch.kubernetes.io/job-completion-index{offset}")

"""Tests of jobs as in ``tests/data/field``: another program places or owns the job, or its size is unclear.

The jobs have a topology for Kueue (05), gangs of Kubernetes (07), a controller as the owner (11), AWS's third
ResourceClaimTemplate (12), or Pods that do not all run at once.
"""

import json
from typing import Any, Final

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.docs.blocks import REPOSITORY
from tests.rules.tables import outcome
from webhook.engine import Outcome
from webhook.engine import messages as engine_messages
from webhook.objects.tree import Json, get, get_map, put
from webhook.rows.table import Table
from webhook.rules.load import load_texts

PODSET: Final = "kueue.x-k8s.io/podset-"
SERVER: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
NETWORK_LAYER: Final = "topology.k8s.aws/network-node-layer-3"
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
"""For each kind, the paths of the pod templates whose Pods take nodes."""


def installed_table(*components: str) -> Table:
    """Returns the packaged table with whole-job admission and further files of the chart."""
    folder = REPOSITORY / "manifests" / "chart" / "rules"
    names = sorted(path for part in ("30-placement", *components) for path in folder.glob(f"{part}*"))
    return load_texts([(path.name, path.read_bytes()) for path in names], "installed")


TABLE: Final = installed_table()
KUEUE_TABLE: Final = installed_table("15-kueue")


def job(kind: str, workers: int = 4, *, spec: Json = None, **annotations: str) -> Any:
    """Returns a job of a kind whose pod templates have these annotations, and these fields in their specs."""
    containers = [{"name": "w", "image": "train:1", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}]
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": containers, **(spec or {})}}
    indexed = {"completionMode": "Indexed", "parallelism": workers, "completions": workers, "template": pod}
    version_and_spec: dict[str, tuple[str, Json]] = {
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
        version, job_spec = version_and_spec[kind]
        result = {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": job_spec}
    return json.loads(json.dumps(result))  # no two templates may be one dict: patches are applied in place


def queued_job(kind: str, workers: int = 4, **requests: str) -> Any:
    """Returns a job in a queue whose templates have these requests to Kueue, named without the prefix."""
    result = job(kind, workers, **{PODSET + key.replace("_", "-"): value for key, value in requests.items()})
    result["metadata"]["labels"] = QUEUE
    return result


def maps_of_templates(result: Outcome, kind: str, *inside: str) -> list[dict[str, Any]]:
    """Returns the map at a path inside each mutated template whose Pods take nodes."""
    return [get_map(result.after, (*path, *inside)) for path in TEMPLATES[kind]]


def kueue_requests(result: Outcome, kind: str) -> list[dict[str, str]]:
    """Returns the requests to Kueue of each template whose Pods take nodes, named without the prefix."""
    templates = maps_of_templates(result, kind, "metadata", "annotations")
    return [
        {key.removeprefix(PODSET): value for key, value in annotations.items() if key.startswith(PODSET)}
        for annotations in templates
    ]


def affinity_and_gates(result: Outcome, kind: str) -> list[set[str]]:
    """Returns the pod affinity and gates of each template whose Pods take nodes, as names of fields."""
    gates = [{"schedulingGates"} & spec.keys() for spec in maps_of_templates(result, kind, "spec")]
    terms = [
        affinity.keys() - {"nodeAffinity"} for affinity in maps_of_templates(result, kind, "spec", "affinity")
    ]
    return [term | gate for term, gate in zip(terms, gates, strict=True)]


def has_warning(result: Outcome, words: str) -> bool:
    return any(words in text for text in result.warnings)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("strictness", ["required", "preferred", "unconstrained"])
@pytest.mark.parametrize("level", [NETWORK_LAYER, "example.com/rack", SERVER, HOST])
def test_a_job_that_requests_a_topology_from_kueue_gets_no_pod_affinity(
    kind: str, strictness: str, level: str
) -> None:
    """A job with one template also gets slices, except if it requires one unit or if Kueue refuses slices."""
    requests = (
        {"unconstrained_topology": "true"}
        if strictness == "unconstrained"
        else {f"{strictness}_topology": level}
    )
    result = outcome(KUEUE_TABLE, queued_job(kind, **requests))
    assert not any(affinity_and_gates(result, kind))
    for template in kueue_requests(result, kind):
        assert template.items() >= {key.replace("_", "-"): value for key, value in requests.items()}.items()
    on_units = kind != "PyTorchJob" and (strictness == "unconstrained" or level != HOST)
    slices = on_units and (strictness, level) != ("required", SERVER)
    assert all(("slice-size" in template) is slices for template in kueue_requests(result, kind))
    assert has_warning(result, "nothing keeps the workers on whole units") is not on_units


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("term", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_of_the_author_is_a_warning_if_kueue_chooses_the_nodes(kind: str, term: str) -> None:
    """Kueue ignores pod affinity, so it can choose nodes that kube-scheduler refuses."""
    selector = {"matchLabels": {"app": "cache"}}
    for key, warns in ((SERVER, True), (HOST, False)):
        required = {REQUIRED: [{"topologyKey": key, "labelSelector": selector}]}
        document = queued_job(kind, required_topology=NETWORK_LAYER)
        for path in TEMPLATES[kind]:
            get(document, path)["spec"]["affinity"] = {term: json.loads(json.dumps(required))}
        result = outcome(KUEUE_TABLE, document)
        assert has_warning(result, f"affinity.{term}.{REQUIRED}[0]") is warns
        assert not has_warning(outcome(TABLE, document), "does not read the pod affinity")


NATIVE_GANG_SPECS: Final = [
    {"schedulingGroup": {"podGroupName": "gang-workers"}},
    {"workloadRef": {"name": "gang", "podGroup": "workers"}},
    {"workloadRef": {"name": "gang", "podGroup": "workers", "podGroupReplicaKey": "0"}},
]
"""Fields of gang scheduling in Kubernetes 1.35 to 1.37."""


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("spec", NATIVE_GANG_SPECS)
@pytest.mark.parametrize("table", [TABLE, KUEUE_TABLE], ids=["whole-job", "kueue"])
def test_a_job_of_any_kind_in_a_native_gang_gets_no_affinity_and_no_gate(
    kind: str, spec: Json, table: Table
) -> None:
    for workers in (4, 8):
        result = outcome(table, job(kind, workers, spec=spec))
        assert not any(affinity_and_gates(result, kind))
        assert has_warning(result, "Kubernetes' own gang scheduling")


def test_an_empty_scheduling_group_is_ignored() -> None:
    result = outcome(TABLE, job("Job", spec={"schedulingGroup": {}}))
    assert affinity_and_gates(result, "Job") == [{"podAffinity", "podAntiAffinity", "schedulingGates"}]


def owned_job(kind: str, version: str, **metadata: Json) -> Any:
    owner = {"apiVersion": version, "kind": kind, "name": "s", "uid": "a", "controller": True}
    result = job("Job")
    result["metadata"] |= {"ownerReferences": [owner], **metadata}
    return result


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
def test_a_job_whose_owner_is_not_placed_is_placed_like_a_job_without_owner(kind: str, version: str) -> None:
    assert outcome(TABLE, owned_job(kind, version)).fired() == outcome(TABLE, job("Job")).fired()


@pytest.mark.parametrize("kind", ["MPIJob", "JobSet", "TrainJob", "PyTorchJob", "LeaderWorkerSet"])
def test_the_reason_of_a_job_with_an_excluded_owner_says_that_inject_has_no_effect(kind: str) -> None:
    """Protects users who opt in the owned Job instead of its owner."""
    result = outcome(TABLE, owned_job(kind, "example.com/v1", annotations=INJECT))
    assert not result.operations
    assert result.reason == engine_messages.no_row(engine_messages.other_row("job", "owner", kind))


def test_inject_on_a_pod_template_gets_a_hint_to_use_the_jobs_metadata() -> None:
    document = job("Job", spec={"containers": [{"name": "w", "image": "train:1"}]}, **INJECT)
    result = outcome(TABLE, document)
    assert not result.operations
    assert result.reason == engine_messages.in_template(engine_messages.no_device("aws.amazon.com/neuron"))
    document["metadata"]["annotations"] = INJECT
    assert outcome(TABLE, document).operations


def test_the_webhook_configuration_excludes_the_same_owners_as_the_table() -> None:
    text = (REPOSITORY / "manifests" / "chart" / "templates" / "registrations.yaml").read_text(
        encoding="utf-8"
    )
    (row,) = (row for row in TABLE.workloads if row.name == "job")
    assert f"owner.kind in {[kind.removeprefix('!') for kind in row.when['owner']]}" in text


@pytest.mark.parametrize(
    ("parallelism", "completions", "fields", "workers", "gated"),
    [
        (4, 100, {"completionMode": "Indexed"}, 4, False),
        (8, 4, {"completionMode": "Indexed"}, 4, True),
        (8, 4, {}, 4, False),
        (8, None, {}, 8, False),
        (None, 8, {}, 1, False),
        (4, 4, {"completionMode": "Indexed", "suspend": True}, 4, True),
    ],
)
def test_the_workers_of_a_job_are_the_pods_that_run_at_once(
    parallelism: int | None, completions: int | None, fields: dict[str, Json], workers: int, *, gated: bool
) -> None:
    document = job("Job")
    counts = {"parallelism": parallelism, "completions": completions}
    document["spec"] = {
        "template": document["spec"]["template"],
        **{key: value for key, value in counts.items() if value is not None},
        **fields,
    }
    result = outcome(TABLE, document)
    assert result.facts["workers"] == str(workers)
    assert ("schedulingGates" in affinity_and_gates(result, "Job")[0]) is gated


@pytest.mark.parametrize(
    ("replicas", "parallelism", "completions", "workers"),
    [(4, 1, 1, 4), (2, 2, 2, 4), (2, 4, 2, 4), (3, 4, 1, 3)],
)
def test_the_workers_of_a_jobset_are_the_pods_that_run_at_once(
    replicas: int, parallelism: int, completions: int, workers: int
) -> None:
    """Protects blocks from gaps: the numbers of the second Job follow the numbers of the first Job."""
    document = job("JobSet")
    (replicated_job,) = document["spec"]["replicatedJobs"]
    replicated_job["replicas"] = replicas
    replicated_job["template"]["spec"] |= {"parallelism": parallelism, "completions": completions}
    result = outcome(TABLE, document)
    assert result.facts["workers"] == str(workers)
    assert "schedulingGates" in affinity_and_gates(result, "JobSet")[0]
    pods_per_job = min(parallelism, completions)
    factor = f"*{pods_per_job}" if pods_per_job > 1 else ""
    place = get(
        result.after, (*TEMPLATES["JobSet"][0], "metadata", "annotations", "ultraserver-webhook.io/place")
    )
    assert f"index=labels/jobset.sigs.k8s.io/job-index{factor}+labels/" in str(place)


def job_with_claims(kind: str, workers: int, *names: str) -> Any:
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(names)]
    uses = [{"name": claim["name"]} for claim in claims]
    containers = [{"name": "w", "image": "train:1", "resources": {"claims": uses}}]
    return job(kind, workers, spec={"containers": containers, "resourceClaims": claims})


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize(
    ("workers", "names", "shape_or_denial"),
    [
        (2, ["us-and-lnc-config"], "two-node"),
        (4, ["us-and-lnc-config"], "multi-pair"),
        (2, ["us-and-lnc-config", "us-2-node-config"], "two-node"),
        (4, ["us-4-node-config"], "four-node"),
        (3, ["us-and-lnc-config"], "3 workers do not fit node config 2 of "),
        (4, ["us-and-lnc-config", "us-4-node-config"], "use one node config in both"),
    ],
)
def test_a_job_with_claims_of_awss_templates_gets_their_shape_or_a_denial(
    kind: str, workers: int, names: list[str], shape_or_denial: str
) -> None:
    result = outcome(TABLE, job_with_claims(kind, workers, *names))
    shape = result.facts.get("shape")
    assert shape == shape_or_denial or any(shape_or_denial in text for text in result.denials)


@pytest.mark.parametrize(("status", "workers", "offset"), [("Complete", 2, ""), ("Ready", 4, "+2")])
def test_only_jobs_of_a_jobset_that_run_at_the_same_time_count_together(
    status: str, workers: int, offset: str
) -> None:
    """The numbers of a Job that runs after another Job begin at 0 again."""
    document = job("JobSet", 2)
    first = document["spec"]["replicatedJobs"][0]
    second = json.loads(json.dumps(first)) | {"name": "later", "dependsOn": [{"name": "w", "status": status}]}
    document["spec"]["replicatedJobs"].append(second)
    result = outcome(TABLE, document)
    assert result.facts["workers"] == str(workers)
    template = ("spec", "replicatedJobs", 1, "template", "spec", "template")
    place = get(result.after, (*template, "metadata", "annotations", "ultraserver-webhook.io/place"))
    assert str(place).endswith(f"+labels/batch.kubernetes.io/job-completion-index{offset}")

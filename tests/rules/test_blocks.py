"""The rows for Pods: every block of consecutive workers is one unit's, whatever the Pod says besides."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.mpijob import WORKER, mpijob
from tests.helpers import examples
from tests.rules.tables import after, extended, outcome
from webhook.engine.tree import Json, get
from webhook.rules.load import load_default

DEFAULT = load_default()
OURS = "ultraserver-webhook.io/"
MPI = "training.kubeflow.org/"
KUEUE = "kueue.x-k8s.io/podset-"
KEY_4 = "neuron.amazonaws.com/ultraserver-server-id-4"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MISSED: dict[str, str] = {}


def told(size: int = 4) -> dict[str, str]:
    """The annotations that a job's template gives its Pods."""
    return {
        OURS + "block-size": str(size),
        OURS + "topology-key": f"neuron.amazonaws.com/ultraserver-server-id-{size}",
    }


def pod(
    index: int | str, annotations: dict[str, str], *, role: str = "worker", owner: str = "MPIJob", **spec: Any
) -> dict[str, Any]:
    """A Pod as mpi-operator makes it."""
    labels = {"operator-name": "mpi-operator", "job-name": "train", "job-role": role, "replica-index": index}
    container = {"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-worker-{index}",
            "labels": {MPI + key: str(value) for key, value in labels.items()},
            "annotations": dict(annotations),
            "ownerReferences": [
                {"kind": "ConfigMap", "controller": False},
                {"kind": owner, "controller": True},
            ],
        },
        "spec": {"containers": [container], **spec},
    }


def block_of(obj: Json) -> Json:
    return get(obj, ("metadata", "labels", OURS + "block"))


def terms(obj: Json, kind: str) -> Json:
    return get(obj, ("spec", "affinity", kind, REQUIRED))


@examples(50)
@given(index=st.integers(0, 4000), size=st.sampled_from([2, 4]))
def test_consecutive_workers_are_one_block_and_a_pod_is_of_the_block_that_it_selects(
    index: int, size: int
) -> None:
    made = after(DEFAULT, pod(index, told(size)))
    block, key = str(index // size), told(size)[OURS + "topology-key"]
    assert block_of(made) == block
    assert terms(made, "podAffinity") == [
        {
            "labelSelector": {"matchLabels": {MPI + "job-name": "train", OURS + "block": block}},
            "topologyKey": key,
        }
    ]
    assert terms(made, "podAntiAffinity") == [
        {
            "labelSelector": {
                "matchExpressions": [
                    {"key": OURS + "block", "operator": "Exists"},
                    {"key": OURS + "block", "operator": "NotIn", "values": [block]},
                ],
                "matchLabels": {MPI + "job-name": "train"},
            },
            "topologyKey": key,
        }
    ]


@examples(50)
@given(
    index=st.integers(0, 99).map(str) | st.text(max_size=4),
    size=st.sampled_from(["4", "2", "0", "-4", "4.0", "many", "9" * 40]),
    role=st.sampled_from(["worker", "launcher", "other"]),
    taken=st.booleans(),
)
def test_whatever_a_pod_says_it_is_not_refused_and_a_second_evaluation_changes_nothing(
    index: str, size: str, role: str, *, taken: bool
) -> None:
    obj = pod(index, told() | {OURS + "block-size": size}, role=role)
    if taken:
        obj["metadata"]["labels"][OURS + "block"] = "mine"
    once = outcome(DEFAULT, obj)
    assert not once.denials
    assert outcome(DEFAULT, once.after).operations == ()
    if terms(once.after, "podAffinity"):
        (term,) = terms(once.after, "podAffinity")
        labels = once.after["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items(), "a Pod waits for itself"


@pytest.mark.parametrize("role", ["worker", "launcher"])
@pytest.mark.parametrize("said", [{}, {OURS + "topology-key": ""}])
def test_a_pod_with_the_size_of_a_block_alone_has_a_topology_key_that_the_api_server_takes(
    role: str, said: dict[str, str]
) -> None:
    annotations = {OURS + "block-size": "4", **said, OURS + "hostfile": "/root/ultraserver_init/new_hostfile"}
    (term,) = terms(after(DEFAULT, pod(0, annotations, role=role)), "podAffinity")
    assert term["topologyKey"] == KEY_4


def test_the_label_is_the_webhooks_own_and_its_value_is_always_computed() -> None:
    obj = pod(5, told())
    obj["metadata"]["labels"][OURS + "block"] = "0"
    found = outcome(DEFAULT, obj)
    assert block_of(found.after) == "1"
    assert "blocks-whole" in found.fired()


def test_a_launcher_that_runs_ranks_is_in_the_first_block_and_keeps_its_host_file() -> None:
    obj = pod(
        0, told() | {OURS + "hostfile": "/root/ultraserver_init/new_hostfile"}, role="launcher", owner="Job"
    )
    obj["spec"]["volumes"] = [{"name": "ultraserver-init", "emptyDir": {}}]
    found = outcome(DEFAULT, obj)
    assert block_of(found.after) == "0"
    assert {"blocks-whole", "hostfile"} <= set(found.fired())
    assert block_of(after(DEFAULT, pod(3, told()))) == "0"
    assert block_of(after(DEFAULT, pod(4, told()))) == "1"


@pytest.mark.parametrize("runs_ranks", [False, True])
@pytest.mark.parametrize(("workers", "config"), [(8, "4"), (16, "4"), (6, "2"), (4, "")])
def test_the_template_says_the_size_of_a_block_only_where_a_job_has_several(
    workers: int, config: str, *, runs_ranks: bool
) -> None:
    job = mpijob(workers - runs_ranks)
    job["spec"]["runLauncherAsWorker"] = runs_ranks
    result = after(DEFAULT, job)
    for role in ("Worker", "Launcher"):
        said = get(result, ("spec", "mpiReplicaSpecs", role, "template", "metadata", "annotations")) or {}
        takes_nodes = role == "Worker" or runs_ranks
        wanted = told(int(config)) if config and takes_nodes else {}
        assert {key: said[key] for key in told() if key in said} == wanted


def test_a_job_asked_for_with_another_node_config_has_blocks_of_that_size() -> None:
    for config, size in (("2", "2"), ("1", None)):
        result = after(DEFAULT, mpijob(8, annotations={OURS + "node-config": config}))
        assert get(result, (*WORKER, "metadata", "annotations", OURS + "block-size")) == size


def test_a_size_that_the_author_chose_stays_and_nothing_but_a_number_makes_blocks() -> None:
    job = mpijob(8)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {
        "annotations": {OURS + "block-size": "0"}
    }
    found = outcome(DEFAULT, job)
    assert any("kept yours" in text and "block-size" in text for text in found.warnings)
    assert get(found.after, (*WORKER, "metadata", "annotations", OURS + "block-size")) == "0"
    obj = pod(5, told() | {OURS + "block-size": "0", OURS + "added": "{}"})
    assert outcome(DEFAULT, obj).operations == ()


def test_terms_of_the_author_stay_beside_those_of_the_block() -> None:
    mine = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    made = after(DEFAULT, pod(5, told(), affinity={"podAffinity": {REQUIRED: [mine]}}))
    assert terms(made, "podAffinity")[0] == mine
    assert len(terms(made, "podAffinity")) == 2


@pytest.mark.parametrize("annotations", [told(), MISSED], ids=["told", "missed"])
@pytest.mark.parametrize("key", ["required", "preferred", "unconstrained", "slice-required"])
def test_a_pod_whose_place_kueue_chooses_is_left_alone(key: str, annotations: dict[str, str]) -> None:
    obj = pod(5, annotations | {f"{KUEUE}{key}-topology": KEY_4})
    assert outcome(DEFAULT, obj).operations == ()


def test_a_pod_of_a_job_that_the_webhook_did_not_see_is_in_a_block_of_a_whole_ultraserver() -> None:
    for owner, role in (("MPIJob", "worker"), ("Job", "launcher")):
        made = after(DEFAULT, pod(5, MISSED, owner=owner, role=role))
        assert block_of(made) == "1"
        assert terms(made, "podAffinity")[0]["topologyKey"] == KEY_4
        assert made["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}


TRN1 = "trn1.32xlarge"
ELSEWHERE = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TRN1]}
                    ]
                }
            ]
        }
    }
}


@pytest.mark.parametrize(
    "obj",
    [
        pod(5, MISSED, nodeSelector={"node.kubernetes.io/instance-type": TRN1}),
        pod(5, MISSED, affinity=ELSEWHERE),
        pod(5, MISSED, containers=[{"name": "x", "image": "i"}]),
        pod(5, MISSED, containers=[{"name": "x", "resources": {"limits": {"aws.amazon.com/neuron": 8}}}]),
        pod(5, MISSED, owner="ReplicaSet"),
        pod(5, {OURS + "added": "{}"}),
        pod(5, {OURS + "inject": "false"}),
        pod("", MISSED),
        pod(5, MISSED) | {"metadata": {"labels": {MPI + "replica-index": "5"}}},
    ],
    ids=[
        "selector",
        "affinity",
        "no-neuron",
        "half",
        "owner",
        "seen",
        "opted-out",
        "no-index",
        "no-operator",
    ],
)
def test_of_pods_without_a_word_from_their_job_only_mpi_workers_for_ultraservers_get_blocks(
    obj: dict[str, Any],
) -> None:
    made = after(DEFAULT, obj)
    assert block_of(made) is None
    assert get(made, ("spec", "nodeSelector")) == get(obj, ("spec", "nodeSelector"))


def test_switched_off_by_one_row_no_job_has_blocks() -> None:
    result = after(extended("rules: [{name: blocks, mode: off}]"), mpijob(8))
    assert "block-size" not in str(get(result, (*WORKER, "metadata")))


JOB = {OURS + "job": "default.train"}
INDEX = "batch.kubernetes.io/job-completion-index"
RANK = {"env": [{"name": "PET_NODE_RANK", "value": "6"}]}
OF_TRAINING_OPERATOR = {
    MPI + "operator-name": "mpijob-controller",
    MPI + "job-name": "train",
    MPI + "replica-type": "worker",
    MPI + "replica-index": "5",
}
NUMBERED: dict[str, tuple[dict[str, str], dict[str, str], dict[str, Any], str]] = {
    "an Indexed Job": ({INDEX: "6"}, {}, {}, "1"),
    "a Job without numbers": ({}, {}, {}, ""),
    "a JobSet": ({"jobset": "train", "job-index": "3", INDEX: "0"}, {OURS + "pods-per-job": "2"}, {}, "1"),
    "a JobSet that does not say its parallelism": (
        {"jobset": "train", "job-index": "3", INDEX: "0"},
        {},
        {},
        "",
    ),
    "a LeaderWorkerSet": ({"group-index": "2", "worker-index": "5"}, {"size": "8"}, {}, "5"),
    "an MPIJob of training-operator": (OF_TRAINING_OPERATOR, {}, {}, "1"),
    "a PyTorchJob with a master": ({"pytorch": "5"}, {}, RANK, "1"),
    "a PyTorchJob without": ({"pytorch": "8"}, {}, {}, "2"),
}
"""By kind: labels, annotations, more of the container, and the block in units of four."""
NAMES = {
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "job-index": "jobset.sigs.k8s.io/job-index",
    "group-index": "leaderworkerset.sigs.k8s.io/group-index",
    "worker-index": "leaderworkerset.sigs.k8s.io/worker-index",
    "size": "leaderworkerset.sigs.k8s.io/size",
    "pytorch": MPI + "replica-index",
}


@pytest.mark.parametrize(
    ("labels", "annotations", "container", "block"), NUMBERED.values(), ids=NUMBERED.keys()
)
def test_a_pod_of_another_kind_is_of_the_block_that_its_number_says(
    labels: dict[str, str], annotations: dict[str, str], container: dict[str, Any], block: str
) -> None:
    found = {NAMES.get(key, key): value for key, value in (JOB | labels).items()}
    if "pytorch" in labels:
        found |= {MPI + "operator-name": "pytorchjob-controller", MPI + "job-name": "train"}
    notes = told() | {NAMES.get(key, key): value for key, value in annotations.items()}
    plain = pod(0, notes, containers=[{"name": "pytorch", "image": "i", **container}])
    plain["metadata"]["labels"] = found
    made = after(DEFAULT, plain)
    assert (block_of(made) or "") == block
    if not block:
        assert made == plain
        return
    (term,) = terms(made, "podAffinity")
    job = {MPI + "job-name": "train"} if MPI + "job-name" in found else JOB
    assert term["labelSelector"] == {"matchLabels": {**job, OURS + "block": block}}
    assert terms(made, "podAntiAffinity")[0]["labelSelector"]["matchLabels"] == job


@pytest.mark.parametrize("number", ["-1", "1.0", "x", "", "9" * 12])
def test_a_number_that_is_none_makes_no_block(number: str) -> None:
    for labels, annotations in (
        ({"group-index": number, "worker-index": "5"}, {"size": "8"}),
        ({"group-index": "2", "worker-index": number}, {"size": "8"}),
        ({"group-index": "2", "worker-index": "5"}, {"size": number}),
    ):
        plain = pod(0, told() | {NAMES[key]: value for key, value in annotations.items()})
        plain["metadata"]["labels"] = JOB | {NAMES[key]: value for key, value in labels.items()}
        assert after(DEFAULT, plain) == plain


def jobset(jobs: dict[str, int | None]) -> dict[str, Any]:
    """A JobSet of eight Jobs of each name; None where it does not say how many Pods these have."""
    spec = {
        "containers": [{"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}]
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {
            "replicatedJobs": [
                {
                    "name": name,
                    "replicas": 8,
                    "template": {
                        "spec": {
                            **({} if pods is None else {"parallelism": pods}),
                            "template": {"spec": spec},
                        }
                    },
                }
                for name, pods in jobs.items()
            ]
        },
    }


@pytest.mark.parametrize(
    ("jobs", "told_to_pods"),
    [
        ({"workers": 2}, "2"),
        ({"workers": None}, "1"),
        ({"node": None}, "1"),
        ({"workers": 1, "node": 1}, None),
    ],
    ids=["written", "a Job's default", "of a TrainJob", "two groups"],
)
def test_the_pods_of_a_jobset_are_told_how_many_each_job_has(
    jobs: dict[str, int | None], told_to_pods: str | None
) -> None:
    made = after(DEFAULT, jobset(jobs))
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    notes = template["metadata"]["annotations"]
    assert notes[OURS + "block-size"] == "4"
    assert notes.get(OURS + "pods-per-job") == told_to_pods

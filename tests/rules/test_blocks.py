"""The rows for Pods: every block of consecutive workers is one unit's, whatever the Pod says besides."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import WORKER, mpijob
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
    assert outcome(DEFAULT, pod(5, told() | {OURS + "block-size": "0"})).operations == ()


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
        pod(5, MISSED, owner="ReplicaSet"),
        pod(5, {OURS + "added": "{}"}),
        pod(5, {OURS + "inject": "false"}),
        pod("", MISSED),
        pod(5, MISSED) | {"metadata": {"labels": {MPI + "replica-index": "5"}}},
    ],
    ids=["selector", "affinity", "no-neuron", "owner", "seen", "opted-out", "no-index", "no-operator"],
)
def test_of_pods_without_a_word_from_their_job_only_mpi_workers_for_ultraservers_get_blocks(
    obj: dict[str, Any],
) -> None:
    assert outcome(DEFAULT, obj).operations == ()


def test_switched_off_by_one_row_no_job_has_blocks() -> None:
    result = after(extended("rules: [{name: blocks, mode: off}]"), mpijob(8))
    assert "block-size" not in str(get(result, (*WORKER, "metadata")))

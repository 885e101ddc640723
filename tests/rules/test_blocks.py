"""The rows for Pods: every block of consecutive workers is on one unit, with any other fields of the Pod."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys, place
from testbed.mpijob import WORKER, mpijob
from testbed.plane.nodes import INSTANCE_TYPE
from tests.helpers import examples
from tests.rules.tables import after, outcome
from webhook.objects.tree import Json, get
from webhook.rules.load import load_default, load_texts

DEFAULT = load_default()
COMPONENT = Path("manifests/chart/rules/40-missed-jobs.yaml")
MISSED = load_texts([(COMPONENT.name, COMPONENT.read_text(encoding="utf-8"))], "rules")
OURS = keys.PREFIX
MPI = keys.TRAINING
INDEX = f"labels/{MPI}replica-index"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def annotated(size: int = 4, placer: str = "affinity", index: str = INDEX) -> dict[str, str]:
    """Returns the annotation that a job's template gives its Pods."""
    unit = f"{keys.ULTRASERVER}server-id-{size}"
    return {
        keys.PLACE: f"placer={placer} workers=400 size={size} unit={unit} index={index}",
        keys.ADDED: "{}",
    }


def pod(
    index: int | str, annotations: dict[str, str], *, role: str = "worker", owner: str = "MPIJob", **spec: Any
) -> dict[str, Any]:
    """Returns a Pod as mpi-operator makes it, of a job that was mutated if it has annotations."""
    labels = {"operator-name": "mpi-operator", "job-name": "train", "job-role": role, "replica-index": index}
    container = {"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-worker-{index}",
            "labels": {MPI + key: str(value) for key, value in labels.items()}
            | ({keys.JOB: "default.train"} if annotations else {}),
            "annotations": dict(annotations),
            "ownerReferences": [
                {"kind": "ConfigMap", "controller": False},
                {"kind": owner, "controller": True},
            ],
        },
        "spec": {"containers": [container], **spec},
    }


def block_of(obj: Json) -> Json:
    return get(obj, ("metadata", "labels", keys.BLOCK))


def terms(obj: Json, kind: str) -> Json:
    return get(obj, ("spec", "affinity", kind, REQUIRED))


@examples(50)
@given(index=st.integers(0, 4000), size=st.sampled_from([2, 4]))
def test_consecutive_workers_are_one_block_and_a_pod_is_of_the_block_that_it_selects(
    index: int, size: int
) -> None:
    made = after(DEFAULT, pod(index, annotated(size)))
    block, unit = str(index // size), f"{keys.ULTRASERVER}server-id-{size}"
    job = {keys.JOB: "default.train"}
    assert block_of(made) == block
    (together,), (apart,) = terms(made, "podAffinity"), terms(made, "podAntiAffinity")
    assert together == {"labelSelector": {"matchLabels": {**job, keys.BLOCK: block}}, "topologyKey": unit}
    assert apart["topologyKey"] == unit
    assert apart["labelSelector"]["matchLabels"] == job
    assert apart["labelSelector"]["matchExpressions"] == [
        {"key": keys.BLOCK, "operator": "Exists"},
        {"key": keys.BLOCK, "operator": "NotIn", "values": [block]},
    ]


@examples(50)
@given(
    index=st.integers(0, 99).map(str) | st.text(max_size=4),
    said=st.sampled_from([annotated(), annotated(2), annotated(4, "gate")])
    | st.text(max_size=60).map(lambda text: {keys.PLACE: f"placer=affinity {text}"}),
    role=st.sampled_from(["worker", "launcher", "other"]),
    taken=st.booleans(),
)
def test_no_pod_is_refused_and_a_second_evaluation_changes_nothing(
    index: str, said: dict[str, str], role: str, *, taken: bool
) -> None:
    obj = pod(index, said | {keys.ADDED: "{}"}, role=role)
    if taken:
        obj["metadata"]["labels"][keys.BLOCK] = "mine"
    once = outcome(DEFAULT, obj)
    assert not once.denials
    assert outcome(DEFAULT, once.after).operations == ()
    if terms(once.after, "podAffinity"):
        (term,) = terms(once.after, "podAffinity")
        labels = once.after["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items(), "a Pod waits for itself"


def test_the_label_is_the_webhooks_own_and_its_value_is_always_computed() -> None:
    obj = pod(5, annotated())
    obj["metadata"]["labels"][keys.BLOCK] = "0"
    assert block_of(outcome(DEFAULT, obj).after) == "1"


def test_a_launcher_that_runs_ranks_is_in_the_first_block_and_keeps_its_host_file() -> None:
    hostfile = {OURS + "hostfile": "/root/ultraserver_init/new_hostfile"}
    obj = pod(0, annotated() | hostfile, role="launcher", owner="Job")
    obj["spec"]["volumes"] = [{"name": "ultraserver-init", "emptyDir": {}}]
    result = outcome(DEFAULT, obj)
    assert block_of(result.after) == "0"
    assert {"blocks-whole", "hostfile"} <= set(result.fired())


@pytest.mark.parametrize("runs_ranks", [False, True])
@pytest.mark.parametrize(("workers", "config"), [(8, 4), (6, 2), (4, 4), (1, 1), (3, 1)])
def test_templates_of_workers_get_a_placement_annotation(
    workers: int, config: int, *, runs_ranks: bool
) -> None:
    job = mpijob(workers - runs_ranks)
    job["spec"]["runLauncherAsWorker"] = runs_ranks
    if workers - runs_ranks == 0:
        return
    result = after(DEFAULT, job)
    for role in ("Worker", "Launcher"):
        metadata = get(result, ("spec", "mpiReplicaSpecs", role, "template", "metadata"))
        read = place.read(metadata)
        if role == "Launcher" and not runs_ranks:
            assert read is None
            continue
        assert read is not None
        assert (read.placer, read.workers, read.size) == ("scheduler", workers, config)
        assert read.unit == {4: keys.SERVER_4, 2: keys.SERVER_2, 1: keys.HOSTNAME}[config]
        assert str(read.index) == INDEX


def test_the_authors_own_placement_annotation_is_replaced() -> None:
    job = mpijob(8, annotations={keys.NODE_CONFIG: "2"})
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    mine = {keys.PLACE: "placer=gate workers=1 size=1 unit=zone", keys.OPENED: "0"}
    template["metadata"] = {"annotations": mine}
    result = outcome(DEFAULT, job)
    annotations = get(result.after, (*WORKER, "metadata", "annotations"))
    assert annotations[keys.PLACE].startswith("placer=affinity workers=8 size=2 ")
    assert keys.OPENED not in annotations
    assert [text.partition(" ")[0] for text in result.warnings] == ["replaced", "removed"]


def test_terms_of_the_author_stay_next_to_those_of_the_block() -> None:
    mine = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    made = after(DEFAULT, pod(5, annotated(), affinity={"podAffinity": {REQUIRED: [mine]}}))
    assert terms(made, "podAffinity")[0] == mine
    assert len(terms(made, "podAffinity")) == 2


@pytest.mark.parametrize(
    "annotations",
    [
        annotated(placer="gate"),
        annotated(placer="kueue"),
        annotated() | {keys.PLACE: f"placer=affinity workers=4 size=4 unit={keys.SERVER_4} index={INDEX}"},
        annotated() | {keys.PLACE: f"placer=affinity workers=3 size=1 unit={keys.HOSTNAME} index={INDEX}"},
        annotated() | {keys.PLACE: f"placer=affinity workers=8 size=4 unit={keys.SERVER_4}"},
        annotated(index="labels/no-such-label"),
    ],
    ids=["gate", "kueue", "one-unit", "single-nodes", "no-index", "no-number"],
)
def test_a_pod_that_something_else_places_or_that_is_of_no_block_is_left_alone(
    annotations: dict[str, str],
) -> None:
    assert outcome(DEFAULT, pod(5, annotations)).operations == ()


TYPE = {"key": INSTANCE_TYPE, "operator": "In", "values": ["trn1.32xlarge"]}
ELSEWHERE = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [TYPE]}]}}}


@pytest.mark.parametrize(
    "obj",
    [
        pod(5, {}, nodeSelector={INSTANCE_TYPE: "trn1.32xlarge"}),
        pod(5, {}, affinity=ELSEWHERE),
        pod(5, {}, containers=[{"name": "x", "image": "i"}]),
        pod(5, {OURS + "added": "{}"}),
        pod(5, {OURS + "inject": "false"}),
        pod("", {}),
        pod(5, {}) | {"metadata": {"labels": {MPI + "replica-index": "5"}}},
    ],
    ids=["selector", "affinity", "no-neuron", "seen", "opted-out", "no-index", "no-operator"],
)
def test_of_pods_without_a_word_from_their_job_only_mpi_workers_for_ultraservers_get_blocks(
    obj: dict[str, Any],
) -> None:
    made = after(MISSED, obj)
    assert block_of(made) is None
    assert get(made, ("spec", "nodeSelector")) == get(obj, ("spec", "nodeSelector"))

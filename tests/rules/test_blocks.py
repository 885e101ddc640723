"""Tests of the rules that give Pods of jobs the label of their block, and affinity to it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys, placement
from testbed.mpijob import WORKER, mpijob
from testbed.plane.nodes import INSTANCE_TYPE
from tests.helpers import examples
from tests.rules.tables import mutate, outcome
from webhook.objects.tree import Json, get
from webhook.rules.load import load_default, load_texts

DEFAULT = load_default()
COMPONENT = Path("manifests/chart/rules/40-missed-jobs.yaml")
MISSED_JOBS_TABLE = load_texts([(COMPONENT.name, COMPONENT.read_text(encoding="utf-8"))], "rules")
PREFIX = keys.PREFIX
TRAINING = keys.TRAINING
INDEX = f"labels/{TRAINING}replica-index"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def template_annotations(size: int = 4, placer: str = "affinity", index: str = INDEX) -> dict[str, str]:
    """Returns the annotations that a job's template gives its Pods."""
    unit = f"{keys.ULTRASERVER}server-id-{size}"
    return {
        keys.PLACEMENT: f"placer={placer} workers=400 size={size} unit={unit} index={index}",
        keys.ADDED: "{}",
    }


def pod(
    index: int | str, annotations: dict[str, str], *, role: str = "worker", owner: str = "MPIJob", **spec: Any
) -> dict[str, Any]:
    """Returns a Pod as mpi-operator creates it. If it has annotations, the webhook has mutated its job."""
    labels = {"operator-name": "mpi-operator", "job-name": "train", "job-role": role, "replica-index": index}
    container = {"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-worker-{index}",
            "labels": {TRAINING + key: str(value) for key, value in labels.items()}
            | ({keys.JOB: "default.train"} if annotations else {}),
            "annotations": dict(annotations),
            "ownerReferences": [
                {"kind": "ConfigMap", "controller": False},
                {"kind": owner, "controller": True},
            ],
        },
        "spec": {"containers": [container], **spec},
    }


def block_label(obj: Json) -> Json:
    return get(obj, ("metadata", "labels", keys.BLOCK))


def affinity_terms(obj: Json, kind: str) -> Json:
    return get(obj, ("spec", "affinity", kind, REQUIRED))


@examples(50)
@given(index=st.integers(0, 4000), size=st.sampled_from([2, 4]))
def test_a_worker_gets_the_label_of_its_block_and_affinity_to_the_same_block(index: int, size: int) -> None:
    mutated = mutate(DEFAULT, pod(index, template_annotations(size)))
    block, unit = str(index // size), f"{keys.ULTRASERVER}server-id-{size}"
    job = {keys.JOB: "default.train"}
    assert block_label(mutated) == block
    (together,), (apart,) = affinity_terms(mutated, "podAffinity"), affinity_terms(mutated, "podAntiAffinity")
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
    annotations=st.sampled_from(
        [template_annotations(), template_annotations(2), template_annotations(4, "gate")]
    )
    | st.text(max_size=60).map(lambda text: {keys.PLACEMENT: f"placer=affinity {text}"}),
    role=st.sampled_from(["worker", "launcher", "other"]),
    has_block_label=st.booleans(),
)
def test_no_pod_is_refused_and_a_second_evaluation_changes_nothing(
    index: str, annotations: dict[str, str], role: str, *, has_block_label: bool
) -> None:
    obj = pod(index, annotations | {keys.ADDED: "{}"}, role=role)
    if has_block_label:
        obj["metadata"]["labels"][keys.BLOCK] = "mine"
    first = outcome(DEFAULT, obj)
    assert not first.denials
    assert outcome(DEFAULT, first.after).operations == ()
    if affinity_terms(first.after, "podAffinity"):
        (term,) = affinity_terms(first.after, "podAffinity")
        labels = first.after["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items(), (
            "the Pod does not match its own affinity"
        )


def test_the_webhook_replaces_a_block_label_of_the_author() -> None:
    obj = pod(5, template_annotations())
    obj["metadata"]["labels"][keys.BLOCK] = "0"
    assert block_label(outcome(DEFAULT, obj).after) == "1"


def test_a_launcher_that_runs_ranks_is_in_the_first_block_and_gets_the_host_file() -> None:
    hostfile = {PREFIX + "hostfile": "/root/ultraserver_init/new_hostfile"}
    obj = pod(0, template_annotations() | hostfile, role="launcher", owner="Job")
    obj["spec"]["volumes"] = [{"name": "ultraserver-init", "emptyDir": {}}]
    result = outcome(DEFAULT, obj)
    assert block_label(result.after) == "0"
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
    result = mutate(DEFAULT, job)
    for role in ("Worker", "Launcher"):
        metadata = get(result, ("spec", "mpiReplicaSpecs", role, "template", "metadata"))
        annotation = placement.read(metadata)
        if role == "Launcher" and not runs_ranks:
            assert annotation is None
            continue
        assert annotation is not None
        assert (annotation.placer, annotation.workers, annotation.size) == ("scheduler", workers, config)
        assert annotation.unit == {4: keys.SERVER_4, 2: keys.SERVER_2, 1: keys.HOSTNAME}[config]
        assert str(annotation.index) == INDEX


def test_the_authors_own_placement_annotation_is_replaced() -> None:
    job = mpijob(8, annotations={keys.NODE_CONFIG: "2"})
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    own = {keys.PLACEMENT: "placer=gate workers=1 size=1 unit=zone", keys.OPENED: "0"}
    template["metadata"] = {"annotations": own}
    result = outcome(DEFAULT, job)
    annotations = get(result.after, (*WORKER, "metadata", "annotations"))
    assert annotations[keys.PLACEMENT].startswith("placer=affinity workers=8 size=2 ")
    assert keys.OPENED not in annotations
    assert [text.partition(" ")[0] for text in result.warnings] == ["replaced", "removed"]


def test_affinity_terms_of_the_author_are_kept() -> None:
    own = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    mutated = mutate(DEFAULT, pod(5, template_annotations(), affinity={"podAffinity": {REQUIRED: [own]}}))
    assert affinity_terms(mutated, "podAffinity")[0] == own
    assert len(affinity_terms(mutated, "podAffinity")) == 2


@pytest.mark.parametrize(
    "annotations",
    [
        template_annotations(placer="gate"),
        template_annotations(placer="kueue"),
        template_annotations()
        | {keys.PLACEMENT: f"placer=affinity workers=4 size=4 unit={keys.SERVER_4} index={INDEX}"},
        template_annotations()
        | {keys.PLACEMENT: f"placer=affinity workers=3 size=1 unit={keys.HOSTNAME} index={INDEX}"},
        template_annotations() | {keys.PLACEMENT: f"placer=affinity workers=8 size=4 unit={keys.SERVER_4}"},
        template_annotations(index="labels/no-such-label"),
    ],
    ids=["gate", "kueue", "one-unit", "single-nodes", "no-index", "no-number"],
)
def test_a_pod_that_another_placer_places_or_that_is_in_no_block_is_unchanged(
    annotations: dict[str, str],
) -> None:
    assert outcome(DEFAULT, pod(5, annotations)).operations == ()


OTHER_TYPE = {"key": INSTANCE_TYPE, "operator": "In", "values": ["trn1.32xlarge"]}
OTHER_NODES = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OTHER_TYPE]}]}}}


@pytest.mark.parametrize(
    "obj",
    [
        pod(5, {}, nodeSelector={INSTANCE_TYPE: "trn1.32xlarge"}),
        pod(5, {}, affinity=OTHER_NODES),
        pod(5, {}, containers=[{"name": "x", "image": "i"}]),
        pod(5, {PREFIX + "added": "{}"}),
        pod(5, {PREFIX + "inject": "false"}),
        pod("", {}),
        pod(5, {}) | {"metadata": {"labels": {TRAINING + "replica-index": "5"}}},
    ],
    ids=["selector", "affinity", "no-neuron", "mutated", "opted-out", "no-index", "no-operator"],
)
def test_a_pod_that_the_rule_for_missed_jobs_excludes_gets_no_block_and_keeps_its_node_selector(
    obj: dict[str, Any],
) -> None:
    mutated = mutate(MISSED_JOBS_TABLE, obj)
    assert block_label(mutated) is None
    assert get(mutated, ("spec", "nodeSelector")) == get(obj, ("spec", "nodeSelector"))

"""MPIJobs, launcher Pods and records with anything anywhere, for the doors to be tried with."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.helpers import LAUNCHER, WORKER, mpijob, requested
from webhook.engine import evaluate, keys
from webhook.engine.tree import get
from webhook.rules.load import load_default

WORDS = st.sampled_from(
    [
        "",
        "name",
        "true",
        "false",
        "4",
        "2",
        "train",
        "trn2u.48xlarge",
        "wait-hostfilename",
        "~1",
        "[x]",
        "-",
        "spec",
        "metadata",
        "labels",
        "containers",
        "image",
        "value",
        keys.INJECT,
        keys.JOB,
        keys.ADDED,
    ]
)
TEXTS = WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TEMPLATE_PLACES: list[tuple[str | int, ...]] = [
    (),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "labels"),
    ("metadata", "labels", keys.JOB),
    ("metadata", "annotations"),
    ("metadata", "annotations", keys.ADDED),
    ("spec",),
    ("spec", "nodeSelector"),
    ("spec", "nodeSelector", "node.kubernetes.io/instance-type"),
    ("spec", "affinity"),
    ("spec", "affinity", "podAffinity"),
    ("spec", "affinity", "podAffinity", REQUIRED),
    ("spec", "affinity", "podAffinity", PREFERRED),
    ("spec", "affinity", "podAntiAffinity"),
    ("spec", "affinity", "podAntiAffinity", REQUIRED),
    ("spec", "affinity", "nodeAffinity"),
    ("spec", "affinity", "nodeAffinity", REQUIRED),
    ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"),
    ("spec", "containers"),
    ("spec", "containers", 0),
    ("spec", "containers", 0, "name"),
    ("spec", "containers", 0, "image"),
    ("spec", "containers", 0, "env"),
    ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "resources", "limits"),
    ("spec", "containers", 0, "resources", "limits", "aws.amazon.com/neuron"),
    ("spec", "initContainers"),
    ("spec", "volumes"),
]
PLACES: list[tuple[str | int, ...]] = [
    *(role + place for role in (WORKER, LAUNCHER) for place in TEMPLATE_PLACES),
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "generateName"),
    ("metadata", "namespace"),
    ("metadata", "labels"),
    ("metadata", "labels", keys.INJECT),
    ("metadata", "annotations"),
    ("metadata", "annotations", keys.INJECT),
    ("metadata", "annotations", keys.NODE_CONFIG),
    ("metadata", "managedFields"),
    ("spec",),
    ("spec", "sshAuthMountPath"),
    ("spec", "mpiImplementation"),
    ("spec", "runLauncherAsWorker"),
    ("spec", "mpiReplicaSpecs"),
    ("spec", "mpiReplicaSpecs", "Worker"),
    ("spec", "mpiReplicaSpecs", "Launcher"),
    ("spec", "mpiReplicaSpecs", "Worker", "replicas"),
]


MUTATED = evaluate(load_default(), requested(mpijob())).after


def placed(node: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        items = node if isinstance(node, list) and node else [{}]
        return [placed(items[0], rest, value), *items[1:]]
    fields = node if isinstance(node, dict) else {}
    return {**fields, key: placed(fields.get(key), rest, value)}


@st.composite
def mpijobs(draw: st.DrawFn) -> Any:
    """An MPIJob with something of any kind in one to four places that the webhook may look at."""
    job: Any = mpijob(
        draw(st.sampled_from([1, 2, 3, 4, 8])), generate_name=draw(st.sampled_from([None, "g-"]))
    )
    if draw(st.booleans()):
        job["spec"]["runLauncherAsWorker"] = True
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4, unique=True)):
        job = placed(job, place, draw(VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(TEXTS, VALUES)))
    return job


@st.composite
def launcher_pods(draw: st.DrawFn) -> Any:
    """A launcher's Pod as mpi-operator makes it, with something of any kind in one to three places."""
    pod: Any = {"apiVersion": "v1", "kind": "Pod", **get(MUTATED, LAUNCHER)}
    pod = placed(pod, ("metadata", "labels"), {"training.kubeflow.org/job-role": "launcher"})
    for place in draw(st.lists(st.sampled_from(TEMPLATE_PLACES), min_size=1, max_size=3, unique=True)):
        pod = placed(pod, place, draw(VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(TEXTS, VALUES)))
    return pod


@st.composite
def records(draw: st.DrawFn) -> str:
    """The text of a record as somebody may forge it, lone surrogates too."""
    value = draw(
        st.fixed_dictionaries(
            {
                "added": st.dictionaries(
                    TEXTS.map("/".__add__), TEXTS | st.lists(TEXTS, max_size=3), max_size=3
                )
            },
            optional={"table": VALUES, "uid": st.text(max_size=3)},
        )
    )
    return json.dumps(value)

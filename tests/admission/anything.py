"""Generates MPIJobs, Pods and records with random values at random places.

The random numbers are from a seeded `random.Random`, or from Hypothesis, which can shrink the objects.
"""

import copy
import json
import random
from typing import Any

from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.helpers import request_for
from webhook.engine import evaluate
from webhook.objects.tree import get
from webhook.rules.load import load_default

WORDS = [
    *("", "name", "true", "false", "4", "2", "train", "trn2u.48xlarge", "wait-hostfilename", "~1"),
    *("[x]", "-", "spec", "metadata", "labels", "containers", "image", "value"),
    *(keys.INJECT, keys.JOB, keys.ADDED),
]
LETTERS = "aZ09 ._-~/$()[]{}\"'\\\n\x00\x7fä\u2028\U0001f680"
NUMBERS = [0, 1, -1, 2, 3, 4, 16, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, 0.5, -1.5, 1e300]

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


MUTATED = evaluate(load_default(), request_for(mpijob())).after


def with_value(node: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Returns a copy of a node with a value at a path. Missing maps and lists are created."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        items = node if isinstance(node, list) and node else [{}]
        return [with_value(items[0], rest, value), *items[1:]]
    fields = node if isinstance(node, dict) else {}
    return {**fields, key: with_value(fields.get(key), rest, value)}


class Anything:
    """Draws random values, objects and records. The same random numbers give the same objects."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def text(self) -> str:
        """Returns a word that has a meaning for the webhook, or a few random letters."""
        if self.rng.randrange(3):
            return self.rng.choice(WORDS)
        return "".join(self.rng.choice(LETTERS) for _ in range(self.rng.randrange(6)))

    def value(self, levels: int = 3) -> Any:
        """Returns a random JSON value with at most this number of nested levels."""
        kind = self.rng.randrange(10 if levels else 6)
        if kind < 3:
            return self.rng.choice([None, True, False, [], {}])
        if kind < 4:
            return self.rng.choice(NUMBERS)
        if kind < 6:
            return self.text()
        count = self.rng.randrange(4)
        if kind < 8:
            return [self.value(levels - 1) for _ in range(count)]
        return {self.text(): self.value(levels - 1) for _ in range(count)}

    def with_random_values(self, obj: Any, places: list[tuple[str | int, ...]], maximum: int) -> Any:
        """Returns the object with random values at up to ``maximum`` of the places."""
        for place in self.rng.sample(places, self.rng.randrange(1, maximum + 1)):
            obj = with_value(obj, place, self.value())
        return obj

    def mpijob(self) -> Any:
        """Returns an MPIJob with random values at one to four places that the webhook may read."""
        generate_name = self.rng.choice([None, "g-"])
        job: Any = mpijob(self.rng.choice([1, 2, 3, 4, 8]), generate_name=generate_name)
        if self.rng.randrange(2):
            job["spec"]["runLauncherAsWorker"] = True
        return self.with_random_values(job, PLACES, 4)

    def launcher_pod(self) -> Any:
        """Returns a launcher Pod of mpi-operator with random values at one to three places."""
        pod: Any = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(get(MUTATED, LAUNCHER))}
        pod = with_value(pod, ("metadata", "labels"), {"training.kubeflow.org/job-role": "launcher"})
        return self.with_random_values(pod, TEMPLATE_PLACES, 3)

    def record(self) -> str:
        """Returns a record with random contents, as a user may forge it."""
        places = {f"/{self.text()}": self._digests() for _ in range(self.rng.randrange(4))}
        return json.dumps({"added": places, **({"table": self.value()} if self.rng.randrange(2) else {})})

    def _digests(self) -> Any:
        texts = [self.text() for _ in range(self.rng.randrange(4))]
        return texts if self.rng.randrange(2) else self.text()


ANYTHING = st.randoms(use_true_random=False).map(Anything)
VALUES = ANYTHING.map(Anything.value)


def mpijobs() -> st.SearchStrategy[Any]:
    """Returns a strategy of Hypothesis that draws MPIJobs by `Anything.mpijob`."""
    return ANYTHING.map(Anything.mpijob)

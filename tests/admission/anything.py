"""MPIJobs, Pods and records with anything anywhere: one generator, for Hypothesis and for seeds.

A seeded `random.Random` gives the same object again, and that of Hypothesis shrinks.
"""

import copy
import json
import random
from typing import Any

from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.helpers import requested
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


class Anything:
    """Draws values, objects and records; the same numbers drawn give the same."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def text(self) -> str:
        """Returns a word that means something here, or a few letters."""
        if self.rng.randrange(3):
            return self.rng.choice(WORDS)
        return "".join(self.rng.choice(LETTERS) for _ in range(self.rng.randrange(6)))

    def value(self, levels: int = 3) -> Any:
        """Returns a JSON value of any kind."""
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

    def odd(self, obj: Any, places: list[tuple[str | int, ...]], most: int) -> Any:
        """Returns an object with values of any kind in up to this many of the places."""
        for place in self.rng.sample(places, self.rng.randrange(1, most + 1)):
            obj = placed(obj, place, self.value())
        return obj

    def mpijob(self) -> Any:
        """Returns an MPIJob with something of any kind in one to four places that the webhook may look at."""
        generate_name = self.rng.choice([None, "g-"])
        job: Any = mpijob(self.rng.choice([1, 2, 3, 4, 8]), generate_name=generate_name)
        if self.rng.randrange(2):
            job["spec"]["runLauncherAsWorker"] = True
        return self.odd(job, PLACES, 4)

    def launcher_pod(self) -> Any:
        """Returns a launcher's Pod of mpi-operator, with values of any kind in one to three fields."""
        pod: Any = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(get(MUTATED, LAUNCHER))}
        pod = placed(pod, ("metadata", "labels"), {"training.kubeflow.org/job-role": "launcher"})
        return self.odd(pod, TEMPLATE_PLACES, 3)

    def record(self) -> str:
        """Returns the text of a record as a user may forge it."""
        places = {f"/{self.text()}": self._digests() for _ in range(self.rng.randrange(4))}
        return json.dumps({"added": places, **({"table": self.value()} if self.rng.randrange(2) else {})})

    def _digests(self) -> Any:
        texts = [self.text() for _ in range(self.rng.randrange(4))]
        return texts if self.rng.randrange(2) else self.text()


ANYTHING = st.randoms(use_true_random=False).map(Anything)
VALUES = ANYTHING.map(Anything.value)


def mpijobs() -> st.SearchStrategy[Any]:
    """Returns `Anything.mpijob`, for Hypothesis."""
    return ANYTHING.map(Anything.mpijob)

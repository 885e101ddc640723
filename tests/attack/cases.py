"""Makes plain, rich, mutated, forged and other reviews. The seed and a number determine each review."""

import copy
import json
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.admission.anything import PLACES, PREFERRED, REQUIRED, TEMPLATE_PLACES, Anything, with_value
from tests.helpers import request_for
from webhook.engine import evaluate
from webhook.objects.tree import get
from webhook.rules.load import load_default

SIZES = [1, 2, 3, 4, 6, 8, 16, 64]
SERVER_ID = "neuron.amazonaws.com/ultraserver-server-id-"
RECORD = ("metadata", "annotations", keys.ADDED)
KINDS = [
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("kubeflow.org/v1", "MPIJob"),
    ("batch.tensorstack.dev/v1beta1", "MPIJob"),
    ("v1", "ConfigMap"),
    ("kubeflow.org/v2beta1", "MPIJobList"),
]


@dataclass(frozen=True)
class Case:
    """A review of a creation.

    Attributes:
        kind: The sort of review, such as ``forged``, for messages.
        obj: The object.
        request: Further fields of the review's request.
    """

    kind: str
    obj: Any
    request: dict[str, Any] = field(default_factory=dict)


@cache
def _mutated(workers: int, *, named: bool, rich: int) -> str:
    """Returns a job after its mutation by the webhook, as text, because callers change the object."""
    job = mpijob(workers, generate_name=None if named else "g-")
    if rich:
        job = _add_rich_fields(Anything(random.Random(rich)), job)  # noqa: S311 - which of a few variants
    return json.dumps(evaluate(load_default(), request_for(job)).after)


def _add_rich_fields(draw: Anything, job: Any) -> Any:
    """Returns a job whose pod templates have fields that users and other webhooks write."""
    for place in (WORKER, LAUNCHER):
        spec = get(job, place)["spec"]
        for name, part in {
            "affinity": _affinity,
            "initContainers": _containers,
            "volumes": _volumes,
            "nodeSelector": _selector,
            "tolerations": _tolerations,
        }.items():
            if draw.rng.randrange(2):
                spec[name] = part(draw)
        if draw.rng.randrange(2):
            spec["containers"][0]["env"] = _variables(draw)
        spec["containers"] += _containers(draw) if not draw.rng.randrange(4) else []
    return job


def _term(draw: Anything) -> Any:
    labels = {"training.kubeflow.org/job-role": draw.rng.choice(["worker", "launcher"])}
    labels |= {"training.kubeflow.org/job-name": draw.rng.choice(["train", "other"])}
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": SERVER_ID + draw.rng.choice("24")}


def _affinity(draw: Anything) -> Any:
    def terms() -> list[Any]:
        return [_term(draw) for _ in range(draw.rng.randrange(3))]

    preferred = [{"weight": 100, "podAffinityTerm": term} for term in terms()]
    node_terms = [_node_term(draw) for _ in range(draw.rng.choice([0, 1, 1, 2, 5, 120]))]
    return {
        "podAffinity": draw.rng.choice([{}, {REQUIRED: terms()}, {PREFERRED: preferred}]),
        "podAntiAffinity": draw.rng.choice([{}, {REQUIRED: terms(), PREFERRED: preferred}, None]),
        "nodeAffinity": draw.rng.choice([{}, {REQUIRED: {"nodeSelectorTerms": node_terms}}]),
    }


def _node_term(draw: Anything) -> Any:
    expressions = [
        {"key": SERVER_ID + "4", "operator": "Exists"},
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["trn2u.48xlarge"]},
    ]
    chosen = draw.rng.sample(expressions, draw.rng.randrange(4))
    return draw.rng.choice(
        [{"matchExpressions": chosen}, {"matchExpressions": chosen}, {}, {"matchFields": chosen}]
    )


def _containers(draw: Anything) -> Any:
    names = ["wait-hostfilename", "ultraserver-init-container", "mine", "side", "mine"]
    return [
        {"name": name, "image": "img", "command": ["bash", "-c", "true"], "env": _variables(draw)}
        for name in draw.rng.sample(names, draw.rng.randrange(3))
    ]


def _volumes(draw: Anything) -> Any:
    names = ["dshm", "ultraserver-init", "mine", "ssh-auth", "mpi-job-config"]
    return [{"name": name, "emptyDir": {}} for name in draw.rng.sample(names, draw.rng.randrange(3))]


def _selector(draw: Anything) -> Any:
    types = ["trn2u.48xlarge", "m5.large", "ml.trn2u.48xlarge"]
    return draw.rng.choice([{"node.kubernetes.io/instance-type": draw.rng.choice(types)}, {"zone": "a"}, {}])


def _tolerations(draw: Anything) -> Any:
    return [{"operator": "Exists"}] * draw.rng.randrange(3)


def _variables(draw: Anything) -> Any:
    names = [
        "NEURON_ULTRASERVER_NODE_CONFIG",
        "NEURON_RT_ULTRASERVER_MODE",
        "OMPI_MCA_orte_default_hostfile",
        "A",
        "A",
    ]
    return [{"name": name, "value": draw.rng.choice(["4", "2", ""])} for name in draw.rng.sample(names, 2)]


def _plain(draw: Anything) -> Case:
    return Case("plain", draw.mpijob())


def _rich_job(draw: Anything) -> Case:
    job = _add_rich_fields(draw, mpijob(draw.rng.choice(SIZES), generate_name=draw.rng.choice([None, "g-"])))
    return Case("rich", draw.with_random_values(job, PLACES, 2) if draw.rng.randrange(2) else job)


def _mutated_job(draw: Anything) -> Any:
    workers, rich = draw.rng.choice([1, 2, 4, 8]), draw.rng.randrange(6)
    return orjson.loads(_mutated(workers, named=draw.rng.randrange(4) > 0, rich=rich))


def _changed_after_mutation(draw: Anything) -> Case:
    """Returns the review of a job that was mutated once and that a user then exported and changed."""
    job, request = _mutated_job(draw), {}
    for change in draw.rng.sample(
        ["rename", "move", "resize", "generate", "odd", "shuffle", "cut", "append"], 2
    ):
        if change == "rename":
            job["metadata"] = {"name": draw.rng.choice(["other", "a" * 80, "x"])}
        elif change == "generate":
            job["metadata"] = {"generateName": "h-", "managedFields": [{"time": "2026-01-01T00:00:00Z"}]}
        elif change == "move":
            request = {"namespace": draw.rng.choice(["elsewhere", "", "default"])}
        elif change == "resize":
            job = with_value(job, ("spec", "mpiReplicaSpecs", "Worker", "replicas"), draw.rng.choice(SIZES))
        elif change == "odd":
            job = draw.with_random_values(job, PLACES, 1)
        else:
            _change_lists(draw, job, change)
    return Case("again", job, request)


def _change_lists(draw: Anything, job: Any, change: str) -> None:
    """Shuffles, shortens or extends some lists of a job, or removes keys of its maps."""
    lists: list[Any] = []

    def walk(node: Any) -> None:
        if isinstance(node, list | dict) and node:
            lists.append(node)
        for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(value)

    walk(get(job, ("spec",)))
    for node in draw.rng.sample(lists, min(3, len(lists))):
        if isinstance(node, dict):
            if change == "cut":
                node.pop(draw.rng.choice(sorted(node)))
        elif change == "shuffle":
            draw.rng.shuffle(node)
        elif change == "cut":
            node.pop(draw.rng.randrange(len(node)))
        else:
            node.append(copy.deepcopy(draw.rng.choice(node)) if draw.rng.randrange(2) else draw.value())


def _forged(draw: Anything) -> Case:
    """Returns a review of a job whose record is cut off, belongs to other pods, is changed, or is invalid."""
    job, role = _mutated_job(draw), draw.rng.choice([WORKER, LAUNCHER])
    own = get(job, (*role, *RECORD))
    other = get(job, (*(LAUNCHER if role == WORKER else WORKER), *RECORD))
    foreign = get(_mutated_job(draw), (*role, *RECORD))
    choice = draw.rng.randrange(6)
    text = own or "{}"
    if choice == 0:
        text = text[: draw.rng.randrange(len(text))]
    elif choice == 1:
        text = other or foreign or text
    elif choice == 2:
        text = foreign or text
    elif choice == 3:
        text = draw.record()
    else:
        text = _move_digests(draw, text)
    job = with_value(job, (*role, *RECORD), text)
    if draw.rng.randrange(2):
        job["metadata"] = {"name": "other"}
    return Case("forged", draw.with_random_values(job, PLACES, 1) if not draw.rng.randrange(3) else job)


def _move_digests(draw: Anything, text: str) -> str:
    """Returns a record in which digests are real, but belong to other fields."""
    record = json.loads(text)
    added: dict[str, Any] = record.get("added", {})
    entries = list(added.items())
    if entries:
        for _ in range(draw.rng.randrange(1, 4)):
            (place, _), (_, digests) = draw.rng.choice(entries), draw.rng.choice(entries)
            cut = place.rpartition("/")[0] or "/spec"
            added[draw.rng.choice([place, cut, place + "/x", place + "/[mpitest]", place + "/-"])] = digests
            if draw.rng.randrange(2):
                added.pop(draw.rng.choice(entries)[0], None)
    return json.dumps(record)


def _pod(draw: Anything) -> Case:
    return Case("pod", draw.launcher_pod(), {"kind": {"group": "", "version": "v1", "kind": "Pod"}})


def _worker_pod(draw: Anything) -> Case:
    pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(get(_mutated_job(draw), WORKER))}
    labels = {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "3"}
    pod = with_value(pod, ("metadata", "labels"), labels)
    return Case(
        "worker pod", draw.with_random_values(pod, TEMPLATE_PLACES, 2) if draw.rng.randrange(2) else pod
    )


def _other(draw: Anything) -> Case:
    version, kind = draw.rng.choice(KINDS)
    return Case("other", {**_mutated_job(draw), "apiVersion": version, "kind": kind, "spec": draw.value()})


CASE_MAKERS = [
    _plain,
    _rich_job,
    _rich_job,
    _changed_after_mutation,
    _changed_after_mutation,
    _changed_after_mutation,
    _forged,
    _forged,
    _forged,
    _pod,
    _worker_pod,
    _other,
]


def case(seed: int, number: int) -> Case:
    """Returns the case of a seed and a number, which is the same case on every machine."""
    draw = Anything(random.Random(f"{seed}-{number}"))  # noqa: S311 - to be repeated
    result = draw.rng.choice(CASE_MAKERS)(draw)
    return Case(result.kind, json.loads(json.dumps(result.obj)), result.request)

"""Objects that are made to cost: one of about a number of bytes for every way."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from webhook.objects.tree import digest, put
from webhook.rules.load import load_default

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_TERMS = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
PLACE = "/" + "/".join(NODE_TERMS)


def recorded(job: Any, added: Any, path: tuple[str, ...] = WORKER) -> Any:
    text = json.dumps({"table": "t", "added": added})
    return put(job, (*path, "metadata", "annotations", keys.ADDED), text)


def worker(**spec: Any) -> Any:
    return mpijob(4, worker_spec=spec)


def terms(items: list[Any]) -> Any:
    return put(mpijob(4), (*WORKER, *NODE_TERMS), items)


def expressions(count: int) -> list[Any]:
    return [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]


def digests(count: int) -> list[str]:
    return [f"{number:010x}" for number in range(count)]


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def long_chain(size: int) -> Any:
    """Returns a record that added every expression of one term, one after the other, with true digests."""
    count = min(size // 60, 2000)
    items = expressions(count)
    true = [digest([{"matchExpressions": items[:n]} if n else {}, items[n]]) for n in range(count)]
    return recorded(terms([{"matchExpressions": items}]), {PLACE: true})


def places_under_one_another(size: int) -> Any:
    depth = 150
    added = {"/spec" + "/a" * level: "0000000000" for level in range(1, depth)}
    return recorded(worker(a=nested(depth, "x" * (size - 30_000))), added)


def removals_below_a_long_key(size: int) -> Any:
    key, items = "k" * (size // 2), expressions(size // 100)
    job = put(mpijob(4), (*WORKER, "spec", key, "tolerations"), items)
    return recorded(job, {f"/spec/{key}/tolerations": [digest(item) for item in items]})


def many_places(size: int) -> Any:
    labels = {f"k{number}": "v" for number in range(size // 50)}
    added = {f"/spec/nodeSelector/{key}": "0000000000" for key in labels}
    return recorded(worker(nodeSelector=labels), added)


def one_name(size: int) -> Any:
    containers = [{"name": "c", "env": [{"name": "a", "value": str(n)}]} for n in range(size // 80)]
    added = {"/spec/containers/[c]/env": digests(size // 40), "/spec/containers/[c]/image": "0"}
    job = recorded(put(mpijob(4), (*LAUNCHER, "spec", "initContainers"), containers), added, LAUNCHER)
    return recorded(put(job, (*WORKER, "spec", "containers"), containers), added)


def pod(spec: Any, **annotations: str) -> Any:
    notes = {f"{keys.PREFIX}hostfile": "/root/x/hosts", f"{keys.PREFIX}mpi": "OpenMPI", **annotations}
    labels = {"training.kubeflow.org/job-role": "launcher", "training.kubeflow.org/job-name": "train"}
    volumes = [{"name": "ultraserver-init"}]
    meta = {"labels": labels, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"volumes": volumes, **spec}}


def managed(size: int) -> Any:
    job = mpijob(4, generate_name="g-")
    job["metadata"]["managedFields"] = [{"time": "t", "fieldsV1": {"f:a": {}}} for _ in range(size // 40)]
    return job


def instance_types(size: int) -> Any:
    """Returns a number of devices that no known instance type has, with each type in its own term."""
    known = sorted(load_default().device_counts)
    label = load_default().candidates.instance_type_labels[0]
    chosen = [
        [{"key": label, "operator": "In", "values": [known[number % len(known)]]}]
        for number in range(size // 100)
    ]
    job = terms([{"matchExpressions": each} for each in chosen])
    container = {"name": "c", "resources": {"limits": {"aws.amazon.com/neuron": 99}}}
    return put(job, (*WORKER, "spec", "containers"), [container])


def claims_and_terms(size: int) -> Any:
    """Returns claims of unknown templates, and terms each of which asks whether the claims are a node."""
    number = size // 130
    own_type = {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}
    term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * number}
    claims = [{"name": f"c{k}", "resourceClaimTemplateName": f"t{k}"} for k in range(number)]
    spec = {"nodeSelector": own_type, "resourceClaims": claims, "affinity": {"podAffinity": required}}
    return mpijob(4, resource=None, worker_spec=spec)


def empty_expressions(size: int) -> Any:
    """Returns a PyTorchJob with two templates that take nodes, and a term of empty expressions."""
    whole = {"name": "pytorch", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    items: list[Any] = [{}] * (size // 8)
    template = put({"spec": {"containers": [whole]}}, NODE_TERMS, [{"matchExpressions": items}])
    groups = {role: {"replicas": 2, "template": template} for role in ("Master", "Worker")}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": groups},
    }


def empty_jobs(size: int) -> Any:
    """Returns a JobSet whose replicated jobs are empty except for the last, which its row looks for."""
    whole = {"name": "c", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    job = {"parallelism": 1, "template": {"spec": {"containers": [whole]}}}
    workers = {"name": "workers", "replicas": 8, "template": {"spec": job}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [*({} for _ in range(size // 4)), workers]},
    }


GENERATORS: dict[str, Callable[[int], Any]] = {
    "a term for each instance type": instance_types,
    "empty expressions": empty_expressions,
    "empty replicated jobs": empty_jobs,
    "empty init containers": lambda n: put(
        mpijob(4), (*LAUNCHER, "spec", "initContainers"), [{} for _ in range(n // 4)]
    ),
    "a chain of true digests": long_chain,
    "digests against expressions": lambda n: recorded(
        terms([{"matchExpressions": expressions(n // 60), "matchFields": expressions(n // 200)}]),
        {PLACE: digests(n // 40)},
    ),
    "other lists in a term": lambda n: recorded(
        terms([{f"l{number}": expressions(4) for number in range(n // 200)}]), {PLACE: digests(100)}
    ),
    "small terms with expressions": lambda n: recorded(
        terms([{"matchExpressions": expressions(1)}] * min(n // 50, 3900)), {PLACE: digests(n // 40)}
    ),
    "terms beyond count": lambda n: terms([{"matchExpressions": [{}]}] * (n // 25)),
    "places under one another": places_under_one_another,
    "removals below a long key": removals_below_a_long_key,
    "many places in one map": many_places,
    "containers of one name": one_name,
    "equal tolerations": lambda n: recorded(
        worker(tolerations=[{"key": "a"}] * (n // 24)),
        {"/spec/tolerations": [digest({"key": "a"})] * (n // 40)},
    ),
    "true digests of tolerations": lambda n: recorded(
        worker(tolerations=expressions(n // 60)),
        {"/spec/tolerations": [digest(item) for item in expressions(n // 60)[::2]]},
    ),
    "a long text, digested often": lambda n: recorded(
        worker(tolerations=["x" * n]), {f"/spec/tolerations{'/x' * k}": ["0"] for k in range(100)}
    ),
    "many containers": lambda n: worker(containers=[{"name": f"c{k}", "image": "i"} for k in range(n // 30)]),
    "a pod of many containers": lambda n: pod({"containers": [{"name": f"c{k}"} for k in range(n // 15)]}),
    "a pod of many variables": lambda n: pod(
        {"containers": [{"name": "c", "env": [{"name": f"E{k}"} for k in range(n // 16)]}]}
    ),
    "an annotation that is a long path": lambda n: pod(
        {"containers": [{"name": "c"}]}, **{f"{keys.PREFIX}hostfile": "/" * n}
    ),
    "a long image": lambda n: mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i" * n}]}),
    "a long path": lambda n: put(mpijob(4), ("spec", "sshAuthMountPath"), "/" + "p" * n),
    "a long name": lambda n: mpijob(4, name="n" * n),
    "long values to quote": lambda n: put(
        mpijob(4), ("spec", "mpiReplicaSpecs", "Worker", "replicas"), "r" * n
    ),
    "an odd kind": lambda n: {"apiVersion": "v1", "kind": ["k"] * (n // 4)},
    "a volume that differs in many keys": lambda n: mpijob(
        4, launcher_spec={"volumes": [{"name": "ultraserver-init", **{f"k{k}": 1 for k in range(n // 10)}}]}
    ),
    "claims and terms": claims_and_terms,
    "many managed fields": managed,
    "many annotations": lambda n: put(
        mpijob(4), (*WORKER, "metadata", "annotations"), {f"a{k}": "" for k in range(n // 12)}
    ),
}


def sizes(objects: Iterable[Any]) -> list[int]:
    """Bytes of each as JSON."""
    return [len(json.dumps(obj)) for obj in objects]

"""Generators of objects that are expensive to evaluate. Each takes the approximate size in bytes."""

import json
from collections.abc import Callable
from typing import Any

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from webhook.objects.tree import digest, put
from webhook.rules.load import load_default

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_TERMS = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
TERMS_POINTER = "/" + "/".join(NODE_TERMS)


def with_record(job: Any, added: Any, path: tuple[str, ...] = WORKER) -> Any:
    text = json.dumps({"table": "t", "added": added})
    return put(job, (*path, "metadata", "annotations", keys.ADDED), text)


def job_with_worker_spec(**spec: Any) -> Any:
    return mpijob(4, worker_spec=spec)


def job_with_terms(items: list[Any]) -> Any:
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
    """Returns a job whose record lists each expression of a term as added alone, with right digests."""
    count = min(size // 60, 2000)
    items = expressions(count)
    right_digests = [digest([{"matchExpressions": items[:n]} if n else {}, items[n]]) for n in range(count)]
    return with_record(job_with_terms([{"matchExpressions": items}]), {TERMS_POINTER: right_digests})


def additions_inside_each_other(size: int) -> Any:
    depth = 150
    added = {"/spec" + "/a" * level: "0000000000" for level in range(1, depth)}
    return with_record(job_with_worker_spec(a=nested(depth, "x" * (size - 30_000))), added)


def removals_below_a_long_key(size: int) -> Any:
    key, items = "k" * (size // 2), expressions(size // 100)
    job = put(mpijob(4), (*WORKER, "spec", key, "tolerations"), items)
    return with_record(job, {f"/spec/{key}/tolerations": [digest(item) for item in items]})


def many_additions(size: int) -> Any:
    labels = {f"k{number}": "v" for number in range(size // 50)}
    added = {f"/spec/nodeSelector/{key}": "0000000000" for key in labels}
    return with_record(job_with_worker_spec(nodeSelector=labels), added)


def containers_with_one_name(size: int) -> Any:
    containers = [{"name": "c", "env": [{"name": "a", "value": str(n)}]} for n in range(size // 80)]
    added = {"/spec/containers/[c]/env": digests(size // 40), "/spec/containers/[c]/image": "0"}
    job = with_record(put(mpijob(4), (*LAUNCHER, "spec", "initContainers"), containers), added, LAUNCHER)
    return with_record(put(job, (*WORKER, "spec", "containers"), containers), added)


def launcher_pod(spec: Any, **own_annotations: str) -> Any:
    annotations = {
        f"{keys.PREFIX}hostfile": "/root/x/hosts",
        f"{keys.PREFIX}mpi": "OpenMPI",
        **own_annotations,
    }
    labels = {"training.kubeflow.org/job-role": "launcher", "training.kubeflow.org/job-name": "train"}
    volumes = [{"name": "ultraserver-init"}]
    metadata = {"labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"volumes": volumes, **spec}}


def job_with_managed_fields(size: int) -> Any:
    job = mpijob(4, generate_name="g-")
    job["metadata"]["managedFields"] = [{"time": "t", "fieldsV1": {"f:a": {}}} for _ in range(size // 40)]
    return job


def instance_types(size: int) -> Any:
    """Returns a job with a wrong number of devices, and many node selector terms that name instance types."""
    types = sorted(load_default().device_counts)
    label = load_default().candidates.instance_type_labels[0]
    requirements = [
        [{"key": label, "operator": "In", "values": [types[number % len(types)]]}]
        for number in range(size // 100)
    ]
    job = job_with_terms([{"matchExpressions": requirement} for requirement in requirements])
    container = {"name": "c", "resources": {"limits": {"aws.amazon.com/neuron": 99}}}
    return put(job, (*WORKER, "spec", "containers"), [container])


def claims_and_terms(size: int) -> Any:
    """Returns a job with many claims of unknown templates, and with many affinity terms."""
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
    """Returns a JobSet whose replicated jobs are empty, except the last, which has the workers."""
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
    "a chain of right digests": long_chain,
    "digests against expressions": lambda n: with_record(
        job_with_terms([{"matchExpressions": expressions(n // 60), "matchFields": expressions(n // 200)}]),
        {TERMS_POINTER: digests(n // 40)},
    ),
    "other lists in a term": lambda n: with_record(
        job_with_terms([{f"l{number}": expressions(4) for number in range(n // 200)}]),
        {TERMS_POINTER: digests(100)},
    ),
    "small terms with expressions": lambda n: with_record(
        job_with_terms([{"matchExpressions": expressions(1)}] * min(n // 50, 3900)),
        {TERMS_POINTER: digests(n // 40)},
    ),
    "too many terms": lambda n: job_with_terms([{"matchExpressions": [{}]}] * (n // 25)),
    "additions inside each other": additions_inside_each_other,
    "removals below a long key": removals_below_a_long_key,
    "many additions in one map": many_additions,
    "containers with one name": containers_with_one_name,
    "equal tolerations": lambda n: with_record(
        job_with_worker_spec(tolerations=[{"key": "a"}] * (n // 24)),
        {"/spec/tolerations": [digest({"key": "a"})] * (n // 40)},
    ),
    "right digests of tolerations": lambda n: with_record(
        job_with_worker_spec(tolerations=expressions(n // 60)),
        {"/spec/tolerations": [digest(item) for item in expressions(n // 60)[::2]]},
    ),
    "a long text that is digested often": lambda n: with_record(
        job_with_worker_spec(tolerations=["x" * n]),
        {f"/spec/tolerations{'/x' * k}": ["0"] for k in range(100)},
    ),
    "many containers": lambda n: job_with_worker_spec(
        containers=[{"name": f"c{k}", "image": "i"} for k in range(n // 30)]
    ),
    "a pod of many containers": lambda n: launcher_pod(
        {"containers": [{"name": f"c{k}"} for k in range(n // 15)]}
    ),
    "a pod of many variables": lambda n: launcher_pod(
        {"containers": [{"name": "c", "env": [{"name": f"E{k}"} for k in range(n // 16)]}]}
    ),
    "an annotation that is a long path": lambda n: launcher_pod(
        {"containers": [{"name": "c"}]}, **{f"{keys.PREFIX}hostfile": "/" * n}
    ),
    "a long image": lambda n: mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i" * n}]}),
    "a long path": lambda n: put(mpijob(4), ("spec", "sshAuthMountPath"), "/" + "p" * n),
    "a long name": lambda n: mpijob(4, name="n" * n),
    "long values to quote": lambda n: put(
        mpijob(4), ("spec", "mpiReplicaSpecs", "Worker", "replicas"), "r" * n
    ),
    "a list as kind": lambda n: {"apiVersion": "v1", "kind": ["k"] * (n // 4)},
    "a volume that differs in many keys": lambda n: mpijob(
        4, launcher_spec={"volumes": [{"name": "ultraserver-init", **{f"k{k}": 1 for k in range(n // 10)}}]}
    ),
    "claims and terms": claims_and_terms,
    "many managed fields": job_with_managed_fields,
    "many annotations": lambda n: put(
        mpijob(4), (*WORKER, "metadata", "annotations"), {f"a{k}": "" for k in range(n // 12)}
    ),
}

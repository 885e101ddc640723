"""MPIJobs of T9k for tests: the example of the T9k document, with Neuron devices."""

from typing import Any

SHAPES = ("worker", "replicaSpecs")
"""The two forms of the spec, by the key that has the workers."""


def t9k_mpijob(
    shape: str,
    workers: int = 4,
    *,
    name: str = "mpi-example",
    limits: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Returns an MPIJob of T9k.

    Args:
        shape: The form of the spec: ``worker``, or ``replicaSpecs`` with an empty launcher template.
        workers: The number of workers.
        name: The name of the job.
        limits: Further limits of the container, next to its Neuron devices.
        spec: Further fields of the spec.
    """
    container = {"name": "mpi-worker", "image": "t9kpublic/mpi-tutorial:2021022-2"}
    container |= {"resources": {"limits": {"aws.amazon.com/neuron": 16, **(limits or {})}}}
    template = {"spec": {"containers": [container]}}
    extra = {"extraMPIArgs": ["-N", "3"], "cmd": ["./random_walk", "20"]}
    parts: dict[str, Any] = {
        "worker": {"worker": {"replicas": workers, "template": template, **extra}},
        "replicaSpecs": {
            "replicaSpecs": [
                {"type": "launcher", "replicas": 1, "template": {}},
                {"type": "worker", "replicas": workers, "template": template},
            ]
        },
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {**parts[shape], "mca": {"btl": "^openib"}, "mpiHome": "/usr/local", **spec},
    }


def worker_of(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of the spec that has the workers' template, in both forms of the spec."""
    spec = job["spec"]
    result: dict[str, Any] = spec["worker"] if "worker" in spec else spec["replicaSpecs"][1]
    return result

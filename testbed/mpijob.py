"""A plain MPIJob, as a data scientist writes it."""

from typing import Any

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:mpijob"
NODE = {"aws.amazon.com/neuroncore": 64}
"""How much a node has of what it has not 16 of."""
WORKER = ("spec", "mpiReplicaSpecs", "Worker", "template")
LAUNCHER = ("spec", "mpiReplicaSpecs", "Launcher", "template")


def mpijob(  # noqa: PLR0913 - each is something that a job may say
    workers: int = 4,
    *,
    name: str = "train",
    generate_name: str | None = None,
    namespace: str | None = None,
    annotations: dict[str, str] | None = None,
    worker_spec: dict[str, Any] | None = None,
    launcher_spec: dict[str, Any] | None = None,
    resource: str | None = "aws.amazon.com/neuron",
    amount: int | None = None,
    claim: str | None = None,
) -> dict[str, Any]:
    """Returns a plain MPIJob of a number of workers, as a data scientist writes it.

    Args:
        workers: how many.
        name: of the job; not used where ``generate_name`` is given.
        generate_name: the beginning of a name that the API server is to complete.
        namespace: where the job says it belongs.
        annotations: of the job.
        worker_spec: further fields of the worker's pod spec.
        launcher_spec: further fields of the launcher's pod spec.
        resource: what each worker asks for; None for nothing.
        amount: how much of it; None for all that a node has.
        claim: the ResourceClaimTemplate of which each worker has a claim in place of what it would ask for.
    """
    metadata: dict[str, Any] = {"name": name} if generate_name is None else {"generateName": generate_name}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"annotations": annotations} if annotations else {}
    resources: dict[str, Any] = {}
    claimed: dict[str, Any] = {}
    if claim:
        resources = {"resources": {"claims": [{"name": "neurons"}]}}
        claimed = {"resourceClaims": [{"name": "neurons", "resourceClaimTemplateName": claim}]}
    elif resource:
        resources = {"resources": {"limits": {resource: amount or NODE.get(resource, 16)}}}
    launcher = {"containers": [{"name": "mpitest", "image": IMAGE}], **(launcher_spec or {})}
    worker = {
        "containers": [{"name": "mpitest", "image": IMAGE, **resources}],
        **claimed,
        **(worker_spec or {}),
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {
            "slotsPerWorker": 1,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": launcher}},
                "Worker": {"replicas": workers, "template": {"spec": worker}},
            },
        },
    }

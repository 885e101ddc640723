"""Creates the MPIJob that most tests use, as a data scientist writes it."""

from typing import Any

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:mpijob"
NODE_AMOUNTS = {"aws.amazon.com/neuroncore": 64}
"""The amount of a resource on a node. A node has 16 of each resource that is not listed here."""
WORKER = ("spec", "mpiReplicaSpecs", "Worker", "template")
LAUNCHER = ("spec", "mpiReplicaSpecs", "Launcher", "template")


def mpijob(  # noqa: PLR0913 - the parts of a job that tests change
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
    """Returns an MPIJob as a data scientist writes it, without fields of the webhook.

    Args:
        workers: The number of workers.
        name: The name of the job; ignored if there is a ``generate_name``.
        generate_name: The beginning of a name that the API server completes.
        namespace: The namespace in the job's metadata.
        annotations: The annotations of the job.
        worker_spec: Additional fields of the worker's pod spec.
        launcher_spec: Additional fields of the launcher's pod spec.
        resource: The resource that each worker requests; None for no resource.
        amount: The amount of the resource; None for the amount on a whole node.
        claim: The name of a ResourceClaimTemplate, which each worker uses in place of the resource.
    """
    metadata: dict[str, Any] = {"name": name} if generate_name is None else {"generateName": generate_name}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"annotations": annotations} if annotations else {}
    resources: dict[str, Any] = {}
    resource_claims: dict[str, Any] = {}
    if claim:
        resources = {"resources": {"claims": [{"name": "neurons"}]}}
        resource_claims = {"resourceClaims": [{"name": "neurons", "resourceClaimTemplateName": claim}]}
    elif resource:
        resources = {"resources": {"limits": {resource: amount or NODE_AMOUNTS.get(resource, 16)}}}
    launcher = {"containers": [{"name": "mpitest", "image": IMAGE}], **(launcher_spec or {})}
    worker = {
        "containers": [{"name": "mpitest", "image": IMAGE, **resources}],
        **resource_claims,
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

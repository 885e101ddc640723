"""Predicts the Pods that an operator creates for a job, including fields that contain the Pod's number."""

from collections.abc import Iterator, Mapping, Sequence

from contract.placement import ENV, LABEL, MOST_WORKERS, NAME, Summand
from webhook.engine.jobs import Job
from webhook.objects.tree import Json, get, get_map, get_maps
from webhook.rows.workloads import WORKER, Factor


def pods_of(job: Job, stored_object: Json) -> Iterator[tuple[str, int, int, Json]]:
    """Yields the Pods of a job, in the order of the groups and of the numbers.

    If the pods of the object are placed as separate jobs, only those of the first job are yielded. At most
    `MOST_WORKERS` Pods of a group are yielded. The templates are those of the stored object, with the
    webhook's additions. Names and labels that the operator sets are missing if the table does not have them.

    Yields:
        The group's key, a Pod's number in the group, the group's size, and the Pod.
    """
    first_number = earlier_pods = 0
    for group in job.groups:
        row = group.row
        # If the row has replicas 0, the only pod of the group is also the first pod of the next group.
        is_in_next_group = row.replicas == (Factor(None, 0),)
        count = 1 if is_in_next_group else min(group.replicas, MOST_WORKERS)
        template, key = get(stored_object, group.path), row.key(job.object, group.path)
        for number in range(first_number, count):
            labels = job.peer_labels("") if group.role == WORKER else {}
            values = {LABEL + key: text for key, text in labels.items()}
            if group.takes_nodes and group.index:
                offset = 0 if row.number and row.number.continues else earlier_pods
                values |= _source_values(group.index.summands, offset + number)
            yield key, number, count, _make_pod(job, template, values)
        first_number = 1 if is_in_next_group else 0
        earlier_pods += count if group.takes_nodes and not is_in_next_group else 0


def _source_values(summands: Sequence[Summand], number: int) -> dict[str, str]:
    """Returns the value of each source (name, label or variable) from which a pod's number is computed."""
    values = {}
    for summand in sorted(summands, key=lambda summand: -summand.factor):
        value, number = divmod(number, max(1, summand.factor))
        values[summand.source] = str(value)
    return values


def _make_pod(job: Job, template: Json, values: Mapping[str, str]) -> Json:
    """Returns a Pod of a template, with the operator's labels, variables and name."""
    metadata_maps = {kind: get_map(template, ("metadata", kind)) for kind in ("labels", "annotations")}
    labels, variables = (
        {key.removeprefix(kind): text for key, text in values.items() if key.startswith(kind)}
        for kind in (LABEL, ENV)
    )
    labels |= {job.workload.group: "0"} if job.workload.group else {}
    name = {"name": f"{job.name}-{values[NAME]}"} if NAME in values else {}
    metadata_maps["labels"] = {**metadata_maps["labels"], **labels}
    metadata = {**name, "namespace": job.namespace, **metadata_maps}
    spec = get_map(template, ("spec",))
    if variables:
        env = [{"name": key, "value": text} for key, text in variables.items()]
        containers = [
            {**container, "env": [*get_maps(container, ("env",)), *env]}
            for container in get_maps(spec, ("containers",))
        ]
        spec = {**spec, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

"""The Pods that an operator makes of a job: its templates, with the labels in which a Pod's number is."""

from collections.abc import Iterator, Mapping, Sequence

from contract.place import ENV, LABEL, MOST_WORKERS, NAME, Term
from webhook.engine.jobs import Job
from webhook.objects.tree import Json, get, map_at, maps_at
from webhook.rows.workloads import WORKER, Factor


def pods_of(job: Job, stored: Json) -> Iterator[tuple[str, int, int, Json]]:
    """The Pods of a job, in order, as they come to admission; of several units of one object the first's.

    There are no more of a group than a candidate may have.
    Names are the operator's matter, and so are labels that no row of the table names: they have none of them.
    Their templates are those of the object as it is stored, with what was added.

    Yields:
        What tells a Pod's group from others, its number in that, how many the group has, and the Pod.
    """
    first = before = 0
    for group in job.groups:
        row = group.row
        among = row.replicas == (Factor(None, 0),)  # its one pod is the first of the next group's
        count = 1 if among else min(group.replicas, MOST_WORKERS)
        template, key = get(stored, group.path), row.key(job.object, group.path)
        for number in range(first, count):
            labels = job.peers("") if group.role == WORKER else {}
            said = {LABEL + key: text for key, text in labels.items()}
            if group.takes_nodes and group.index:
                said |= _numbers(group.index.terms, number if row.continues else before + number)
            yield key, number, count, _pod(job, template, said)
        first = 1 if among else 0
        before += count if group.takes_nodes and not among else 0


def _numbers(terms: Sequence[Term], number: int) -> dict[str, str]:
    """What each source of an index says for a number: the one with the largest factor the most."""
    said = {}
    for term in sorted(terms, key=lambda term: -term.factor):
        value, number = divmod(number, max(1, term.factor))
        said[term.source] = str(value)
    return said


def _pod(job: Job, template: Json, said: Mapping[str, str]) -> Json:
    """A Pod of a template, with what the operator says in labels, in variables, or in its name."""
    own = {kind: map_at(template, ("metadata", kind)) for kind in ("labels", "annotations")}
    labels, variables = (
        {key.removeprefix(kind): text for key, text in said.items() if key.startswith(kind)}
        for kind in (LABEL, ENV)
    )
    labels |= {job.workload.group: "0"} if job.workload.group else {}
    name = {"name": f"{job.name}-{said[NAME]}"} if NAME in said else {}
    metadata = {**name, "namespace": job.namespace, **own, "labels": {**own["labels"], **labels}}
    spec = map_at(template, ("spec",))
    if variables:
        env = [{"name": key, "value": text} for key, text in variables.items()]
        containers = [
            {**each, "env": [*maps_at(each, ("env",)), *env]} for each in maps_at(spec, ("containers",))
        ]
        spec = {**spec, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

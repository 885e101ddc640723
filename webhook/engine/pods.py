"""The Pods that an operator makes of a job: its templates, with the labels in which a Pod's number is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from contract.place import LABEL, NAME, Term
from webhook.engine.jobs import OpenJob, template_paths
from webhook.engine.placing import peers
from webhook.objects.tree import Json, get, map_at
from webhook.rows.workloads import WORKER, Factor

AMONG_THE_NEXT: Final = (Factor(None, 0),)
"""How many pods a row says that a group has whose one pod is the first of the next group's."""


class Made(NamedTuple):
    """A Pod that is to be made.

    Attributes:
        group: what tells its group from others of the job.
        number: among the pods of the group, from 0.
        of: how many pods the group has.
    """

    group: str
    number: int
    of: int
    pod: Json


def pods_of(job: OpenJob, stored: Json) -> Iterator[Made]:
    """The Pods of a job, in order, as they come to admission; of several units of one object the first's.

    Names are the operator's matter, and so are labels that no row of the table names: they have none of them.

    Args:
        job: the object, opened.
        stored: the same as it is stored, with what was added to it.
    """
    first = before = 0
    for group, (row, path) in zip(job.groups, template_paths(job.workload, job.object), strict=True):
        among = row.replicas == AMONG_THE_NEXT
        count = 1 if among else group.replicas
        template = get(stored, path)
        for number in range(first, count):
            said: dict[str, str] = {}
            if group.takes_nodes and group.index:
                said = _numbers(group.index.terms, number if row.continues else before + number)
            labels = peers(job, "") if group.role == WORKER else {}
            yield Made(group.key, number, count, _pod(job, template, labels, said))
        first = 1 if among else 0
        before += count if group.takes_nodes and not among else 0


def _numbers(terms: Sequence[Term], number: int) -> dict[str, str]:
    """What each source of an index says for a number: the one with the largest factor the most."""
    said = {}
    for term in sorted(terms, key=lambda term: -term.factor):
        said[term.source], number = divmod(number, max(1, term.factor))
    return {source: str(value) for source, value in said.items()}


def _pod(job: OpenJob, template: Json, labels: Mapping[str, Json], said: Mapping[str, str]) -> Json:
    """A Pod of a template, with labels of the operator's and with its number in each source."""
    own, unit = map_at(template, ("metadata", "labels")), job.workload.group
    by_label = {source.removeprefix(LABEL): text for source, text in said.items() if source != NAME}
    metadata: dict[str, Json] = {"namespace": job.namespace}
    metadata |= {"name": f"{job.name}-{said[NAME]}"} if NAME in said else {}
    metadata["labels"] = {**own, **labels, **({unit: "0"} if unit else {}), **by_label}
    metadata["annotations"] = map_at(template, ("metadata", "annotations"))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": map_at(template, ("spec",))}

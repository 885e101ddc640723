"""Chooses the shape of a job, by its size and the node config that it names."""

from typing import Final

from common.pointers import field_name
from common.texts import cut
from contract import keys
from contract.place import MOST_WORKERS
from webhook.engine.jobs import Job
from webhook.engine.outcome import JobError
from webhook.engine.reading import marked
from webhook.objects.templates import containers
from webhook.objects.tree import maps_at, shown, text_of
from webhook.rows.families import Family, JobShape
from webhook.rows.shapes import NODE_CONFIG
from webhook.rows.workloads import WORKER

NEAR: Final = 100
"""Numbers of workers this near are looked at for one that fits."""


def choose_shape(job: Job) -> JobShape:
    """Returns the first shape of the job's family for its size, and for its node config if it names one.

    Raises:
        JobError: No shape matches; the message names those that would.
    """
    nodes, family = job.nodes, job.family
    if nodes > MOST_WORKERS:
        raise JobError(f"{nodes} workers are more than the {MOST_WORKERS} that a job may have")
    wanted = _wanted(job)
    if wanted is None:
        for shape in family.shapes:
            if size := shape.fit(nodes):
                return family.shape_of_job(shape, size)
        raise JobError(_no_shape(family, nodes))
    place, value = wanted
    known = sorted({str(shape.node_config) for shape in family.shapes if shape.node_config}, reverse=True)
    of_value = [shape for shape in family.shapes if shape.may_have("nodeConfig", [value])]
    if not of_value:
        raise JobError(f"the node config must be one of {', '.join(known)}: {place} is {shown(value)}")
    for shape in of_value:
        if shape.fit(nodes, int(value)):
            return family.shape_of_job(shape, int(value))
    takes = " or ".join(dict.fromkeys(str(shape.workers) for shape in of_value)).replace(
        "multiple", "a multiple"
    )
    sizes = filter(None, (shape.fit(nodes) for shape in family.shapes if not shape.deny))
    others = " or ".join(dict.fromkeys(map(str, sizes))) or "none"
    workers = "1 worker does" if nodes == 1 else f"{nodes} workers do"
    raise JobError(
        f"{workers} not fit node config {value} of {place}: it takes {takes} workers; "
        f"change the number of workers, or use node config {others}"
    )


def _no_shape(family: Family, nodes: int) -> str:
    """Returns that no shape fits a number of workers, and the nearest numbers that fit."""
    blocks = [str(shape.node_config) for shape in family.shapes if nodes in shape.workers]
    workers = "1 worker" if nodes == 1 else f"{nodes} workers"
    why = f"no shape of the rule table fits {workers}"
    if blocks:
        why = f"{workers} form no equal blocks of {' or of '.join(blocks)}"
    less, more = range(nodes - 1, max(nodes - NEAR, 0), -1), range(nodes + 1, nodes + NEAR)
    near = [next(filter(family.fits, numbers), None) for numbers in (less, more)]
    if use := " or ".join(map(str, filter(None, near))):
        return f"{why}; use {use}"
    rows = ", ".join(f"{shape.name} ({shape.workers})" for shape in family.shapes)
    return f"{why}; family {family.name} has {rows}: use such a number, or add a shape"


def _wanted(job: Job) -> tuple[str, str] | None:
    """Returns path and value of the node config that a job names; None if it names none.

    Raises:
        JobError: The job names two.
    """
    own = marked(job.object, keys.NODE_CONFIG) or own_node_config(job)
    named = [own] if own else []
    named += [
        (
            f"the template {cut(claim.name)} at {field_name((*group.path, *claim.place))}",
            str(claim.takes.node_config),
        )
        for group in job.of[WORKER]
        for claim in group.claims
        if claim.takes and claim.takes.node_config
    ]
    for place, value in named[1:]:
        first, config = named[0]
        if value != config:
            raise JobError(
                f"{first} is for node config {shown(config)}, and {place} for {shown(value)}: "
                "use the same in both"
            )
    return named[0] if named else None


def own_node_config(job: Job) -> tuple[str, str] | None:
    """Returns path and value of the node config in the job's own containers, if any has one."""
    if job.text is not None and NODE_CONFIG.encode() not in job.text:
        return None
    for container in (container for group in job.groups for container in containers(group.template)):
        for item in maps_at(container, ("env",)) if "env" in container else ():
            if item.get("name") == NODE_CONFIG:
                place = f"env {NODE_CONFIG} of container {cut(repr(container.get('name')))}"
                value = item.get("value")
                return (place, text_of(value)) if value is not None else None
    return None

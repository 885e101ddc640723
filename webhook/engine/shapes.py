"""Chooses the shape of a job, by its size and the node config that it names."""

from typing import Final

from common.pointers import field_name
from common.texts import count_text, cut
from contract import keys
from contract.placement import MOST_WORKERS
from webhook.engine import messages
from webhook.engine.jobs import Job
from webhook.engine.outcome import JobError
from webhook.engine.reading import find_annotation_or_label
from webhook.objects.templates import containers
from webhook.objects.tree import get_maps, shown, text_of
from webhook.rows.families import Family, JobShape
from webhook.rows.shapes import NODE_CONFIG_VARIABLE
from webhook.rows.workloads import WORKER

DISTANCE: Final = 100
"""Messages propose only numbers of workers that differ by less than this from the job's number."""


def choose_shape(job: Job) -> JobShape:
    """Returns the family's first shape that fits the job's size and the node config (if the job names it).

    Raises:
        JobError: No shape fits, the job is too large, or the node config is invalid. If possible, the
            message names sizes that fit.
    """
    nodes, family = job.nodes, job.family
    if nodes > MOST_WORKERS:
        raise JobError(messages.too_many_workers(nodes))
    named_config = _find_named_config(job)
    if named_config is None:
        for shape in family.shapes:
            if node_config := shape.find_config(nodes):
                return family.shape_of_job(shape, node_config)
        raise JobError(_explain_no_shape(family, nodes))
    field, value = named_config
    configs = sorted({str(shape.node_config) for shape in family.shapes if shape.node_config}, reverse=True)
    shapes = [shape for shape in family.shapes if shape.can_have("nodeConfig", [value])]
    if not shapes:
        raise JobError(messages.invalid_config(", ".join(configs), field, shown(value)))
    for shape in shapes:
        if shape.find_config(nodes, int(value)):
            return family.shape_of_job(shape, int(value))
    texts = (str(shape.workers).replace("multiple", "a multiple") for shape in shapes)
    sizes = " or ".join(dict.fromkeys(texts))
    fitting_configs = filter(None, (shape.find_config(nodes) for shape in family.shapes if not shape.deny))
    other_configs = " or ".join(dict.fromkeys(map(str, fitting_configs))) or "none"
    workers_do = "1 worker does" if nodes == 1 else f"{nodes} workers do"
    raise JobError(messages.do_not_fit(workers_do, value, field, sizes, other_configs))


def _explain_no_shape(family: Family, nodes: int) -> str:
    """Returns the message that no shape fits a number of workers.

    The message has the nearest numbers that fit or, if no such number is near (`DISTANCE`), all shapes.
    """
    configs = [str(shape.node_config) for shape in family.shapes if nodes in shape.workers]
    workers = count_text(nodes, "worker")
    reason = messages.no_blocks(workers, " or of ".join(configs)) if configs else messages.no_shape(workers)
    smaller, larger = range(nodes - 1, max(nodes - DISTANCE, 0), -1), range(nodes + 1, nodes + DISTANCE)
    sizes = [next(filter(family.fits, numbers), None) for numbers in (smaller, larger)]
    if alternatives := " or ".join(map(str, filter(None, sizes))):
        return messages.use_sizes(reason, alternatives)
    rows = ", ".join(f"{shape.name} ({shape.workers})" for shape in family.shapes)
    return messages.add_shape(reason, family.name, rows)


def _find_named_config(job: Job) -> tuple[str, str] | None:
    """Returns field and value of the node config that a job names; None if it names no node config.

    An annotation, a label or else an environment variable can name it. Device claims can name it, too.

    Raises:
        JobError: The job names two different node configs.
    """
    own_config = find_annotation_or_label(job.object, keys.NODE_CONFIG) or find_config_variable(job)
    configs = [own_config] if own_config else []
    for group in job.by_role[WORKER]:
        for claim in group.claims:
            if claim.row and claim.row.node_config:
                field = f"the template {cut(claim.name)} at {field_name((*group.path, *claim.path))}"
                configs.append((field, str(claim.row.node_config)))
    for field, value in configs[1:]:
        first_field, first_value = configs[0]
        if value != first_value:
            raise JobError(messages.two_configs(first_field, shown(first_value), field, shown(value)))
    return configs[0] if configs else None


def find_config_variable(job: Job) -> tuple[str, str] | None:
    """Returns a description and the value of the first `NODE_CONFIG_VARIABLE`; None without a value."""
    if NODE_CONFIG_VARIABLE not in job.text:
        return None
    for container in (container for group in job.groups for container in containers(group.template)):
        for item in get_maps(container, ("env",)) if "env" in container else ():
            if item.get("name") == NODE_CONFIG_VARIABLE:
                variable = f"env {NODE_CONFIG_VARIABLE} of container {cut(repr(container.get('name')))}"
                value = item.get("value")
                return (variable, text_of(value)) if value is not None else None
    return None

"""Matching: which shape a job has, and whether a rule fires. Every no names the condition that failed."""

from fnmatch import fnmatchcase

from webhook.engine import keys
from webhook.engine.outcome import JobError, cut
from webhook.engine.table import Match, Shape, Table
from webhook.engine.tree import pointer, shown
from webhook.engine.workloads import (
    WORKER,
    Job,
    admitted_types,
    has_volume,
    injection,
    marked,
    names_type,
    own_node_config,
    requested,
)


def candidacy(table: Table, job: Job) -> tuple[bool, str]:
    """Whether the table speaks about a job, and why (design.md, "Which jobs, and what wins").

    Raises:
        JobError: if the opt-in or opt-out cannot be read.
    """
    opted = injection(job.object)
    if opted is False:
        return False, f"opted out by {keys.INJECT}"
    if job.workload.workers is None:
        return True, f"{job.workload.name} is looked at whatever it asks for"
    template = job.template(WORKER)
    if template is None:
        return False, f"the job has no {WORKER} template"
    if job.workers() == 0:
        return False, "the job has no workers"
    if not admitted_types(template, table.candidates):
        return False, "its own instance type selection leaves out " + ", ".join(
            table.candidates.instance_types
        )
    if opted:
        return True, f"opted in by {keys.INJECT}"
    if resource := requested(template, table.candidates.requests):
        return True, f"its workers ask for {resource}"
    if names_type(template, table.candidates):
        return True, "its workers select an UltraServer instance type"
    return False, "its workers ask for no Neuron resource and select no UltraServer instance type"


def choose_shape(table: Table, job: Job) -> Shape:
    """The first shape that fits the job's size, and the node config where the job names one.

    Raises:
        JobError: if none does; the message names what would.
    """
    workers = job.nodes()
    wanted = marked(job.object, keys.NODE_CONFIG) or own_node_config(job)
    fitting = [shape for shape in table.shapes if workers in shape.workers]
    if wanted is None:
        if fitting:
            return fitting[0]
        rows = ", ".join(f"{shape.name} ({shape.workers})" for shape in table.shapes)
        raise JobError(f"no shape of the rule table fits {workers} workers; it has {rows}")
    place, value = wanted
    known = sorted({str(shape.node_config) for shape in table.shapes}, reverse=True)
    if value not in known:
        raise JobError(f"{place} is {shown(value)}: the node config must be one of {', '.join(known)}")
    for shape in fitting:
        if str(shape.node_config) == value:
            return shape
    counts = " or ".join(dict.fromkeys(str(s.workers) for s in table.shapes if str(s.node_config) == value))
    others = ", ".join(dict.fromkeys(str(shape.node_config) for shape in fitting)) or "none"
    raise JobError(
        f"{place} is {shown(value)}, but {workers} workers do not fit it: it takes {counts} workers; "
        f"change the number of workers, or use node config {others}"
    )


def failed_condition(match: Match, job: Job, shape: Shape | None) -> str | None:
    """The first condition of a rule that a job does not meet; None if it meets them all."""
    if match.workloads and job.workload.name not in match.workloads:
        return f"workload is {job.workload.name}, not {_either(match.workloads)}"
    if match.role not in job.templates:
        return f"the job has no {match.role} template"
    facts = shape.facts() if shape else {}
    for key, allowed in match.shape.items():
        if not shape:
            return f"a {job.workload.name} has no shape"
        if facts[key] not in allowed:
            return f"shape {shape.name} has {key} {facts[key]}, not {_either(allowed)}"
    if match.named is not None and match.named != bool(job.name):
        return "the job has no name yet (generateName)" if match.named else "the job has a name"
    return _failed_content(match, job)


def _failed_content(match: Match, job: Job) -> str | None:
    """As ``failed_condition``, for the conditions on what the job says."""
    if match.requests and not requested(job.template(match.role), match.requests):
        return f"the {match.role} asks for none of {', '.join(match.requests)}"
    if match.volumes and not has_volume(job.template(match.role), match.volumes):
        return f"the {match.role} has no volume {_either(match.volumes)}"
    for name, allowed in match.fields.items():
        if not any(fnmatchcase(job.field(name), pattern) for pattern in allowed):
            found = cut(job.field(name))
            return f"{pointer(job.workload.fields[name].path)} is {found}, not {_either(allowed)}"
    return None


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(values)

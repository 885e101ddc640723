"""Whether the table speaks about a job: its opt-in or opt-out, its resources, its instance types."""

from webhook.engine import keys
from webhook.engine.jobs import Job
from webhook.engine.outcome import JobError
from webhook.engine.table import WORKER, Table
from webhook.engine.templates import admits_type, requested
from webhook.engine.tree import Json, get, shown, text_of


def candidacy(table: Table, job: Job) -> tuple[bool, str]:
    """Whether the table speaks about a job, and why (design.md, "Which jobs, and what wins").

    Raises:
        JobError: if the opt-in or opt-out cannot be read.
    """
    opted = injection(job.object)
    if opted is False:
        return False, f"opted out by {keys.INJECT}"
    if not job.workload.takes_nodes:
        return True, f"{job.workload.name} is looked at whatever it asks for"
    templates = job.templates(WORKER)
    if not templates:
        return False, f"the job has no {WORKER} template"
    if job.nodes() == 0 or (job.workers() == 0 and any(group.role == WORKER for group in job.groups)):
        return False, "the job has no workers"
    if not job_types(table, job):
        return False, "its own instance type selection leaves out " + ", ".join(
            table.candidates.instance_types
        )
    if opted:
        return True, f"opted in by {keys.INJECT}"
    asked = [found for found in (requested(part, table.candidates.requests) for part in templates) if found]
    if asked:
        return True, f"its workers ask for {asked[0]}"
    selector = ("spec", "nodeSelector", table.candidates.instance_type_label)
    if any(get(template, selector) in table.candidates.instance_types for template in templates):
        return True, "its workers select an UltraServer instance type"
    return False, "its workers ask for no Neuron resource and select no UltraServer instance type"


def job_types(table: Table, job: Job, role: str = WORKER) -> tuple[str, ...]:
    """The table's instance types that all pods of a role leave open; by default all that take nodes."""
    label, templates = table.candidates.instance_type_label, job.templates(role)
    names = table.candidates.instance_types
    return tuple(name for name in names if all(admits_type(part, label, name) for part in templates))


def marked(obj: Json, key: str) -> tuple[str, str] | None:
    """Place and value of one of our keys among an object's annotations, then its labels."""
    for kind in ("annotations", "labels"):
        value = get(obj, ("metadata", kind, key))
        if value is not None:
            return f"/metadata/{kind}/{key}", text_of(value)
    return None


def injection(obj: Json) -> bool | None:
    """Whether the object is opted in (True), out (False), or says nothing.

    Raises:
        JobError: if it says something that is neither.
    """
    mark = marked(obj, keys.INJECT)
    if mark is None:
        return None
    if mark[1] in keys.ON:
        return True
    if mark[1] in keys.OFF:
        return False
    raise JobError(f'{mark[0]} is {shown(mark[1])}: use "true" to opt in, "false" to opt out, or remove it')

"""Matching: whether a rule fires. Every no names the condition that failed."""

from webhook.engine.jobs import Job, marks, matches
from webhook.engine.outcome import cut
from webhook.engine.table import Match, Shape
from webhook.engine.templates import has_volume, requested
from webhook.engine.tree import Json, shown


def failed_condition(match: Match, job: Job, shape: Shape | None) -> str | None:
    """The first condition of a rule that a job does not meet; None if it meets them all."""
    if match.workload and job.workload.name not in match.workload:
        return f"workload is {job.workload.name}, not {_either(match.workload)}"
    if not job.paths(match.role):
        return f"the job has no {match.role} template"
    facts = shape.facts() if shape else {}
    for key, allowed in match.shape.items():
        if not shape:
            return f"a {job.workload.name} has no shape"
        if facts[key] not in allowed:
            return f"shape {shape.name} has {key} {facts[key]}, not {_either(allowed)}"
    if match.named is not None and match.named != bool(job.name):
        return "the job has no name yet (generateName)" if match.named else "the job has a name"
    return _failed_content(match, job) or _failed_marks(match, job)


def _failed_content(match: Match, job: Job) -> str | None:
    """As ``failed_condition``, for the conditions on what the job asks for."""
    templates = job.templates(match.role)
    if match.requests and not any(requested(template, match.requests) for template in templates):
        return f"the {match.role} asks for none of {', '.join(match.requests)}"
    if match.volume and not any(has_volume(template, match.volume) for template in templates):
        return f"the {match.role} has no volume {_either(match.volume)}"
    for name, allowed in match.fields.items():
        if not matches(job.field(name), allowed):
            return f"{job.workload.fields[name].path} is {cut(job.field(name))}, not {_either(allowed)}"
    return None


def _failed_marks(match: Match, job: Job) -> str | None:
    """As ``failed_condition``, for the conditions on labels, annotations and the namespace."""
    for kind, conditions in (("labels", match.labels), ("annotations", match.annotations)):
        for key, allowed in conditions.items():
            found = marks(job.object, kind).get(key, "")
            if not matches(_text(found), allowed):
                return f"{kind[:-1]} {key} is {shown(found, 40)}, not {_either(allowed)}"
    if match.namespace and not matches(job.namespace, match.namespace):
        return f"the namespace is {job.namespace}, not {_either(match.namespace)}"
    return None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else shown(value)


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(value or '""' for value in values)

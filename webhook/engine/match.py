"""Matching: whether a rule fires. Every no names the condition that failed."""

from collections.abc import Iterator
from itertools import chain

from webhook.engine.jobs import Job, field, matches
from webhook.engine.outcome import cut
from webhook.engine.table import Match, Shape
from webhook.engine.templates import has_volume, requested
from webhook.engine.tree import map_at, shown, text_of


def failed_condition(match: Match, job: Job, shape: Shape | None) -> str | None:
    """The first condition of a rule that a job does not meet; None if it meets them all."""
    return next(chain(_failed_kind(match, job, shape), _failed_content(match, job)), None)


def _failed_kind(match: Match, job: Job, shape: Shape | None) -> Iterator[str]:
    if match.workload and job.workload.name not in match.workload:
        yield f"workload is {job.workload.name}, not {_either(match.workload)}"
    if not job.paths(match.role):
        yield f"the job has no {match.role} template"
    facts = shape.facts() if shape else {}
    for key, allowed in match.shape.items():
        if not shape:
            yield f"a {job.workload.name} has no shape"
        elif facts[key] not in allowed:
            yield f"shape {shape.name} has {key} {facts[key]}, not {_either(allowed)}"
    if match.named is not None and match.named != bool(job.name):
        yield "the job has no name yet (generateName)" if match.named else "the job has a name"


def _failed_content(match: Match, job: Job) -> Iterator[str]:
    templates = job.templates(match.role)
    if match.requests and not any(requested(template, match.requests) for template in templates):
        yield f"the {match.role} asks for none of {', '.join(match.requests)}"
    if match.volume and not any(has_volume(template, match.volume) for template in templates):
        yield f"the {match.role} has no volume {_either(match.volume)}"
    for name, allowed in match.fields.items():
        if name not in job.workload.fields:
            yield f"a {job.workload.name} has no field {name}"
            continue
        text = field(job.workload, job.object, name)
        if not matches(text, allowed):
            yield f"{job.workload.fields[name].path} is {cut(text)}, not {_either(allowed)}"
    for kind, conditions in (("label", match.labels), ("annotation", match.annotations)):
        for key, allowed in conditions.items():
            found = map_at(job.object, ("metadata", f"{kind}s")).get(key, "")
            if not matches(text_of(found), allowed):
                yield f"{kind} {key} is {shown(found, 40)}, not {_either(allowed)}"
    if match.namespace and not matches(job.namespace, match.namespace):
        yield f"the namespace is {job.namespace}, not {_either(match.namespace)}"


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(value or '""' for value in values)

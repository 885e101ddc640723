"""Matching: whether a rule fires. Every no names the condition that failed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from contract.place import Placer
from webhook.engine.devices import unsupported
from webhook.engine.jobs import Job, field, matches
from webhook.engine.outcome import cut
from webhook.objects.templates import has_volume, takes
from webhook.objects.tree import Path, get, map_at, shown, text_of
from webhook.rows.table import Match, Shape, Table
from webhook.rows.workloads import ANY

CANDIDATE: Final = "it is a candidate"
NO_CANDIDATE: Final = "it is no candidate"
"""Why a rule for objects of the other sort does not fire; the outcome's reason says more."""


@dataclass(frozen=True)
class Subject:
    """What rules are matched against.

    Attributes:
        table: that the rules are of.
        job: an object opened.
        candidate: whether the table's candidates are such objects; only those have a shape.
        shape: None for what is no job of its own, and for what is no candidate.
        placer: who finds the nodes of a job, or of a Pod by its own word; None while that is not known.
    """

    table: Table
    job: Job
    candidate: bool
    shape: Shape | None
    placer: Placer | None = None


def matched(match: Match, subject: Subject) -> list[Path] | str:
    """The templates that a rule is for, or the first of its conditions that the job does not meet.

    Conditions on templates are each template's own: of the role's the rule is for those that meet them.
    """
    if match.candidate is not None and match.candidate != subject.candidate:
        return CANDIDATE if subject.candidate else NO_CANDIDATE
    if failed := next(_failed_kind(match, subject), None):
        return failed
    failures = {
        path: next(_failed_template(match, subject, path), None) for path in subject.job.paths(match.role)
    }
    paths = [path for path, why in failures.items() if why is None]
    if not paths or (match.every and len(paths) < len(failures)):
        return next(filter(None, failures.values()))  # of several templates the first says why
    return next(_failed_object(match, subject.job), None) or paths


def found_devices(match: Match, subject: Subject, paths: list[Path]) -> Mapping[str, str]:
    """What placeholders about devices stand for, in a rule that fires for these templates."""
    for path in paths:
        found = unsupported(subject.table, subject.job, path, match.unsupported_count)
        if found:
            return found.texts(path)
    return {}


def _failed_kind(match: Match, subject: Subject) -> Iterator[str]:
    job, shape = subject.job, subject.shape
    if match.workload and job.workload.name not in match.workload:
        yield f"workload is {job.workload.name}, not {_either(match.workload)}"
    if not job.paths(match.role):
        yield f"the job has no {'pod' if match.role == ANY else match.role} template"
    facts = shape.facts() if shape else {}
    for key, allowed in match.shape.items():
        if not shape:
            yield f"a {job.workload.name} has no shape"
        elif facts[key] not in allowed:
            yield f"shape {shape.name} has {key} {facts[key]}, not {_either(allowed)}"
    if match.placer and subject.placer not in match.placer:
        placer = f"placed by {subject.placer}" if subject.placer else "of no job that is placed"
        yield f"it is {placer}, not by {_either(match.placer)}"
    if match.numbered is not None and match.numbered != job.numbered():
        yield (
            "not every pod has a number of its own" if match.numbered else "every pod has a number of its own"
        )
    if match.named is not None and match.named != bool(job.name):
        yield "the job has no name yet (generateName)" if match.named else "the job has a name"


def _failed_object(match: Match, job: Job) -> Iterator[str]:
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


def _failed_template(match: Match, subject: Subject, path: Path) -> Iterator[str]:
    template = get(subject.job.object, path)
    whose = "pod" if match.role == ANY else match.role
    asked = subject.job.asked[path] if match.requests else {}
    if match.requests and not any(takes(asked, name, least) for name, least in match.requests.items()):
        yield f"the {whose} asks for none of {', '.join(match.requests_shown())}"
    if match.volume and not has_volume(template, match.volume):
        yield f"the {whose} has no volume {_either(match.volume)}"
    for place, allowed in match.template.items():
        found = place.value(template) or ""
        if not matches(text_of(found), allowed):
            yield f"{place} of the {whose} is {shown(found, 40)}, not {_either(allowed)}"
    if match.unsupported_count and not unsupported(subject.table, subject.job, path, match.unsupported_count):
        yield f"the {whose} asks for no number of devices that its instance type is known not to accept"


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(value or '""' for value in values)

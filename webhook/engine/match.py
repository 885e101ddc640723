"""Matching: whether a rule fires. Every no names the condition that failed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import lru_cache
from typing import Final

from contract.place import Placer
from webhook.engine.devices import unsupported
from webhook.engine.jobs import OpenJob
from webhook.engine.outcome import Fault, RuleOutcome, State, cut
from webhook.objects.templates import chosen_types, containers, has_volume, matches, takes
from webhook.objects.tree import Path, get, map_at, shown, text_of
from webhook.rows.table import Devices, Match, Rule, Shape, Table
from webhook.rows.workloads import ANY

SWITCHED_OFF: Final = "switched off"


@dataclass(frozen=True)
class Subject:
    """What rules are matched against.

    Attributes:
        table: that the rules are of.
        job: an object opened.
        candidate: whether the table's candidates are such objects; only those have a shape.
        shape: None for what is not a job of its own, and for what is not a candidate.
        placer: who finds the nodes of a job, or of a Pod by its own word; None while that is not known.
        devices: how the job's workers get their devices.
        lacking: placeholders that rules quote and the job has nothing for, as far as they are known.
        faults: what is wrong with the job, by its sort.
        off: names of the rules that are switched off for it.
    """

    table: Table
    job: OpenJob
    candidate: bool
    shape: Shape | None
    placer: Placer | None = None
    devices: Devices = "none"
    lacking: frozenset[str] = frozenset()
    faults: Mapping[str, Fault] = attribute(default_factory=dict)
    off: frozenset[str] = frozenset()

    @property
    def facts(self) -> tuple[object, ...]:
        """All that conditions on the job look at."""
        job = self.job
        shape = self.shape.name if self.shape else None
        return (
            job.workload.name,
            self.candidate,
            shape,
            self.placer,
            self.devices,
            self.lacking,
            bool(job.name),
            job.numbered,
            job.roles,
            tuple(self.faults),
            self.off,
        )


def ruled_out(subject: Subject) -> tuple[Sequence[RuleOutcome | None], Sequence[tuple[int, Rule]]]:
    """What became of each rule for a kind of object that cannot fire for such jobs, and the others by place.

    It is found out once for each set of facts, which are as few as rows of the table.
    """
    known = subject.table.ruled_out
    facts = subject.facts
    if facts not in known:
        sorts = {None, *subject.faults}  # rows on others would say nothing
        every = subject.table.rules_of[subject.job.workload.name]
        rules = [rule for rule in every if rule.match.fault in sorts]
        why = [_ruled_out(rule, subject) for rule in rules]
        known[facts] = (
            [text and RuleOutcome(rules[place].name, State.SKIPPED, text) for place, text in enumerate(why)],
            [(place, rule) for place, rule in enumerate(rules) if not why[place]],
        )
    return known[facts]


def _ruled_out(rule: Rule, subject: Subject) -> str | None:
    match = rule.match
    if rule.name in subject.off:
        return SWITCHED_OFF
    if rule.waits_for:
        return f"the table has no {rule.waits_for}"
    if match.candidate is not None and match.candidate != subject.candidate:
        return "it is a candidate" if subject.candidate else "it is not a candidate"
    if not subject.job.paths(match.role):
        return f"the job has no {_whose(match)} template"
    known_later = match.of_template or match.of_object or match.fault
    lacking = None if known_later else rule.quotes & subject.lacking
    return _failed(match.of_job, match, subject) or (nothing_for(lacking) if lacking else None)


def nothing_for(lacking: Collection[str]) -> str:
    """Why a rule is skipped that quotes placeholders which a job has nothing for."""
    return f"the job has nothing for $({min(lacking)})"


def matched(match: Match, subject: Subject) -> Sequence[Path] | str:
    """The templates that a rule is for, or the first of its conditions that is not met.

    Conditions on templates are each template's own: of the role's the rule is for those that meet them.
    """
    paths = every = subject.job.paths(match.role)
    if match.of_template:
        reasons = [_failed(match.of_template, match, subject, path) for path in every]
        paths = tuple(path for path, why in zip(every, reasons, strict=True) if why is None)
        if not paths or (match.every and len(paths) < len(every)):
            return next(filter(None, reasons))  # of several templates the first says why
    if match.of_object and (reason := _failed(match.of_object, match, subject)):
        return reason
    return paths


def _failed(conditions: Sequence[str], match: Match, *about: object) -> str | None:
    """What the first of a rule's conditions says that is not met."""
    for name in conditions:
        if why := _CHECKS[name](match, *about):
            return why
    return None


def _whose(match: Match) -> str:
    return "pod" if match.role == ANY else match.role


def _shape(match: Match, subject: Subject) -> str | None:
    shape = subject.shape
    if not shape:
        return f"a {subject.job.workload.name} has no shape"
    for key, allowed in match.shape.items():
        if shape.facts[key] not in allowed:
            return f"shape {shape.name} has {key} {shape.facts[key]}, not {_either(allowed)}"
    return None


def _placer(match: Match, subject: Subject) -> str | None:
    if subject.placer in match.placer:
        return None
    placers = (subject.placer or "", *match.placer)
    who, *others = ("whole-job admission" if each == Placer.GATE else each for each in placers)
    return f"it is {f'placed by {who}' if who else 'of no job that is placed'}, not by {_either(others)}"


def _devices(match: Match, subject: Subject) -> str | None:
    if subject.devices in match.devices:
        return None
    return f"how its workers get devices is {subject.devices}, not {_either(match.devices)}"


def _numbered(match: Match, subject: Subject) -> str | None:
    if match.numbered == subject.job.numbered:
        return None
    return "not every pod has a number of its own" if match.numbered else "every pod has a number of its own"


def _named(match: Match, subject: Subject) -> str | None:
    if match.named == bool(subject.job.name):
        return None
    return "the job has no name yet (generateName)" if match.named else "the job has a name"


def _requests(match: Match, subject: Subject, path: Path) -> str | None:
    asked = subject.job.asked[path]
    if any(takes(asked, name, wanted.at_least, wanted.at_most) for name, wanted in match.requests.items()):
        return None
    return f"the {_whose(match)} asks for none of {', '.join(match.requests_shown())}"


def _image(match: Match, subject: Subject, path: Path) -> str | None:
    images = [text_of(item.get("image") or "") for item in containers(get(subject.job.object, path))]
    if any(matches(image, match.image) for image in images):
        return None
    return f"the {_whose(match)} has no image that is {_either(match.image)}"


def _instance_type(match: Match, subject: Subject, path: Path) -> str | None:
    labels = subject.table.candidates.type_labels
    named = chosen_types(subject.job.selections[path], labels) or ("",)
    if any(matches(name, match.instance_type) for name in named):
        return None
    found = cut(" or ".join(named)) or "no instance type"
    return f"the {_whose(match)} names {found}, not {_either(match.instance_type)}"


def _volume(match: Match, subject: Subject, path: Path) -> str | None:
    if has_volume(get(subject.job.object, path), match.volume):
        return None
    return f"the {_whose(match)} has no volume {_either(match.volume)}"


def _template(match: Match, subject: Subject, path: Path) -> str | None:
    template = get(subject.job.object, path)
    for place, allowed in match.template.items():
        found = place.value(template)
        if not matches(text_of(found) if found else "", allowed):
            return _differs(place.text, shown(found, 40) if found else '""', allowed, match.role)
    return None


def _unsupported_count(match: Match, subject: Subject, path: Path) -> str | None:
    if unsupported(subject.table, subject.job, path, match.unsupported_count):
        return None
    return f"the {_whose(match)} asks for no number of devices that its instance type is known not to accept"


def _single(match: Match, subject: Subject) -> str | None:
    templates = len(subject.job.paths(match.role))
    return None if match.single == (templates == 1) else f"the job has {templates} {match.role} templates"


def _workers(match: Match, subject: Subject) -> str | None:
    wanted, workers = match.workers, subject.job.nodes()
    if wanted is None or wanted.at_least <= workers <= wanted.at_most:
        return None
    return f"it has {workers} workers, not {wanted}"


def _fields(match: Match, subject: Subject) -> str | None:
    job = subject.job
    for name, allowed in match.fields.items():
        if name not in job.workload.fields:
            return f"a {job.workload.name} has no field {name}"
        text = job.field(name)
        if not matches(text, allowed):
            return _differs(str(job.workload.fields[name].path), cut(text), allowed)
    return None


def _marks(kind: str, conditions: Mapping[str, tuple[str, ...]], job: OpenJob) -> str | None:
    marks = map_at(job.object, ("metadata", f"{kind}s"))
    for key, allowed in conditions.items():
        found = marks.get(key, "")
        if not matches(text_of(found), allowed):
            return f"{kind} {key} is {shown(found, 40)}, not {_either(allowed)}"
    return None


def _namespace(match: Match, subject: Subject) -> str | None:
    if matches(subject.job.namespace, match.namespace):
        return None
    return f"the namespace is {subject.job.namespace}, not {_either(match.namespace)}"


_CHECKS: Final[Mapping[str, Callable[..., str | None]]] = {
    "shape": _shape,
    "placer": _placer,
    "devices": _devices,
    "numbered": _numbered,
    "named": _named,
    "requests": _requests,
    "image": _image,
    "instance_type": _instance_type,
    "volume": _volume,
    "template": _template,
    "unsupported_count": _unsupported_count,
    "single": _single,
    "workers": _workers,
    "fields": _fields,
    "labels": lambda match, subject: _marks("label", match.labels, subject.job),
    "annotations": lambda match, subject: _marks("annotation", match.annotations, subject.job),
    "namespace": _namespace,
}
"""What looks at each condition, and says what failed of it; None where it is met."""


@lru_cache(maxsize=1024)  # most jobs differ from rows alike
def _differs(what: str, text: str, allowed: tuple[str, ...], role: str = "") -> str:
    whose = f" of the {'pod' if role == ANY else role}" if role else ""
    return f"{what}{whose} is {text}, not {_either(allowed)}"


def _either(values: Sequence[str]) -> str:
    return " or ".join(value or '""' for value in values)

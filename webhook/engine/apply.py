"""Applies rules to a job: which fire, what they add, and their messages."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from common.texts import cut
from contract.place import Placer
from webhook.engine.jobs import Job
from webhook.engine.match import Ready, Values, matched, ruled_out, unmet
from webhook.engine.messages import Message, coded, message
from webhook.engine.outcome import RuleOutcome, State
from webhook.objects.merge import Additions, Conflict, Merge, OnConflict
from webhook.objects.tree import Json, Path, same, shown
from webhook.rows.placeholders import render
from webhook.rows.table import Rule

MOST_KEYS: Final = 10
"""Keys of two elements whose difference a message names."""


@dataclass
class Progress:
    """The state of an evaluation.

    Attributes:
        templates: The pod templates as changed so far, by their path in the object.
        setters: By the path of what rules set, as in `Merge.places`, the last such rule; None if the request
            does not ask for it.
    """

    templates: dict[Path, Json]
    rules: list[RuleOutcome] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    denials: list[Message] = field(default_factory=list)
    refusing: list[str] = field(default_factory=list)
    unplaced: list[Message] = field(default_factory=list)
    additions: dict[Path, Additions] = field(default_factory=dict)
    fired: set[str] = field(default_factory=set)
    clean: set[str] = field(default_factory=set)
    setters: dict[Path, str] | None = None


_Answers = dict[int, tuple[Rule, Ready | str]]
"""By position in the table, the rules that can fire for such jobs, and what matches or why it does not."""


def apply_rules(job: Job, values: Values, progress: Progress) -> None:
    """Applies the shape's messages and every rule that fires; adds the outcome of each to the progress.

    Sets the job's placer, and how its workers get their devices, including those that a rule adds.
    """
    shape = job.shape.shape if job.shape else None
    if shape and shape.warn:
        progress.warnings.append(Message(shape.name, render(shape.warn, values())))
    if shape and shape.deny:
        progress.denials.append(Message(shape.name, render(shape.deny, values())))
        progress.refusing.append(shape.name)
    outcomes, answers = _matched(job, values)
    for place, (rule, answer) in answers.items():
        if isinstance(answer, str):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, answer)
        elif why := _hindered(answer, progress):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, why)
        else:
            outcomes[place] = _fire(answer, progress)
    progress.rules += filter(None, outcomes)


def _hindered(ready: Ready, progress: Progress) -> str | None:
    """Returns why a rule that matches does not fire."""
    rule = ready.rule
    for name in rule.unless:
        if name in progress.fired:
            return f"{name} fired instead"
    if rule.needs and progress.clean.isdisjoint(rule.needs):
        return unmet(rule)
    taken = ready.mount_taken if rule.match.mount_free else None
    if taken and not rule.quiet:
        progress.warnings.append(message("value-kept", f"{taken}; mount yours elsewhere"))
    return taken


def _matched(job: Job, values: Values) -> tuple[list[RuleOutcome | None], _Answers]:
    """Returns the outcomes that are the same for all such jobs, and the rules that match.

    Evaluates first the rules that set the placer, because others have a condition on it.
    """
    giving = _answers(job, values, job.table.giving - job.off)
    ways = [rule.devices for rule, answer in giving.values() if isinstance(answer, Ready) and rule.devices]
    job.devices = ways[0] if ways else job.devices
    first = _answers(job, values, job.table.placing_of[job.workload.name]) | giving
    fires = {place: rule for place, (rule, answer) in first.items() if isinstance(answer, Ready)}
    placing = next((rule for rule in fires.values() if rule.placer), None)
    if job.shape:
        job.placer = placing.placer if placing else Placer.SCHEDULER
    for place, rule in fires.items():
        if placing and rule.placer and rule is not placing:
            first[place] = rule, f"{placing.name} sets the placer"
    outcomes, others = ruled_out(job)
    answers = {place: first.get(place) or (rule, matched(rule, job, values)) for place, rule in others}
    # A rule that adds devices has matched before: it may be for jobs without devices.
    if not first.keys() <= answers.keys():
        answers = dict(sorted({**answers, **first}.items()))
    return [*outcomes], answers


def _answers(job: Job, values: Values, names: Collection[str]) -> _Answers:
    """Returns for each of these rules whether it matches, or why not."""
    if not names:
        return {}
    rules = ruled_out(job)[1]
    return {place: (rule, matched(rule, job, values)) for place, rule in rules if rule.name in names}


def _fire(ready: Ready, progress: Progress) -> RuleOutcome:
    rule, job, after, hindered = ready.rule, ready.job, dict[Path, Json](), list[Merge]()
    several = len(job.of[rule.match.role]) > 1
    for group in ready.groups:
        path, known = group.path, ready.known
        if several or "job.place" in rule.quotes:
            known = {**known, **ready.known_of(group)}
        merge = Merge(path, rule.on_conflict, progress.additions.setdefault(path, {}), rule.before)
        merge.places = None if progress.setters is None else []
        fragment = rule.fragment(known) if rule.fragment else rule.add
        after[path] = merge.apply(progress.templates[path], fragment)
        if merge.conflicts or merge.missing or merge.refused:
            hindered.append(merge)
        if progress.setters is not None:
            progress.setters |= {path + place: rule.name for place in merge.places or ()}
    progress.templates |= after
    if rule.warn or rule.unplaced:
        _warn(ready, progress)
    progress.fired.add(rule.name)
    denials = [Message(rule.name, render(rule.deny, ready.known))] if rule.deny else []
    if not hindered or all(merge.is_clean for merge in hindered):
        progress.clean.add(rule.name)
    warnings: list[Message] = []
    for merge in hindered:
        warnings += coded("not-added", merge.missing)
        denials += coded("too-many-terms", merge.refused)
        (denials if rule.on_conflict is OnConflict.DENY else warnings).extend(_conflicts(rule, merge))
    progress.warnings += warnings
    progress.denials += denials
    if denials:
        progress.refusing.append(rule.name)
    why = cut(" ".join([rule.reason, *warnings])) if warnings else rule.reason
    return RuleOutcome(rule.name, State.FIRED, why)


def _warn(ready: Ready, progress: Progress) -> None:
    rule = ready.rule
    for known in ready.warned_of:
        if rule.warn:
            progress.warnings.append(Message(rule.name, render(rule.warn, known)))
        if rule.unplaced:
            unplaced = Message(rule.name, render(rule.unplaced, known))
            progress.unplaced.append(unplaced)
            progress.warnings.append(Message(rule.name, f"the job waits forever: {unplaced}"))


_CONFLICTS: Final = {
    OnConflict.KEEP: "value-kept",
    OnConflict.OVERRIDE: "value-replaced",
    OnConflict.DENY: "value-refused",
}
"""Code of the message about a conflict."""


def _conflicts(rule: Rule, merge: Merge) -> Iterator[Message]:
    """Yields a message about each choice of the user; it does not name the rule: a user has no rules."""
    conflicts = () if rule.quiet and rule.on_conflict is not OnConflict.DENY else merge.conflicts
    return coded(_CONFLICTS[rule.on_conflict], map(_difference, conflicts))


def _difference(conflict: Conflict) -> str:
    """Returns how the user's choice differs, without whole containers."""
    theirs, ours = conflict.theirs, conflict.ours
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = sorted(k for k in theirs.keys() | ours.keys() if not same(theirs.get(k), ours.get(k)))
        more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
        return f"{conflict.path} differs from the webhook's in {', '.join(keys[:MOST_KEYS])}{more}"
    return f"{conflict.path} is {shown(theirs, 40)}, not {shown(ours, 40)}"

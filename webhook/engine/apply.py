"""Applies rules to a job: which fire, what they add, and their messages."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.texts import cut, few
from contract.place import Placer
from webhook.engine.jobs import Job
from webhook.engine.match import MatchingRule, match_rule, needs_not_met, split_rules
from webhook.engine.messages import Message, coded, message
from webhook.engine.outcome import Fault, Kind, RuleOutcome, State
from webhook.engine.values import Values
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
        reason: See `Outcome`, as all attributes that have the same name.
        templates: The pod templates as changed so far, by their path in the object.
        rules: The outcome of each rule, in the table's order.
        refusing: Names of the rules and shapes that deny the job.
        unplaced: Reasons why no node can take the job's pods.
        additions: What the rules added to each template, for its record.
        fired: Names of the rules that fired.
        clean: Names of those whose additions conflicted with no value of the job.
        setters: The last rule that set a value, by path as in `Merge.set_paths`; None if the request does not
            ask for it.
    """

    reason: str = ""
    untouched: Kind = Kind.UNCHANGED
    facts: dict[str, str] = field(default_factory=dict)
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    templates: dict[Path, Json] = field(default_factory=dict)
    rules: list[RuleOutcome] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    denials: list[Message] = field(default_factory=list)
    refusing: list[str] = field(default_factory=list)
    unplaced: list[Message] = field(default_factory=list)
    additions: dict[Path, Additions] = field(default_factory=dict)
    fired: set[str] = field(default_factory=set)
    clean: set[str] = field(default_factory=set)
    setters: dict[Path, str] | None = None


_Matches = dict[int, tuple[Rule, MatchingRule | str]]
"""By position in the table: a rule, with its match or the reason why it does not match."""


def apply_rules(job: Job, values: Values, progress: Progress) -> None:
    """Applies the shape's messages and every rule that fires; adds the outcome of each to the progress.

    Sets the job's placer, and how its workers get their devices, including those that a rule adds.
    """
    shape = job.shape.shape if job.shape else None
    if shape and shape.warn:
        progress.warnings.append(Message(shape.name, render(shape.warn, values.every)))
    if shape and shape.deny:
        progress.denials.append(Message(shape.name, render(shape.deny, values.every)))
        progress.refusing.append(shape.name)
    outcomes, matches = _match_all(job, values)
    for place, (rule, match) in matches.items():
        if isinstance(match, str):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, match)
        elif rule.can_be_prevented and (why := _prevented(match, progress)):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, why)
        else:
            outcomes[place] = _fire(match, progress)
    progress.rules += filter(None, outcomes)


def _prevented(match: MatchingRule, progress: Progress) -> str | None:
    """Returns why a rule that matches does not fire."""
    rule = match.rule
    for name in rule.unless:
        if name in progress.fired:
            return f"{name} fired instead"
    if rule.needs and progress.clean.isdisjoint(rule.needs):
        return needs_not_met(rule)
    taken = match.mount_taken if rule.match.mount_free else None
    if taken and not rule.quiet:
        progress.warnings.append(message("value-kept", f"{taken}; mount your volume elsewhere"))
    return taken


def _match_all(job: Job, values: Values) -> tuple[list[RuleOutcome | None], _Matches]:
    """Returns outcomes of the rules that cannot fire, as `split_rules` does, and the matches of the others.

    The three stages of a table: first the rules that add devices, then those that set the placer, then all
    others, which may have conditions on both.
    """
    enabled = job.table.device_rules - job.off
    device_rules = _match_some(job, values, enabled) if enabled else {}
    ways = [
        rule.devices
        for rule, match in device_rules.values()
        if isinstance(match, MatchingRule) and rule.devices
    ]
    job.devices = ways[0] if ways else job.devices
    first = _match_some(job, values, job.table.placer_rules_of[job.workload.name]) | device_rules
    matching = {place: rule for place, (rule, match) in first.items() if isinstance(match, MatchingRule)}
    placing = next((rule for rule in matching.values() if rule.placer), None)
    if job.shape:
        job.placer = placing.placer if placing else Placer.SCHEDULER
    for place, rule in matching.items():
        if placing and rule.placer and rule is not placing:
            first[place] = rule, f"{placing.name} sets the placer"
    outcomes, others = split_rules(job)
    matches = {place: first.get(place) or (rule, match_rule(rule, job, values)) for place, rule in others}
    # A rule that adds devices matched before it changed `job.devices`; by the new value it may be left out.
    if not first.keys() <= matches.keys():
        matches = dict(sorted({**matches, **first}.items()))
    return [*outcomes], matches


def _match_some(job: Job, values: Values, names: Collection[str]) -> _Matches:
    """Returns the matches of the rules with these names."""
    rules = split_rules(job)[1]
    return {place: (rule, match_rule(rule, job, values)) for place, rule in rules if rule.name in names}


def _fire(match: MatchingRule, progress: Progress) -> RuleOutcome:
    rule, several = match.rule, len(match.job.of[match.rule.match.role]) > 1
    after: dict[Path, Json] = {}
    conflicting: list[Merge] = []
    for group in match.groups:
        path, values = group.path, match.values
        if several or "job.place" in rule.placeholders:
            values = {**values, **match.values_of(group)}
        merge = Merge(path, rule.on_conflict, progress.additions.setdefault(path, {}), rule.before)
        merge.set_paths = None if progress.setters is None else []
        fragment = rule.fill_fragment(values) if rule.fill_fragment else rule.add
        after[path] = merge.apply(progress.templates[path], fragment)
        if merge.conflicts or merge.missing or merge.refused:
            conflicting.append(merge)
        if progress.setters is not None:
            progress.setters |= {path + place: rule.name for place in merge.set_paths or ()}
    progress.templates |= after
    if rule.warn or rule.unplaced:
        _warn(match, progress)
    progress.fired.add(rule.name)
    denials = [Message(rule.name, render(rule.deny, match.values))] if rule.deny else []
    if not conflicting or all(merge.is_clean for merge in conflicting):
        progress.clean.add(rule.name)
    warnings: list[Message] = []
    for merge in conflicting:
        warnings += coded("not-added", merge.missing)
        denials += coded("too-many-terms", merge.refused)
        (denials if rule.on_conflict is OnConflict.DENY else warnings).extend(_conflicts(rule, merge))
    progress.warnings += warnings
    progress.denials += denials
    if denials:
        progress.refusing.append(rule.name)
    why = cut(" ".join([rule.reason, *warnings])) if warnings else rule.reason
    return RuleOutcome(rule.name, State.FIRED, why)


def _warn(match: MatchingRule, progress: Progress) -> None:
    rule = match.rule
    for values in match.values_of_faults:
        if rule.warn:
            progress.warnings.append(Message(rule.name, render(rule.warn, values)))
        if rule.unplaced:
            unplaced = Message(rule.name, render(rule.unplaced, values))
            progress.unplaced.append(unplaced)
            progress.warnings.append(Message(rule.name, f"the job waits forever: {unplaced}"))


_CONFLICTS: Final = {
    OnConflict.KEEP: "value-kept",
    OnConflict.OVERRIDE: "value-replaced",
    OnConflict.DENY: "value-refused",
}
"""Code of the message about a conflict."""


def _conflicts(rule: Rule, merge: Merge) -> Iterator[Message]:
    """Yields a message about each value of the user. It names no rule, because users do not see the table."""
    conflicts = () if rule.quiet and rule.on_conflict is not OnConflict.DENY else merge.conflicts
    return coded(_CONFLICTS[rule.on_conflict], map(_difference, conflicts))


def _difference(conflict: Conflict) -> str:
    """Returns how the user's choice differs, without whole containers."""
    user, rule = conflict.user_value, conflict.rule_value
    if isinstance(user, dict) and isinstance(rule, dict):
        keys = sorted(k for k in user.keys() | rule.keys() if not same(user.get(k), rule.get(k)))
        return f"{conflict.path} differs from the webhook's in {few(keys, MOST_KEYS)}"
    return f"{conflict.path} is {shown(user, 40)}, not {shown(rule, 40)}"

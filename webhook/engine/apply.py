"""Applies rules to a job: decides which rules fire, merges what they add, and collects their messages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.texts import cut, join_names
from contract.placement import Placer
from webhook.engine import messages
from webhook.engine.jobs import Job
from webhook.engine.match import MatchingRule, match_rule, split_rules
from webhook.engine.messages import Message, message, messages_of
from webhook.engine.outcome import Fault, OutcomeKind, RuleOutcome, RuleState
from webhook.objects.merge import Additions, Conflict, Merge, OnConflict
from webhook.objects.tree import Json, Path, same, shown
from webhook.rows.placeholders import render
from webhook.rows.table import Rule

MOST_KEYS: Final = 10
"""Maximum number of keys in a message about two maps that differ."""


@dataclass
class Progress:
    """The state of an evaluation. `Outcome` describes the attributes that are not listed here.

    Attributes:
        templates: The pod templates without earlier additions and with all changes so far, by their path in
            the object.
        additions: What the rules added to each template, for the template's record.
        fired_rules: The names of the rules that fired.
        complete_rules: The names of the fired rules that set all their values (`Merge.has_all_values`).
        rules_by_path: The name of the last rule that set each value. The key is the path of the template,
            followed by a path in `Merge.written_paths`. None without `Request.explain`.
    """

    reason: str = ""
    kind_if_unchanged: OutcomeKind = OutcomeKind.UNCHANGED
    facts: dict[str, str] = field(default_factory=dict)
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    templates: dict[Path, Json] = field(default_factory=dict)
    rules: list[RuleOutcome] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    denials: list[Message] = field(default_factory=list)
    refusing: list[str] = field(default_factory=list)
    unplaced: list[Message] = field(default_factory=list)
    additions: dict[Path, Additions] = field(default_factory=dict)
    fired_rules: set[str] = field(default_factory=set)
    complete_rules: set[str] = field(default_factory=set)
    rules_by_path: dict[Path, str] | None = None


_Matches = dict[int, tuple[Rule, MatchingRule | str]]
"""Rules by position as in `split_rules`, each with its match or with the reason why it does not match."""


def apply_rules(job: Job, progress: Progress) -> None:
    """Applies every rule that fires, and adds the outcomes of all rules from `split_rules` to the progress.

    Also adds the messages of the job's shape. Sets `Job.devices` and, for a job with a shape, `Job.placer`.
    """
    shape = job.shape.shape if job.shape else None
    if shape and shape.warn:
        progress.warnings.append(Message(shape.name, render(shape.warn, job.values())))
    if shape and shape.deny:
        progress.denials.append(Message(shape.name, render(shape.deny, job.values())))
        progress.refusing.append(shape.name)
    outcomes, matches = _match_all(job)
    for position, (rule, match) in matches.items():
        if isinstance(match, str):
            outcomes[position] = RuleOutcome(rule.name, RuleState.SKIPPED, match)
        elif rule.can_be_prevented and (reason := _explain_prevention(match, progress)):
            outcomes[position] = RuleOutcome(rule.name, RuleState.SKIPPED, reason)
        else:
            outcomes[position] = _fire(match, progress)
    progress.rules += filter(None, outcomes)


def _explain_prevention(match: MatchingRule, progress: Progress) -> str | None:
    """Returns why a matching rule does not fire; None if it fires. Adds a warning about a mount conflict."""
    rule = match.rule
    for name in rule.unless:
        if name in progress.fired_rules:
            return messages.fired_instead(name)
    if rule.needs and progress.complete_rules.isdisjoint(rule.needs):
        return messages.unmet_needs(" or ".join(rule.needs))
    conflict = match.mount_conflict if rule.match.mount_free else None
    if conflict and not rule.quiet:
        progress.warnings.append(message("value-kept", messages.mount_elsewhere(conflict)))
    return conflict


def _match_all(job: Job) -> tuple[list[RuleOutcome | None], _Matches]:
    """Returns the outcomes of rules that cannot fire, as in `split_rules`, and the matches of the others.

    Rules with `Rule.devices` are matched first and set `Job.devices`. Then the first matching rule with a
    placer sets `Job.placer`. All other rules are matched last, because they can have conditions on both.
    """
    device_rules = _match_rules_with("devices", job)
    device_matches = (match for _, match in device_rules.values() if isinstance(match, MatchingRule))
    devices = (match.rule.devices for match in device_matches)
    job.devices = next(filter(None, devices), job.devices)
    early_matches = _match_rules_with("placer", job) | device_rules
    early_rules = {
        index: rule for index, (rule, match) in early_matches.items() if isinstance(match, MatchingRule)
    }
    placer_rule = next((rule for rule in early_rules.values() if rule.placer), None)
    if job.shape:
        job.placer = placer_rule.placer if placer_rule else Placer.SCHEDULER
    for index, rule in early_rules.items():
        if placer_rule and rule.placer and rule is not placer_rule:
            early_matches[index] = rule, messages.sets_placer(placer_rule.name)
    outcomes, rules = split_rules(job)
    matches = {index: early_matches.get(index) or (rule, match_rule(rule, job)) for index, rule in rules}
    # Rules with `devices` matched the old `job.devices`. `split_rules` may leave them out for the new value.
    if not early_matches.keys() <= matches.keys():
        matches = dict(sorted({**matches, **early_matches}.items()))
    return [*outcomes], matches


def _match_rules_with(key: str, job: Job) -> _Matches:
    """Returns the rules that set ``key`` and may fire, each with its match or why it does not match."""
    _, rules = split_rules(job)
    return {position: (rule, match_rule(rule, job)) for position, rule in rules if getattr(rule, key)}


def _fire(match: MatchingRule, progress: Progress) -> RuleOutcome:
    rule, has_several_groups = match.rule, len(match.job.by_role[match.rule.match.role]) > 1
    new_templates: dict[Path, Json] = {}
    merges_to_report: list[Merge] = []
    for group in match.groups:
        path, values = group.path, match.values
        if has_several_groups or "job.place" in rule.placeholders:
            values = {**values, **match.find_values(group)}
        merge = Merge(path, rule.on_conflict, progress.additions.setdefault(path, {}), rule.before)
        merge.written_paths = None if progress.rules_by_path is None else []
        fragment = rule.fill_fragment(values) if rule.fill_fragment else rule.add
        new_templates[path] = merge.apply(progress.templates[path], fragment)
        if merge.conflicts or merge.obstacles or merge.refusals:
            merges_to_report.append(merge)
        if progress.rules_by_path is not None:
            progress.rules_by_path |= {path + written: rule.name for written in merge.written_paths or ()}
    progress.templates |= new_templates
    if rule.warn or rule.unplaced:
        _add_warnings(match, progress)
    progress.fired_rules.add(rule.name)
    denials = [Message(rule.name, render(rule.deny, match.values))] if rule.deny else []
    if not merges_to_report or all(merge.has_all_values for merge in merges_to_report):
        progress.complete_rules.add(rule.name)
    warnings: list[Message] = []
    for merge in merges_to_report:
        warnings += messages_of("not-added", merge.obstacles)
        denials += messages_of("too-many-terms", merge.refusals)
        (denials if rule.on_conflict is OnConflict.DENY else warnings).extend(_report_conflicts(rule, merge))
    progress.warnings += warnings
    progress.denials += denials
    if denials:
        progress.refusing.append(rule.name)
    reason = cut(" ".join([rule.reason, *warnings])) if warnings else rule.reason
    return RuleOutcome(rule.name, RuleState.FIRED, reason)


def _add_warnings(match: MatchingRule, progress: Progress) -> None:
    rule = match.rule
    for values in match.values_of_warnings:
        if rule.warn:
            progress.warnings.append(Message(rule.name, render(rule.warn, values)))
        if rule.unplaced:
            unplaced = Message(rule.name, render(rule.unplaced, values))
            progress.unplaced.append(unplaced)
            progress.warnings.append(Message(rule.name, messages.waits_forever(unplaced)))


_CONFLICT_CODES: Final = {
    OnConflict.KEEP: "value-kept",
    OnConflict.OVERRIDE: "value-replaced",
    OnConflict.DENY: "value-refused",
}
"""The code of the message about a conflict, by the rule's `on_conflict`."""


def _report_conflicts(rule: Rule, merge: Merge) -> Iterator[Message]:
    """Yields messages about conflicts with the user's values. A quiet rule reports only denied conflicts.

    The messages name no rule, because users do not see the table.
    """
    conflicts = () if rule.quiet and rule.on_conflict is not OnConflict.DENY else merge.conflicts
    return messages_of(_CONFLICT_CODES[rule.on_conflict], map(_describe_conflict, conflicts))


def _describe_conflict(conflict: Conflict) -> str:
    """Describes how the user's value differs from the rule's. For two maps, names the keys that differ."""
    user_value, rule_value = conflict.user_value, conflict.rule_value
    if isinstance(user_value, dict) and isinstance(rule_value, dict):
        all_keys = user_value.keys() | rule_value.keys()
        keys = sorted(key for key in all_keys if not same(user_value.get(key), rule_value.get(key)))
        return messages.maps_differ(conflict.path, join_names(keys, MOST_KEYS))
    return messages.values_differ(conflict.path, shown(user_value, 40), shown(rule_value, 40))

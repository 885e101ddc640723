"""Matches rules with jobs. If a rule does not match, the reason names the first condition that failed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from common.texts import cut
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.outcome import Fault, RuleOutcome, State
from webhook.engine.values import Values, labels_of_units, of_template
from webhook.objects.templates import has_volume, mounts_other_volume
from webhook.objects.tree import Json
from webhook.rows.table import LAST_STAGE, Match, Rule

SWITCHED_OFF: Final = "switched off"


class MatchingRule(NamedTuple):
    """A rule that matches, the matching groups of the job, and the values of placeholders.

    The rule's fragment is filled in only when the rule fires: another rule may fire instead.
    """

    rule: Rule
    job: Job
    groups: Sequence[Group]
    values: Mapping[str, Json]

    @property
    def mount(self) -> Mapping[str, str]:
        """The mount that the rule needs; empty if it needs none."""
        mount_row = self.rule.match.mount_free
        if not mount_row:
            return {}
        return mount_row.fill_mount(self.values) if mount_row.fill_mount else mount_row.mount

    @property
    def mount_conflict(self) -> str | None:
        """Why the rule's mount is impossible: another volume is at its path; None if it is possible."""
        if mount_row := self.rule.match.mount_free:
            mount = self.mount
            for group in self.groups:
                if mounts_other_volume(group.template, mount_row.container or group.main.get("name"), mount):
                    path = cut(mount["mountPath"])
                    return f"the {self.rule.match.role} mounts another volume than {mount['name']} at {path}"
        return None

    @property
    def values_of_faults(self) -> Iterator[Mapping[str, Json]]:
        """The values for each warning of the rule: one for each fault that it is for, or a single one."""
        yield self.values
        for fault in self.job.faults.get(self.rule.match.fault or "", ())[1:]:
            yield {**self.values, **_fault_values(fault)}

    def values_of(self, group: Group) -> Mapping[str, Json]:
        """Returns the values of the placeholders that differ between templates."""
        rule, place = self.rule, self.job.placed(group)
        values = of_template(group, rule.container_placeholders) if rule.container_placeholders else {}
        return {**values, "job.place": str(place)} if place and "job.place" in rule.placeholders else values


def _fault_values(fault: Fault) -> Mapping[str, Json]:
    """Returns the values of the placeholders about a fault."""
    return {f"fault.{key}": text for key, text in fault._asdict().items()}


def split_rules(job: Job) -> tuple[Sequence[RuleOutcome | None], Sequence[tuple[int, Rule]]]:
    """Returns outcomes of the rules that cannot fire for jobs with the same facts, and the other rules.

    The first list has an entry for each rule, by its position: None if the rule may fire. The table caches
    the result for each set of facts; its rows permit few such sets.
    """
    split = job.table.split_rules
    facts = _facts(job)
    if facts not in split:
        faults = {None, *job.faults}  # rules for other faults are left out
        rules = [rule for rule in job.table.rules_of[job.workload.name] if rule.match.fault in faults]
        why = [_cannot_fire(rule, job) for rule in rules]
        possible = {rule.name for rule, text in zip(rules, why, strict=True) if not text}
        for place, rule in enumerate(rules):
            if not why[place] and rule.needs and rule.stage == LAST_STAGE and possible.isdisjoint(rule.needs):
                why[place] = needs_not_met(rule)
                possible.discard(rule.name)
        split[facts] = (
            [text and RuleOutcome(rules[place].name, State.SKIPPED, text) for place, text in enumerate(why)],
            [(place, rule) for place, rule in enumerate(rules) if not why[place]],
        )
    return split[facts]


def _facts(job: Job) -> tuple[object, ...]:
    """Returns the facts that conditions use and that many jobs have in common."""
    shape = job.shape and (job.shape.shape.name, job.shape.node_config)
    decided = (
        job.candidate,
        job.family.name,
        shape,
        job.placer,
        job.devices,
        job.lacking,
        tuple(job.faults),
        job.off,
    )
    return (job.workload.name, bool(job.name), job.numbered, job.roles, *decided)


def _cannot_fire(rule: Rule, job: Job) -> str | None:
    """Returns why a rule cannot fire, by facts alone."""
    match = rule.match
    if rule.name in job.off:
        return SWITCHED_OFF
    if rule.missing_value:
        return f"the table has no {rule.missing_value}"
    if match.candidate is not None and match.candidate != job.candidate:
        return "it is a candidate" if job.candidate else "it is not a candidate"
    if not job.of[match.role]:
        return f"the job has no {match.owner_name} template"
    lacking = None if match.has_late_conditions else rule.required_placeholders & job.lacking
    failed = (condition.failure(job) for condition in match.job_conditions)
    return next(filter(None, failed), None) or (_no_value(lacking) if lacking else None)


def needs_not_met(rule: Rule) -> str:
    """Returns why a rule is skipped if none of the rules that it needs fired without a conflict."""
    return f"{' or '.join(rule.needs)} did not fire, or the job kept a value of its own"


def _no_value(lacking: Collection[str]) -> str:
    """Returns why a rule is skipped if it uses placeholders that have no value."""
    return f"the job has no value for $({min(lacking)})"


def match_rule(rule: Rule, job: Job, values: Values) -> MatchingRule | str:
    """Returns the match of a rule, or the reason why it does not match."""
    match = rule.match
    filled: Mapping[str, Json] = {}
    if match.template and match.template.placeholders:
        filled = {**values.every, **labels_of_units(job)}
        if lacking := match.template.placeholders.difference(filled):
            return _no_value(lacking)
        match = replace(match, template=match.template.filled(filled))
    groups = _matching_groups(match, job) if match.has_late_conditions else job.of[match.role]
    if isinstance(groups, str):
        return groups
    filled = filled or values.every
    if match.unsupported_count:
        filled = {**filled, **groups[0].unsupported(match.unsupported_count.value)}
    if match.fault:
        filled = {**filled, **_fault_values(job.faults[match.fault][0])}
    if lacking := rule.required_placeholders.difference(filled):
        return _no_value(lacking)
    result = MatchingRule(rule, job, groups, filled)
    if match.mount_free and match.mount_free.exists:
        name = result.mount["name"]
        if not all(has_volume(group.template, (name,)) for group in groups):
            return f"the {match.role} has no volume {cut(name)}"
    return result


def _matching_groups(match: Match, job: Job) -> Sequence[Group] | str:
    """Returns the groups whose templates meet a rule's conditions, or why the rule does not match."""
    every = job.of[match.role]
    groups: list[Group] = []
    reasons: list[str] = []
    for group in every:
        for on_template in match.template_conditions:
            if failed := on_template.failure(group, match.owner_name):
                reasons.append(failed)
                break
        else:
            groups.append(group)
    if not groups or (match.every and reasons):
        return reasons[0]  # the reason of the first template
    if match.single is not None and match.single != (len(every) == 1):
        return f"the job has {len(every)} {match.role} templates"
    for on_object in match.object_conditions:
        if failed := on_object.failure(job):
            return failed
    return groups

"""Matches rules with jobs. If a rule does not match, the reason names the first condition that failed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from common.texts import cut
from webhook.engine import messages
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.outcome import Fault, RuleOutcome, RuleState
from webhook.engine.values import compute_template_values, find_unit_labels
from webhook.objects.tree import Json, get_maps, same
from webhook.rows.table import LAST_STAGE, Match, Rule


class MatchingRule(NamedTuple):
    """A rule that matches, the matching groups of the job, and the values of placeholders.

    The rule's fragment is filled in only when the rule fires, because another rule may fire instead.
    """

    rule: Rule
    job: Job
    groups: Sequence[Group]
    values: Mapping[str, Json]

    @property
    def mount(self) -> Mapping[str, str]:
        """The volume mount that the rule needs; empty if it needs no mount."""
        mount_row = self.rule.match.mount_free
        if not mount_row:
            return {}
        return mount_row.fill_mount(self.values) if mount_row.fill_mount else mount_row.mount

    @property
    def mount_conflict(self) -> str | None:
        """Why the rule's mount is impossible: its path has another volume; None if the mount is possible."""
        if mount_row := self.rule.match.mount_free:
            mount = self.mount
            for group in self.groups:
                containers = get_maps(group.spec, ("containers",))
                named_containers = (item for item in containers if item.get("name") == mount_row.container)
                container = next(named_containers, {}) if mount_row.container else group.main_container
                mounts = get_maps(container, ("volumeMounts",))
                mounts_at_path = [item for item in mounts if item.get("mountPath") == mount["mountPath"]]
                if mounts_at_path and not same(mounts_at_path[-1], mount):
                    mount_path = cut(mount["mountPath"])
                    return messages.other_mount(self.rule.match.role, mount["name"], mount_path)
        return None

    @property
    def values_of_warnings(self) -> Iterator[Mapping[str, Json]]:
        """Yields placeholder values for each warning. A rule about a kind of fault warns once per fault."""
        yield self.values
        for fault in self.job.faults.get(self.rule.match.fault or "", ())[1:]:
            yield {**self.values, **_fault_values(fault)}

    def find_values(self, group: Group) -> Mapping[str, Json]:
        """Returns the values, for the template of a group, of placeholders that differ between templates."""
        rule, placement = self.rule, self.job.placement_of(group)
        names = rule.container_placeholders
        values = compute_template_values(group, names) if names else {}
        return (
            {**values, "job.place": str(placement)}
            if placement and "job.place" in rule.placeholders
            else values
        )


def _fault_values(fault: Fault) -> Mapping[str, Json]:
    """Returns the values of the placeholders about a fault."""
    return {f"fault.{key}": text for key, text in fault._asdict().items()}


def split_rules(job: Job) -> tuple[Sequence[RuleOutcome | None], Sequence[tuple[int, Rule]]]:
    """Returns a list of outcomes, and a list of pairs: a position in the first list and a rule that may fire.

    In the first list, the entry is None for a rule that may fire, and an outcome for a rule that cannot fire
    because of the job's facts. Rules for other workloads, and for faults that the job does not have, are left
    out. The table caches the result by the facts, which many jobs have in common.
    """
    cache = job.table.split_rules_cache
    facts = _collect_facts(job)
    if facts not in cache:
        faults = {None, *job.faults}  # rules for other faults cannot match
        workload_rules = job.table.rules_by_workload[job.workload.name]
        rules = [rule for rule in workload_rules if rule.match.fault in faults]
        skips = [_explain_skip(rule, job) for rule in rules]
        names = {rule.name for rule, reason in zip(rules, skips, strict=True) if not reason}
        for index, rule in enumerate(rules):
            if not skips[index] and rule.needs and rule.stage == LAST_STAGE and names.isdisjoint(rule.needs):
                skips[index] = messages.unmet_needs(" or ".join(rule.needs))
                names.discard(rule.name)
        pairs = [*zip(rules, skips, strict=True)]
        outcomes = [reason and RuleOutcome(rule.name, RuleState.SKIPPED, reason) for rule, reason in pairs]
        cache[facts] = outcomes, [(index, rule) for index, (rule, why) in enumerate(pairs) if not why]
    return cache[facts]


def _collect_facts(job: Job) -> tuple[object, ...]:
    """Returns the facts that conditions use and that many jobs have in common."""
    shape = job.shape and (job.shape.shape.name, job.shape.node_config)
    facts = job.workload.name, bool(job.name), job.is_numbered, job.roles, job.is_candidate
    other_facts = job.family.name, shape, job.placer, job.devices, job.missing_placeholders, job.off_rules
    return (*facts, *other_facts, tuple(job.faults))


def _explain_skip(rule: Rule, job: Job) -> str | None:
    """Returns why a rule cannot fire for any job with the same facts; None if it may fire."""
    match = rule.match
    if rule.name in job.off_rules:
        return messages.SWITCHED_OFF
    if rule.missing_value:
        return messages.not_in_table(rule.missing_value)
    if match.candidate is not None and match.candidate != job.is_candidate:
        return messages.IS_CANDIDATE[job.is_candidate]
    if not job.by_role[match.role]:
        return messages.no_template(match.owner_name)
    missing = None if match.has_late_conditions else rule.required_placeholders & job.missing_placeholders
    failures = (condition.failure(job) for condition in match.job_conditions)
    return next(filter(None, failures), None) or (messages.no_value(min(missing)) if missing else None)


def match_rule(rule: Rule, job: Job) -> MatchingRule | str:
    """Returns the match of a rule, or the reason why it does not match."""
    match = rule.match
    known_values: Mapping[str, Json] = {}
    if match.template and match.template.placeholders:
        known_values = {**job.values(), **find_unit_labels(job)}
        if placeholders := match.template.placeholders.difference(known_values):
            return messages.no_value(min(placeholders))
        match = replace(match, template=match.template.fill(known_values))
    groups = _find_matching_groups(match, job) if match.has_late_conditions else job.by_role[match.role]
    if isinstance(groups, str):
        return groups
    known_values = known_values or job.values()
    if match.unsupported_count:
        request_values = groups[0].describe_unsupported_request(match.unsupported_count.value)
        known_values = {**known_values, **request_values}
    if match.fault:
        known_values = {**known_values, **_fault_values(job.faults[match.fault][0])}
    if placeholders := rule.required_placeholders.difference(known_values):
        return messages.no_value(min(placeholders))
    matching_rule = MatchingRule(rule, job, groups, known_values)
    if match.mount_free and match.mount_free.exists:
        name = matching_rule.mount["name"]
        volumes = (get_maps(group.spec, ("volumes",)) for group in groups)
        if not all(any(item.get("name") == name for item in items) for items in volumes):
            return messages.no_volume(match.role, cut(name))
    return matching_rule


def _find_matching_groups(match: Match, job: Job) -> Sequence[Group] | str:
    """Returns the groups whose templates meet a rule's conditions, or why the rule does not match."""
    groups_of_role = job.by_role[match.role]
    groups: list[Group] = []
    reasons: list[str] = []
    for group in groups_of_role:
        for template_condition in match.template_conditions:
            if failure := template_condition.failure(group, match.owner_name):
                reasons.append(failure)
                break
        else:
            groups.append(group)
    if not groups or (match.every and reasons):
        return reasons[0]  # the reason of the first template that does not match
    if match.single is not None and match.single != (len(groups_of_role) == 1):
        return messages.several_templates(len(groups_of_role), match.role)
    for condition in match.object_conditions:
        if failure := condition.failure(job):
            return failure
    return groups

"""Matches rules: whether a rule fires. Each negative answer names the condition that failed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from common.texts import cut
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.outcome import Fault, RuleOutcome, State
from webhook.engine.values import of_template
from webhook.objects.templates import has_volume, mounts_otherwise
from webhook.objects.tree import Json
from webhook.rows.table import LAST, Match, Rule

SWITCHED_OFF: Final = "switched off"

Values = Callable[[], Mapping[str, Json]]
"""Returns the values of placeholders, computed for the first rule that needs them: most objects need none."""


class Ready(NamedTuple):
    """A rule that matched, its groups, and the values of its placeholders.

    Its fragment is filled in only when the rule fires, because another rule may replace one that matches.
    """

    rule: Rule
    job: Job
    groups: Sequence[Group]
    known: Mapping[str, Json]

    @property
    def mount(self) -> Mapping[str, str]:
        """The mount that the rule needs; empty if it needs none."""
        free = self.rule.match.mount_free
        if not free:
            return {}
        return free.filling(self.known) if free.filling else free.mount

    @property
    def mount_taken(self) -> str | None:
        """Why the path of the rule's mount is in use."""
        if free := self.rule.match.mount_free:
            mount = self.mount
            for group in self.groups:
                if mounts_otherwise(group.template, free.container or group.main.get("name"), mount):
                    at = cut(mount["mountPath"])
                    return f"the {self.rule.match.role} mounts another volume than {mount['name']} at {at}"
        return None

    @property
    def warned_of(self) -> Iterator[Mapping[str, Json]]:
        """The values of placeholders of each warning: one for each fault that the rule is for."""
        yield self.known
        for fault in self.job.faults.get(self.rule.match.fault or "", ())[1:]:
            yield {**self.known, **_named(fault)}

    def known_of(self, group: Group) -> Mapping[str, Json]:
        """Returns the values of placeholders that differ between templates."""
        rule, place = self.rule, self.job.placed(group)
        own = of_template(group, rule.own) if rule.own else {}
        return {**own, "job.place": str(place)} if place and "job.place" in rule.quotes else own


def _named(fault: Fault) -> Mapping[str, Json]:
    """Returns the values of the placeholders about a fault."""
    return {f"fault.{key}": text for key, text in fault._asdict().items()}


def ruled_out(job: Job) -> tuple[Sequence[RuleOutcome | None], Sequence[tuple[int, Rule]]]:
    """Returns the outcomes of rules that cannot fire for such jobs, and the other rules by position.

    They are computed once for each set of facts; the table's rows permit few such sets.
    """
    known = job.table.ruled_out
    facts = _facts(job)
    if facts not in known:
        sorts = {None, *job.faults}  # rows on other faults need no evaluation
        rules = [rule for rule in job.table.rules_of[job.workload.name] if rule.match.fault in sorts]
        why = [_ruled_out(rule, job) for rule in rules]
        possible = {rule.name for rule, text in zip(rules, why, strict=True) if not text}
        for place, rule in enumerate(rules):
            if not why[place] and rule.needs and rule.stage == LAST and possible.isdisjoint(rule.needs):
                why[place] = unmet(rule)
                possible.discard(rule.name)
        known[facts] = (
            [text and RuleOutcome(rules[place].name, State.SKIPPED, text) for place, text in enumerate(why)],
            [(place, rule) for place, rule in enumerate(rules) if not why[place]],
        )
    return known[facts]


def _facts(job: Job) -> tuple[object, ...]:
    """Returns all facts that many jobs share and conditions use."""
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


def _ruled_out(rule: Rule, job: Job) -> str | None:
    match = rule.match
    if rule.name in job.off:
        return SWITCHED_OFF
    if rule.waits_for:
        return f"the table has no {rule.waits_for}"
    if match.candidate is not None and match.candidate != job.candidate:
        return "it is a candidate" if job.candidate else "it is not a candidate"
    if not job.of[match.role]:
        return f"the job has no {match.whose} template"
    lacking = None if match.known_later else rule.quotes & job.lacking
    failed = (condition.failed(job) for condition in match.of_job)
    return next(filter(None, failed), None) or (nothing_for(lacking) if lacking else None)


def unmet(rule: Rule) -> str:
    """Returns why a rule is skipped if none of the rules that it needs fired."""
    return f"{' or '.join(rule.needs)} did not fire, or left something of yours in place"


def nothing_for(lacking: Collection[str]) -> str:
    """Returns why a rule is skipped that quotes placeholders without a value."""
    return f"the job has nothing for $({min(lacking)})"


def matched(rule: Rule, job: Job, values: Values) -> Ready | str:
    """Returns a rule that matches, or the first of its conditions that is not met."""
    match = rule.match
    groups = _matching(match, job) if match.known_later else job.of[match.role]
    if isinstance(groups, str):
        return groups
    known = values()
    if match.unsupported_count:
        known = {**known, **groups[0].unsupported(match.unsupported_count.value)}
    if match.fault:
        known = {**known, **_named(job.faults[match.fault][0])}
    if lacking := rule.quotes.difference(known):
        return nothing_for(lacking)
    ready = Ready(rule, job, groups, known)
    if match.mount_free and match.mount_free.exists:
        name = ready.mount["name"]
        if not all(has_volume(group.template, (name,)) for group in groups):
            return f"the {match.role} has no volume {cut(name)}"
    return ready


def _matching(match: Match, job: Job) -> Sequence[Group] | str:
    """Returns the groups whose templates meet its conditions; or why there are none, or the object fails."""
    every, groups, reasons = job.of[match.role], list[Group](), list[str]()
    for group in every:
        for on_template in match.of_template:
            if failed := on_template.failed(group, match.whose):
                reasons.append(failed)
                break
        else:
            groups.append(group)
    if not groups or (match.every and reasons):
        return reasons[0]  # the reason of the first template
    if match.single is not None and match.single != (len(every) == 1):
        return f"the job has {len(every)} {match.role} templates"
    for on_object in match.of_object:
        if failed := on_object.failed(job):
            return failed
    return groups

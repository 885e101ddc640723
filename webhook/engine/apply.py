"""Applying rules to a job: which fire, what they add, what they say."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from contract.place import Placer
from webhook.engine.devices import unsupported
from webhook.engine.match import Subject, matched, nothing_for, ruled_out
from webhook.engine.outcome import RuleOutcome, State, cut
from webhook.engine.placing import place_of
from webhook.engine.values import of_template
from webhook.objects.merge import Additions, Conflict, Merge, OnConflict
from webhook.objects.templates import has_volume, main_container, mounts_otherwise
from webhook.objects.tree import Json, Path, get, same, shown
from webhook.rows.placeholders import render
from webhook.rows.table import Devices, Rule

MOST_KEYS: Final = 10
"""Keys of two elements that a message about their difference names."""


Values = Callable[[], Mapping[str, Json]]
"""What placeholders stand for, worked out when the first rule asks: most objects meet none."""


@dataclass
class Progress:
    """What evaluating has gathered so far.

    Attributes:
        templates: the pod templates as they are by now, by their path in the object.
        setters: by the path of what rules set, as `Merge.places` has them, the last such rule; None if
            nobody asks.
    """

    templates: dict[Path, Json]
    rules: list[RuleOutcome] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    denials: list[str] = field(default_factory=list)
    refusing: list[str] = field(default_factory=list)
    additions: dict[Path, Additions] = field(default_factory=dict)
    clean: set[str] = field(default_factory=set)
    setters: dict[Path, str] | None = None


class _Ready(NamedTuple):
    """A rule that matched, the templates that it is for, and what its placeholders stand for.

    It is filled in when it fires: many that match are replaced by another.
    """

    rule: Rule
    subject: Subject
    paths: Sequence[Path]
    known: Mapping[str, Json]

    @property
    def mount(self) -> Mapping[str, str]:
        """The mount that it needs for itself; empty where it needs none."""
        free = self.rule.match.mount_free
        if not free:
            return {}
        return free.filling(self.known) if free.filling else free.mount

    def templates(self) -> Iterator[Json]:
        """The templates."""
        return (get(self.subject.job.object, path) for path in self.paths)

    def fragments(self) -> Iterator[tuple[Path, Json]]:
        """What it adds to each of the templates."""
        rule, job, shape, placer = self.rule, self.subject.job, self.subject.shape, self.subject.placer
        several = rule.own and len(job.paths(rule.match.role)) > 1
        for path in self.paths:
            known = self.known
            if several:
                known = {**known, **of_template(self.subject.table, job, rule.own, path)}
            if "job.place" in rule.quotes and shape and placer:
                group = next(group for group in job.groups if group.template == path)
                known = {**known, "job.place": str(place_of(job, group, shape, placer))}
            yield path, rule.fragment(known) if rule.fragment else rule.add


_Answers = dict[int, tuple[Rule, _Ready | str]]
"""By place in the table the rules that can fire for such jobs, and what matches, or why it does not."""


def apply_rules(subject: Subject, values: Values, progress: Progress) -> Devices:
    """Applies the shape's messages and every rule that fires; the progress gets the outcome of each.

    Returns:
        How the workers get their devices, those that a rule gives them included.
    """
    shape = subject.shape
    if shape and shape.warn:
        progress.warnings.append(render(shape.warn, values()))
    if shape and shape.deny:
        progress.denials.append(render(shape.deny, values()))
        progress.refusing.append(shape.name)
    subject, outcomes, answers = _matched(subject, values)
    # One that needs what cannot fire replaces nothing: else neither of the two would do anything.
    ready = [rule for rule, answer in answers.values() if isinstance(answer, _Ready)]
    able = {rule.name for rule in ready}
    by_whom = {
        name: rule.name
        for rule in ready
        if not rule.needs or not able.isdisjoint(rule.needs)
        for name in rule.replaces
    }
    for place, (rule, answer) in answers.items():
        if isinstance(answer, str):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, answer)
        elif why := _hindered(answer, by_whom, progress):
            outcomes[place] = RuleOutcome(rule.name, State.SKIPPED, why)
        else:
            outcomes[place] = _fire(answer, progress)
    progress.rules += filter(None, outcomes)
    return subject.devices


def _hindered(ready: _Ready, by_whom: Mapping[str, str], progress: Progress) -> str | None:
    """Why a rule that matches does not fire."""
    rule = ready.rule
    if rule.name in by_whom:
        return f"replaced by rule {by_whom[rule.name]}"
    if rule.needs and progress.clean.isdisjoint(rule.needs):
        return f"{' or '.join(rule.needs)} did not fire, or left something of yours in place"
    taken = _mount_taken(ready) if rule.match.mount_free else None
    if taken and not rule.quiet:
        progress.warnings.append(
            f"kept yours: {taken}; mount yours elsewhere, or it stays without {rule.name}"
        )
    return taken


def _mount_taken(ready: _Ready) -> str | None:
    """What stands where the rule needs a mount for itself."""
    if not (free := ready.rule.match.mount_free):
        return None
    signs, resources = ready.subject.job.workload.main_container, ready.subject.table.candidates.requests
    for each in ready.templates():
        name = free.container or main_container(each, signs, resources).get("name")
        if mounts_otherwise(each, name, ready.mount):
            return (
                f"the {ready.rule.match.role} mounts a volume of its own at {cut(ready.mount['mountPath'])}"
            )
    return None


def _matched(subject: Subject, values: Values) -> tuple[Subject, list[RuleOutcome | None], _Answers]:
    """The subject with its placer, the outcomes that hold for all such jobs, and which rules match.

    First those that say who places the job, for others ask for it.
    """
    giving = _answers(subject, values, subject.table.giving - subject.off)
    given = [rule.devices for rule, one in giving.values() if isinstance(one, _Ready) and rule.devices]
    subject = replace(subject, devices=given[0]) if given else subject
    found = _answers(subject, values, subject.table.placing_of[subject.job.workload.name]) | giving
    fires = {place: rule for place, (rule, one) in found.items() if isinstance(one, _Ready)}
    replaced = {name for rule in fires.values() for name in rule.replaces}
    placing = next((rule for rule in fires.values() if rule.placer and rule.name not in replaced), None)
    if subject.shape:
        subject = replace(subject, placer=placing.placer if placing else Placer.AFFINITY)
    for place, rule in fires.items():
        if placing and rule.placer and rule is not placing:
            found[place] = rule, f"{placing.name} says who places the job"
    outcomes, opened = ruled_out(subject)
    answers = {place: found.get(place) or (rule, _match(rule, subject, values)) for place, rule in opened}
    # What gives devices matched before: it may be for jobs without.
    if not found.keys() <= answers.keys():
        answers = dict(sorted({**answers, **found}.items()))
    return subject, [*outcomes], answers


def _answers(subject: Subject, values: Values, names: Collection[str]) -> _Answers:
    """Whether each of some rules matches, or why not."""
    rules = ruled_out(subject)[1] if names else ()
    return {place: (rule, _match(rule, subject, values)) for place, rule in rules if rule.name in names}


def _match(rule: Rule, subject: Subject, values: Values) -> _Ready | str:
    looks = rule.match.of_template or rule.match.of_object
    paths = matched(rule.match, subject) if looks else subject.job.paths(rule.match.role)
    if isinstance(paths, str):
        return paths
    known = values()
    if rule.match.unsupported_count:
        known = {**known, **unsupported(subject.table, subject.job, paths[0], rule.match.unsupported_count)}
    if rule.match.fault:
        fault = subject.faults[rule.match.fault]._asdict()
        known = {**known, **{f"fault.{key}": text for key, text in fault.items()}}
    if lacking := rule.quotes.difference(known):
        return nothing_for(lacking)
    ready, free = _Ready(rule, subject, paths, known), rule.match.mount_free
    if free and free.exists:
        name = ready.mount["name"]
        if not all(has_volume(each, (name,)) for each in ready.templates()):
            return f"the {rule.match.role} has no volume {cut(name)}"
    return ready


def _fire(ready: _Ready, progress: Progress) -> RuleOutcome:
    rule, after, merges = ready.rule, dict[Path, Json](), list[Merge]()
    for path, fragment in ready.fragments():
        merges.append(Merge(path, rule.on_conflict, progress.additions.setdefault(path, {}), rule.before))
        merges[-1].places = None if progress.setters is None else []
        after[path] = merges[-1].apply(progress.templates[path], fragment)
    progress.templates |= after
    if progress.setters is not None:
        progress.setters |= {merge.at + place: rule.name for merge in merges for place in merge.places or ()}
    if rule.warn:
        progress.warnings.append(render(rule.warn, ready.known))
    denied = len(progress.denials)
    if rule.deny:
        progress.denials.append(render(rule.deny, ready.known))
    progress.clean.add(rule.name)
    for merge in merges:
        if merge.conflicts or merge.missing or merge.refused:
            _say_conflicts(rule, merge, progress)
            if not merge.is_clean:
                progress.clean.discard(rule.name)
    if len(progress.denials) > denied:
        progress.refusing.append(rule.name)
    return RuleOutcome(rule.name, State.FIRED, rule.reason)


def _say_conflicts(rule: Rule, merge: Merge, progress: Progress) -> None:
    for refused in merge.refused:
        progress.denials.append(f"rule {rule.name}: {refused}")
    for missing in merge.missing:
        progress.warnings.append(f"rule {rule.name}: {missing}")
    for conflict in merge.conflicts:
        said = f"{conflict.path} {_difference(conflict)} rule {rule.name}"
        if rule.on_conflict is OnConflict.DENY:
            progress.denials.append(f"{said}; remove yours, or opt out")
        elif not rule.quiet:
            kept = "kept yours" if rule.on_conflict is OnConflict.KEEP else "replaced yours"
            progress.warnings.append(f"{kept}: {said}")


def _difference(conflict: Conflict) -> str:
    """How the user's choice differs, to stand before the rule's name: a whole container is not a message."""
    theirs, ours = conflict.theirs, conflict.ours
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = sorted(k for k in theirs.keys() | ours.keys() if not same(theirs.get(k), ours.get(k)))
        more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
        return f"differs in {', '.join(keys[:MOST_KEYS])}{more} from"
    return f"is {shown(theirs, 40)}, not {shown(ours, 40)} of"

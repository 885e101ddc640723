"""Explains why the API server would store something other than the installation's preview. Pure.

Rules and selectors of webhooks are evaluated here as the API server does. Match conditions (CEL) are not, and
whether the webhook answered is not known here: then all possible reasons are named.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.pointers import numbered, parse_pointer
from common.quantities import thousandths
from common.texts import printable
from contract.keys import ADDED, ADDED_TO_POD, JOB
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import NAME, at, labels, mapped, maps, name_of, templates, text, unmet

RECORDS: Final = (ADDED, ADDED_TO_POD)
"""Annotations with the revision of the table by which the webhook added something."""


@dataclass(frozen=True)
class DryRun:
    """An object that was created as a dry run.

    Attributes:
        answer: The preview service's answer.
        resource: Group and plural name of its kind; empty if the API server does not serve the kind.
        stored: The object as it would be stored; None if it is refused.
        refusal: Why it is refused.
        registrations: All MutatingWebhookConfigurations; None if the user may not read them.
        space: Its Namespace; empty if the user may not read it.
    """

    answer: Object
    resource: tuple[str, str] = ("", "")
    stored: Object | None = None
    refusal: str = ""
    registrations: Sequence[Object] | None = None
    space: Object = field(default_factory=dict)

    @property
    def received(self) -> Object:
        """The object as its author wrote it."""
        return mapped(self.answer, "received")

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return text(self.answer, "object", "namespace")

    def hooks(self, *, ours: bool) -> list[Object]:
        """Returns the webhooks of the installation, or all others."""
        chosen = (one for one in self.registrations or () if (NAME in name_of(one)) is ours)
        return [hook for one in chosen for hook in maps(one, "webhooks")]

    def matching(self, *, ours: bool) -> list[Object]:
        """Returns the webhooks whose rules and selectors match the object; ignores match conditions."""
        return [hook for hook in self.hooks(ours=ours) if self.covers(hook) and not self.unmet(hook)]

    def covers(self, hook: Object) -> bool:
        """Returns whether a webhook's rules match the creation of such objects, in any version."""
        group, plural = self.resource
        wanted = {"apiGroups": {group, "*"}, "resources": {plural, "*", "*/*"}, "operations": {"CREATE", "*"}}
        rules = maps(hook, "rules")
        return any(all(any_of & {*(rule.get(key) or ())} for key, any_of in wanted.items()) for rule in rules)

    def unmet(self, hook: Object) -> str:
        """Returns which selector of a webhook excludes the object; empty if none does, as far as known."""
        where = f"namespace {self.namespace}"
        both = (("namespaceSelector", where, self.space), ("objectSelector", "it", self.received))
        for selector, who, labelled in both:
            if labelled and (why := unmet(mapped(hook, selector), labels(labelled))):
                return messages.excluded(who, selector, why)
        return ""


def explain(dry: DryRun) -> list[Finding]:
    """Returns why the API server would store something else than the preview; empty if it would not."""
    there, table, denials = tables(dry), dry.answer["table"], dry.answer["denials"]
    if dry.stored is None:
        return _refused(dry)
    differences = tuple(unlike(dry))
    if there - {table}:
        what = messages.other_tables(", ".join(sorted(there)), table)
        return [Finding("webhook", NAME, what, differences, messages.WAIT_FOR_TABLE)]
    if not there and (denials or differences):
        return list(_idle(dry, messages.though(refuse=bool(denials))))
    names = ", ".join(text(hook, "name") for hook in dry.matching(ours=False))
    cause = messages.OTHER_WRITER
    return [Finding("webhook", names or "unknown", cause, differences)] if differences else []


def _refused(dry: DryRun) -> list[Finding]:
    denials = dry.answer["denials"]
    if denials and dry.refusal.endswith("; ".join(denials)):
        return []
    ours = any(f'webhook "{text(hook, "name")}" denied' in dry.refusal for hook in dry.hooks(ours=True))
    taken = dry.refusal.endswith("already exists")
    remedy = messages.ANOTHER_NAME if taken else ""
    return [Finding("program", "kube-apiserver", messages.refused(dry.refusal, ours=ours), (), remedy)]


def _idle(dry: DryRun, would: str) -> Iterator[Finding]:
    """Yields why the installation did nothing."""
    left, hooks = dry.matching(ours=True), dry.hooks(ours=True)
    sent = next(filter(dry.covers, hooks), None)
    if dry.registrations is None:
        why = messages.UNREADABLE_REGISTRATION
        yield Finding("webhook", NAME, messages.did_nothing(would, why))
    elif not hooks:
        yield Finding("webhook", NAME, messages.is_not_called(would, messages.NO_REGISTRATION))
    elif not sent:
        why = messages.no_rule(".".join(filter(None, reversed(dry.resource))))
        yield Finding("webhook", NAME, messages.is_not_called(would, why), (), messages.SET_KINDS)
    elif not left:
        yield Finding("webhook", text(sent, "name"), messages.is_not_called(would, dry.unmet(sent)))
    for hook in left:
        yield _silent(dry, hook, would)


def _silent(dry: DryRun, hook: Object, would: str) -> Finding:
    """Returns the possible reasons why a webhook that matches the object added nothing."""
    conditions = maps(hook, "matchConditions")
    reasons = [messages.BY_CONDITION] if conditions else []
    if text(hook, "failurePolicy") == "Ignore":
        reasons.append(messages.NO_ANSWER)
    reasons.append(messages.OTHER_TABLE)
    reasons += [messages.undone(text(each, "name")) for each in dry.matching(ours=False)]
    details = tuple(f"{text(one, 'name')}: {' '.join(text(one, 'expression').split())}" for one in conditions)
    why, remedy = messages.did_nothing(would, messages.any_of(reasons)), messages.ASK_CHECK
    return Finding("webhook", text(hook, "name"), why, details, remedy)


def tables(dry: DryRun) -> set[str]:
    """Returns the revisions of the tables in the records that the webhook wrote; none if it did nothing."""
    before, after = (
        {table for each in templates(obj) for key in RECORDS if (table := _table(each, key))}
        for obj in (dry.received, dry.stored)
    )
    return after if dry.answer["table"] in after else after - before


def _table(template: Object, key: str) -> str:
    try:
        return text(json.loads(labels(template, "annotations").get(key, "")), "table")
    except (ValueError, RecursionError):
        return ""


def unlike(dry: DryRun) -> Iterator[str]:
    """Yields each field that the table sets or removes, and that would be stored with another value."""
    changes, job = dry.answer["changes"], dry.answer["job"]
    label = next((label for one in templates(dry.stored) if (label := labels(one).get(JOB))), "")
    if label and job and not name_of(dry.received):  # its label comes from the uid of the review
        changes = json.loads(json.dumps(changes).replace(job["id"], label))
    for change in changes:
        path, before, wanted = numbered(parse_pointer(change["path"])), change["before"], change["after"]
        around, there = at(dry.stored, *path[:-1]), at(dry.stored, *path)
        if isinstance(around, list):  # its items may be in another order
            there = next((one for one in around if _covers(one, wanted or before)), None)
        if path[-1] not in RECORDS and not (there is None if wanted is None else _covers(there, wanted)):
            yield messages.differs(change["path"], _shown(there), _shown(wanted))


def _covers(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether a value contains another; the API server also adds its defaults."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        return all(_covers(value.get(key), part) for key, part in wanted.items() if key not in RECORDS)
    if isinstance(wanted, list) and isinstance(value, list):
        return all(any(_covers(item, part) for item in value) for part in wanted)
    equal = value == wanted or 0 < thousandths(str(value)) == thousandths(str(wanted))
    return equal or wanted in (None, {}, [])


def _shown(value: Any) -> str:  # noqa: ANN401 - JSON
    return (
        messages.NOTHING
        if value is None
        else printable(json.dumps(value, sort_keys=True, ensure_ascii=False), 80)
    )

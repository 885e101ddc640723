"""Why the API server does otherwise with an object than the installation's preview says; pure.

Rules and selectors are read here as the API server reads them. Its match conditions (CEL) are not, nor is it
known here whether the webhook answered: then all possible reasons are named.
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
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import NAME, at, labels, mapped, maps, name_of, templates, text, unmet

RECORDS: Final = (ADDED, ADDED_TO_POD)
"""Annotations that say by which table the webhook added something."""


@dataclass(frozen=True)
class Asked:
    """An object that was created as a dry run.

    Attributes:
        answer: What the preview service says of it.
        resource: Group and plural name of its kind; empty where that is not served.
        stored: As it would be stored; None where it is refused.
        refusal: Why it is.
        registrations: All MutatingWebhookConfigurations; None where they may not be read.
        space: Its Namespace; empty where that may not be read.
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
        """Where it is created."""
        return text(self.answer, "object", "namespace")

    def hooks(self, *, ours: bool) -> list[Object]:
        """The webhooks of the installation, or all others."""
        found = (one for one in self.registrations or () if (NAME in name_of(one)) is ours)
        return [hook for one in found for hook in maps(one, "webhooks")]

    def matching(self, *, ours: bool) -> list[Object]:
        """Those that the object is for, conditions aside."""
        return [hook for hook in self.hooks(ours=ours) if self.covers(hook) and not self.unmet(hook)]

    def covers(self, hook: Object) -> bool:
        """Whether a webhook's rules are for the creation of such objects, in any version."""
        group, plural = self.resource
        wanted = {"apiGroups": {group, "*"}, "resources": {plural, "*", "*/*"}, "operations": {"CREATE", "*"}}
        rules = maps(hook, "rules")
        return any(all(said & {*(rule.get(key) or ())} for key, said in wanted.items()) for rule in rules)

    def unmet(self, hook: Object) -> str:
        """What of a webhook's selectors keeps the object out; empty where nothing does, or nobody may say."""
        where = f"namespace {self.namespace}"
        both = (("namespaceSelector", where, self.space), ("objectSelector", "it", self.received))
        for selector, who, labelled in both:
            if labelled and (why := unmet(mapped(hook, selector), labels(labelled))):
                return f"{who} is excluded by its {selector}: label {why}"
        return ""


def explain(asked: Asked) -> list[Finding]:
    """Why the API server does otherwise than the service says; empty where it does not."""
    there, table, denials = tables(asked), asked.answer["table"], asked.answer["denials"]
    if asked.stored is None:
        return _refused(asked)
    found = tuple(unlike(asked))
    if there - {table}:
        what = f"its replicas answer by table {', '.join(sorted(there))}; the preview service by {table}"
        remedy = "wait a minute if the table was just changed; else kubectl ultraserver check"
        return [Finding("webhook", NAME, what, found, remedy)]
    if not there and (denials or found):
        return list(_idle(asked, f"though the rule table would {'refuse' if denials else 'change'} it"))
    names = ", ".join(text(hook, "name") for hook in asked.matching(ours=False))
    said = "changed what this one sets; or a policy did"
    return [Finding("webhook", names or "unknown", said, found)] if found else []


def _refused(asked: Asked) -> list[Finding]:
    denials = asked.answer["denials"]
    if denials and asked.refusal.endswith("; ".join(denials)):
        return []
    ours = any(f'webhook "{text(hook, "name")}" denied' in asked.refusal for hook in asked.hooks(ours=True))
    other = ", by another table: that of the preview service would not" if ours else ""
    taken = asked.refusal.endswith("already exists")
    remedy = "kubectl ultraserver why, for the one that is there; or another name" if taken else ""
    return [Finding("program", "kube-apiserver", f"refuses it{other}: {asked.refusal}", (), remedy)]


def _idle(asked: Asked, would: str) -> Iterator[Finding]:
    """Why the installation did nothing."""
    left, hooks = asked.matching(ours=True), asked.hooks(ours=True)
    sent = next(filter(asked.covers, hooks), None)
    if asked.registrations is None:
        why = "what is sent to it may not be read (mutatingwebhookconfigurations)"
        yield Finding("webhook", NAME, f"did nothing, {would}: {why}")
    elif not hooks:
        why = f"no MutatingWebhookConfiguration is called {NAME}"
        yield Finding("webhook", NAME, f"is not called, {would}: {why}")
    elif not sent:
        why = f"no rule of its registration is for {'.'.join(filter(None, reversed(asked.resource)))}"
        remedy = "set the value kinds, see docs/kinds.md"
        yield Finding("webhook", NAME, f"is not called, {would}: {why}", (), remedy)
    elif not left:
        yield Finding("webhook", text(sent, "name"), f"is not called, {would}: {asked.unmet(sent)}")
    for hook in left:
        yield _silent(asked, hook, would)


def _silent(asked: Asked, hook: Object, would: str) -> Finding:
    """What a webhook that the object is for may have done."""
    conditions = maps(hook, "matchConditions")
    reasons = ["a match condition excludes it"] if conditions else []
    if text(hook, "failurePolicy") == "Ignore":
        reasons.append("it did not answer, and its failurePolicy is Ignore, so that objects pass")
    reasons.append("its replicas have another table")
    reasons += [f"{text(each, 'name')} hid what it did" for each in asked.matching(ours=False)]
    said = tuple(f"{text(one, 'name')}: {' '.join(text(one, 'expression').split())}" for one in conditions)
    why = f"did nothing, {would}: {'; or '.join(reasons)}"
    remedy = "kubectl ultraserver check: do its replicas answer, and by which table?"
    return Finding("webhook", text(hook, "name"), why, said, remedy)


def tables(asked: Asked) -> set[str]:
    """The revisions of the tables by which the webhook answered, by its records; none if it did nothing."""
    before, found = (
        {table for each in templates(obj) for key in RECORDS if (table := _table(each, key))}
        for obj in (asked.received, asked.stored)
    )
    return found if asked.answer["table"] in found else found - before


def _table(template: Object, key: str) -> str:
    try:
        return text(json.loads(labels(template, "annotations").get(key, "")), "table")
    except (ValueError, RecursionError):
        return ""


def unlike(asked: Asked) -> Iterator[str]:
    """Yields each field that the table sets, or takes away, and that would be stored otherwise."""
    changes, job = asked.answer["changes"], asked.answer["job"]
    given = next((label for one in templates(asked.stored) if (label := labels(one).get(JOB))), "")
    if given and job and not name_of(asked.received):  # told from others by the review's uid
        changes = json.loads(json.dumps(changes).replace(job["id"], given))
    for change in changes:
        path, before, wanted = numbered(parse_pointer(change["path"])), change["before"], change["after"]
        around, there = at(asked.stored, *path[:-1]), at(asked.stored, *path)
        if isinstance(around, list):  # of which the items may have other places
            there = next((one for one in around if _covers(one, wanted or before)), None)
        if path[-1] not in RECORDS and not (there is None if wanted is None else _covers(there, wanted)):
            yield f"{change['path']}: {_said(there)}, not {_said(wanted)}"


def _covers(found: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value has all that another has; the API server adds its defaults beside that."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(_covers(found.get(key), value) for key, value in wanted.items() if key not in RECORDS)
    if isinstance(wanted, list) and isinstance(found, list):
        return all(any(_covers(there, item) for there in found) for item in wanted)
    equal = found == wanted or 0 < thousandths(str(found)) == thousandths(str(wanted))
    return equal or wanted in (None, {}, [])


def _said(value: Any) -> str:  # noqa: ANN401 - JSON
    return (
        "nothing" if value is None else printable(json.dumps(value, sort_keys=True, ensure_ascii=False), 80)
    )

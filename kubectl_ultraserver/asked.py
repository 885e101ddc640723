"""What the API server made of an object beside what the rule table says: each difference explained; pure.

Rules and selectors are read here as the API server reads them. Its match conditions (CEL) are not, nor is it
known here whether the webhook answered: then all possible reasons are named.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.quantities import thousandths
from contract.keys import JOB
from kube.api import Object
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import NAME, labels, maps, name_of, templates, text, unmet
from webhook.engine.changes import changes
from webhook.objects.tree import map_at, same, shown
from webhook.preview.run import Preview
from webhook.undo import record

_NUMBER: Final = re.compile(r"/\d+(?=/|$)")


@dataclass(frozen=True)
class Asked:
    """An object that was created as a dry run.

    Attributes:
        shown: The object, and what becomes of it by the table.
        table: What the table is called, and why it is not the installation's.
        resource: Group and plural name of its kind; empty where that is not served.
        stored: As it would be stored; None where it is refused.
        refusal: Why it is.
        registrations: All MutatingWebhookConfigurations; None where they may not be read.
        namespace: Its Namespace; empty where that may not be read.
    """

    shown: Preview
    table: tuple[str, str]
    resource: tuple[str, str] = ("", "")
    stored: Object | None = None
    refusal: str = ""
    registrations: Sequence[Object] | None = None
    namespace: Object = field(default_factory=dict)

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
        where = f"namespace {self.shown.namespace}"
        both = (("namespaceSelector", where, self.namespace), ("objectSelector", "it", self.shown.object))
        for selector, who, labelled in both:
            if labelled and (why := unmet(map_at(hook, (selector,)), labels(labelled))):
                return f"{who} is excluded by its {selector}: label {why}"
        return ""


def explain(asked: Asked) -> list[Finding]:
    """Why the API server does otherwise than the table says; empty where it does as that says."""
    ours, there, (whose, note) = asked.shown.outcome, _tables(asked), asked.table
    if asked.stored is None:
        return _refused(asked)
    found = tuple(unlike(asked))
    if there - {ours.revision}:
        what = f"its replicas answer by table {', '.join(sorted(there))}; {whose} here is {ours.revision}"
        remedy = "wait a minute if the table was just changed; else kubectl ultraserver check"
        return [Finding("webhook", NAME, what + note, found, remedy)]
    if not there and (ours.denials or found):
        would = f"though {whose} would {'refuse' if ours.denials else 'change'} it{note}"
        return list(_idle(asked, would))
    names = ", ".join(text(hook, "name") for hook in asked.matching(ours=False))
    said = "changed what this one sets; or a policy did"
    return [Finding("webhook", names or "unknown", said, found)] if found else []


def _refused(asked: Asked) -> list[Finding]:
    denials, (whose, note) = asked.shown.outcome.denials, asked.table
    if denials and asked.refusal.endswith("; ".join(denials)):
        return []
    ours = any(f'webhook "{text(hook, "name")}" denied' in asked.refusal for hook in asked.hooks(ours=True))
    said = f"refuses it{f', by another table: {whose} here would not{note}' if ours else ''}: {asked.refusal}"
    taken = asked.refusal.endswith("already exists")
    remedy = "kubectl ultraserver why, for the one that is there; or another name" if taken else ""
    return [Finding("program", "kube-apiserver", said, (), remedy)]


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


def _tables(asked: Asked) -> set[str]:
    """The revisions of the tables by which the webhook answered, by its records; none if it did nothing."""
    before, found = (
        {one.table for each in templates(obj) for key in record.KEYS if (one := record.read(each, key))}
        for obj in (asked.shown.object, asked.stored)
    )
    return found if asked.shown.outcome.revision in found else found - before


def unlike(asked: Asked) -> list[str]:
    """Each field that the table sets, or takes away, and that would be stored otherwise."""
    outcome, after, found = asked.shown.outcome, asked.shown.outcome.after, []
    given = next((label for one in templates(asked.stored) if (label := labels(one).get(JOB))), "")
    if given and "job" in outcome.facts and not name_of(after):  # told from others by the review's uid
        after = json.loads(json.dumps(after).replace(outcome.facts["job"], given))
    ours = {_NUMBER.sub("/*", change.path): change.after is None for change in asked.shown.changes}
    for path, wanted, there, _ in changes(after, asked.stored, {}):
        place = _NUMBER.sub("/*", path)
        mine = any(place.startswith(one) or one.startswith(place) for one in ours)
        kept = wanted is None and ours.get(place)
        if (kept or not _covers(there, wanted)) and mine and not record.is_at(place):
            found.append(f"{path}: {_said(there)}, not {_said(wanted)}")
    return found


def _covers(found: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value has all that another has; the API server adds its defaults beside that."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(_covers(found.get(key), value) for key, value in wanted.items() if key not in record.KEYS)
    if isinstance(wanted, list) and isinstance(found, list):
        return all(any(_covers(there, item) for there in found) for item in wanted)
    equal = same(found, wanted) or 0 < thousandths(str(found)) == thousandths(str(wanted))
    return equal or wanted in (None, {}, [])


def _said(value: Any) -> str:  # noqa: ANN401 - JSON
    return "nothing" if value is None else shown(value, 80)

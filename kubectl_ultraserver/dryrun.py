"""Explains why the API server would store an object that differs from the installation's preview. Pure.

This module evaluates rules and selectors of webhooks as the API server does. It does not evaluate match
conditions (CEL), and cannot tell whether the webhook answered. So a finding names all possible reasons.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.pointers import parse_pointer, with_positions
from common.quantities import thousandths
from common.texts import printable
from contract.keys import ADDED, ADDED_TO_POD, JOB
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import NAME, at, labels, map_at, maps_at, name_of, templates, text_at, unmet

RECORDS: Final = (ADDED, ADDED_TO_POD)
"""The annotations with the record, which has the revision of the rule table that the webhook used."""


@dataclass(frozen=True)
class DryRun:
    """An object that was created as a dry run."""

    answer: Object  # the preview service's answer
    # Group and plural name of the object's kind; empty if the API server does not serve the kind.
    resource: tuple[str, str] = ("", "")
    stored: Object | None = None  # the object as it would be stored; None if it is refused or not served
    refusal: str = ""  # why the object is refused or not served; empty if it would be stored
    # All MutatingWebhookConfigurations; None if the user may not read them.
    registrations: Sequence[Object] | None = None
    # The object's Namespace; empty if it does not exist or the user may not read it.
    namespace_object: Object = field(default_factory=dict)

    @property
    def received(self) -> Object:
        """The object as its author wrote it."""
        return map_at(self.answer, "received")

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return text_at(self.answer, "object", "namespace")

    def hooks(self, *, ours: bool) -> list[Object]:
        """Returns the webhooks of the installation (``ours``), or all other webhooks."""
        configs = (config for config in self.registrations or () if (NAME in name_of(config)) is ours)
        return [hook for config in configs for hook in maps_at(config, "webhooks")]

    def matching_hooks(self, *, ours: bool) -> list[Object]:
        """Returns the webhooks whose rules and selectors match the object; ignores match conditions."""
        return [hook for hook in self.hooks(ours=ours) if self.covers(hook) and not self.exclusion(hook)]

    def covers(self, hook: Object) -> bool:
        """Returns whether a webhook's rules match the creation of this object. API versions are ignored."""
        group, plural = self.resource
        values = {"apiGroups": {group, "*"}, "resources": {plural, "*", "*/*"}, "operations": {"CREATE", "*"}}
        rules, items = maps_at(hook, "rules"), values.items()
        return any(all(accepted & {*(rule.get(key) or ())} for key, accepted in items) for rule in rules)

    def exclusion(self, hook: Object) -> str:
        """Returns a text with the selector of a webhook that excludes the object; empty if none is known."""
        namespace_row = "namespaceSelector", f"namespace {self.namespace}", self.namespace_object
        for selector, subject, obj in (namespace_row, ("objectSelector", "it", self.received)):
            if obj and (why := unmet(map_at(hook, selector), labels(obj))):
                return messages.excluded(subject, selector, why)
        return ""


def explain(run: DryRun) -> list[Finding]:
    """Returns why the API server's answer differs from the preview; empty if both are the same."""
    stored_tables, table, denials = table_revisions(run), run.answer["table"], run.answer["denials"]
    if run.stored is None:
        return _explain_refusal(run)
    differences = tuple(stored_differences(run))
    if stored_tables - {table}:
        problem = messages.tables_differ(", ".join(sorted(stored_tables)), table)
        return [Finding("other-table", "webhook", NAME, problem, differences, messages.WAIT_FOR_TABLE)]
    if not stored_tables and (denials or differences):
        return list(_explain_no_change(run, messages.contrary_to_table("refuse" if denials else "change")))
    names = ", ".join(text_at(hook, "name") for hook in run.matching_hooks(ours=False)) or "unknown"
    other_writer = Finding("other-writer", "webhook", names, messages.OTHER_WRITER, differences)
    return [other_writer] if differences else []


def _explain_refusal(run: DryRun) -> list[Finding]:
    denials = run.answer["denials"]
    if denials and run.refusal.endswith("; ".join(denials)):
        return []
    is_ours = any(f'webhook "{text_at(hook, "name")}" denied' in run.refusal for hook in run.hooks(ours=True))
    remedy = messages.ANOTHER_NAME if run.refusal.endswith("already exists") else ""
    problem = messages.refused(run.refusal, ours=is_ours)
    return [Finding("refused", "program", "kube-apiserver", problem, (), remedy)]


def _explain_no_change(run: DryRun, clause: str) -> Iterator[Finding]:
    """Yields findings about why the installation did not change, or did not refuse, the object."""
    matching_hooks, hooks = run.matching_hooks(ours=True), run.hooks(ours=True)
    covering = next(filter(run.covers, hooks), None)
    if run.registrations is None:
        why = messages.did_nothing(clause, messages.UNREADABLE_REGISTRATION)
        yield Finding("did-nothing", "webhook", NAME, why)
    elif not hooks:
        why = messages.is_not_called(clause, messages.NO_REGISTRATION)
        yield Finding("not-registered", "webhook", NAME, why)
    elif not covering:
        why = messages.is_not_called(clause, messages.no_rule(".".join(filter(None, reversed(run.resource)))))
        yield Finding("kind-not-sent", "webhook", NAME, why, (), messages.SET_KINDS)
    elif not matching_hooks:
        why = messages.is_not_called(clause, run.exclusion(covering))
        yield Finding("excluded", "webhook", text_at(covering, "name"), why)
    for hook in matching_hooks:
        yield _explain_hook(run, hook, clause)


def _explain_hook(run: DryRun, hook: Object, clause: str) -> Finding:
    """Returns the possible reasons why a webhook that matches the object did nothing."""
    conditions = maps_at(hook, "matchConditions")
    reasons = [messages.BY_CONDITION] if conditions else []
    if text_at(hook, "failurePolicy") == "Ignore":
        reasons.append(messages.NO_ANSWER)
    reasons.append(messages.REPLICAS_HAVE_OTHER_TABLE)
    reasons += [messages.undone(text_at(other, "name")) for other in run.matching_hooks(ours=False)]
    texts = ((text_at(item, "name"), text_at(item, "expression").split()) for item in conditions)
    details = tuple(f"{name}: {' '.join(words)}" for name, words in texts)
    why, remedy = messages.did_nothing(clause, "; or ".join(reasons)), messages.ASK_CHECK
    return Finding("did-nothing", "webhook", text_at(hook, "name"), why, details, remedy)


def table_revisions(run: DryRun) -> set[str]:
    """Returns the table revisions in the records that the webhook wrote in this dry run."""
    received_tables, stored_tables = (
        {table for pod in templates(obj) for key in RECORDS if (table := _revision(pod, key))}
        for obj in (run.received, run.stored)
    )
    # An exported object may already have the expected revision. Then the difference would lack this revision.
    return stored_tables if run.answer["table"] in stored_tables else stored_tables - received_tables


def _revision(template: Object, key: str) -> str:
    try:
        return text_at(json.loads(labels(template, "annotations").get(key, "")), "table")
    except (ValueError, RecursionError):
        return ""


def stored_differences(run: DryRun) -> Iterator[str]:
    """Yields a text for each field that the table changes, and that would be stored with another value."""
    changes, job = run.answer["changes"], run.answer["job"]
    label = next((label for item in templates(run.stored) if (label := labels(item).get(JOB))), "")
    if label and job and not name_of(run.received):  # without a name, each review has another job label
        changes = json.loads(json.dumps(changes).replace(job["id"], label))
    for change in changes:
        path, before = with_positions(parse_pointer(change["path"])), change["before"]
        expected = change["after"]
        parent, stored = at(run.stored, *path[:-1]), at(run.stored, *path)
        if isinstance(parent, list):  # the items of a list may be in another order
            stored = next((item for item in parent if _contains(item, expected or before)), None)
        is_expected = stored is None if expected is None else _contains(stored, expected)
        if path[-1] not in RECORDS and not is_expected:
            yield messages.unexpected_value(change["path"], _short_json(stored), _short_json(expected))


def _contains(value: Any, expected: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether a value contains the expected value; the API server may have added its defaults."""
    if isinstance(expected, dict) and isinstance(value, dict):
        return all(_contains(value.get(key), part) for key, part in expected.items() if key not in RECORDS)
    if isinstance(expected, list) and isinstance(value, list):
        return all(any(_contains(item, part) for item in value) for part in expected)
    is_equal = value == expected or 0 < thousandths(str(value)) == thousandths(str(expected))
    return is_equal or expected in (None, {}, [])


def _short_json(value: Any) -> str:  # noqa: ANN401 - JSON
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return messages.NOTHING if value is None else printable(text, 80)

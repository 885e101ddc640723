"""Why the webhook did nothing to an object; tests/plane/fleets/test_live_preview.py asks a real server."""

from __future__ import annotations

import json
from typing import Any

from contract import keys
from kubectl_ultraserver.asked import Asked, explain
from kubectl_ultraserver.seen import table_of
from testbed.mpijob import mpijob
from tests.kubectl_ultraserver.build import rules
from webhook.documents import read_documents
from webhook.engine import Request, evaluate
from webhook.preview.run import preview

WOULD = "though the rule table would change it"
HOOK = {
    "name": "mpijobs.ultraserver-webhook.io",
    "rules": [{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "operations": ["CREATE"]}],
    "failurePolicy": "Ignore",
    "matchConditions": [{"name": "blue", "expression": "object.metadata.name\n == 'blue'"}],
}
OTHER = HOOK | {"name": "other.example"}


def registered(name: str, hook: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "webhooks": [hook]}


def said(stored: dict[str, Any], *registrations: dict[str, Any], **labels: str) -> list[tuple[str, str, Any]]:
    """What is said of a job of four workers that would be stored so."""
    table, whose, note = table_of(rules())
    (shown,) = preview(table, read_documents(json.dumps(mpijob(4)).encode(), "file"), "team")
    sent = {"resource": ("kubeflow.org", "mpijobs"), "namespace": {"metadata": {"labels": labels}}}
    found = explain(Asked(shown, (whose, note), stored=stored, registrations=registrations, **sent))
    return [(each.name, each.text, each.details) for each in found]


def test_a_job_that_is_stored_as_the_table_says_needs_no_explanation() -> None:
    after = evaluate(table_of(rules())[0], Request(mpijob(4), "team")).after
    assert said(after, registered("ultraserver-webhook", HOOK)) == []


def test_where_nobody_can_tell_which_all_possible_reasons_are_named() -> None:
    own, other = registered("ultraserver-webhook", HOOK), registered("zz", OTHER)
    ((name, text, details),) = said(mpijob(4), own, other)
    assert (name, details) == ("mpijobs.ultraserver-webhook.io", ("blue: object.metadata.name == 'blue'",))
    assert text == (
        f"did nothing, {WOULD}: a match condition excludes it; or it did not answer, and its failurePolicy "
        "is Ignore, so that objects pass; or its replicas have another table; "
        "or other.example hid what it did"
    )
    closed = HOOK | {"failurePolicy": "Fail", "matchConditions": []}
    ((_, text, details),) = said(mpijob(4), registered("ultraserver-webhook", closed))
    assert (text, details) == (f"did nothing, {WOULD}: its replicas have another table", ())


def test_what_keeps_the_webhook_from_being_called_is_the_only_reason() -> None:
    assert said(mpijob(4)) == [
        (
            "ultraserver-webhook",
            f"is not called, {WOULD}: no MutatingWebhookConfiguration is called ultraserver-webhook",
            (),
        )
    ]
    off = {"matchExpressions": [{"key": keys.INJECT, "operator": "NotIn", "values": ["false"]}]}
    selects = registered("ultraserver-webhook", HOOK | {"namespaceSelector": off})
    ((_, text, _),) = said(mpijob(4), selects, **{keys.INJECT: "false"})
    assert text == (
        f"is not called, {WOULD}: namespace team is excluded by its namespaceSelector: "
        f"label {keys.INJECT} is false, not NotIn false"
    )

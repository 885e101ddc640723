"""Tests of the reasons why the webhook did not change an object in a dry run.

tests/plane/fleets/test_live_preview.py uses a real API server.
"""

from typing import Any

import pytest

from contract import keys
from kubectl_ultraserver import messages
from kubectl_ultraserver.dryrun import DryRun, explain, stored_differences
from kubectl_ultraserver.findings import Finding
from testbed.mpijob import mpijob
from tests.kubectl_ultraserver.api import table_of
from tests.kubectl_ultraserver.build import preview_answer, rules
from webhook.engine import Request, evaluate

HOOK = {
    "name": "mpijobs.ultraserver-webhook.io",
    "rules": [{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "operations": ["CREATE"]}],
    "failurePolicy": "Ignore",
    "matchConditions": [{"name": "blue", "expression": "object.metadata.name\n == 'blue'"}],
}
OTHER_HOOK = HOOK | {"name": "other.example"}


def registration(name: str, hook: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "webhooks": [hook]}


def findings_of(stored: dict[str, Any], *registrations: dict[str, Any], **labels: str) -> list[Finding]:
    """Returns the findings about a job of four workers that the API server would store as ``stored``."""
    request = {"resource": ("kubeflow.org", "mpijobs"), "namespace_object": {"metadata": {"labels": labels}}}
    return explain(
        DryRun(preview_answer(mpijob(4), rules()), stored=stored, registrations=registrations, **request)
    )


def test_a_job_that_is_changed_as_the_table_requires_has_no_findings() -> None:
    after = evaluate(table_of(rules()), Request(mpijob(4), "team")).after
    assert findings_of(after, registration("ultraserver-webhook", HOOK)) == []


def test_all_possible_reasons_are_named_if_none_is_certain() -> None:
    own, other = registration("ultraserver-webhook", HOOK), registration("zz", OTHER_HOOK)
    (finding,) = findings_of(mpijob(4), own, other)
    assert (finding.code, finding.name) == ("did-nothing", "mpijobs.ultraserver-webhook.io")
    assert finding.details == ("blue: object.metadata.name == 'blue'",)
    reasons = (
        messages.BY_CONDITION,
        messages.NO_ANSWER,
        messages.REPLICAS_HAVE_OTHER_TABLE,
        messages.undone("other.example"),
    )
    assert finding.text.endswith(f": {'; or '.join(reasons)}")
    closed = HOOK | {"failurePolicy": "Fail", "matchConditions": []}
    (finding,) = findings_of(mpijob(4), registration("ultraserver-webhook", closed))
    assert (finding.code, finding.details) == ("did-nothing", ())
    assert finding.text.endswith(f": {messages.REPLICAS_HAVE_OTHER_TABLE}")


def test_a_registration_that_does_not_send_the_job_is_the_only_reason() -> None:
    (finding,) = findings_of(mpijob(4))
    assert (finding.code, finding.name, finding.details) == ("not-registered", "ultraserver-webhook", ())
    off = {"matchExpressions": [{"key": keys.INJECT, "operator": "NotIn", "values": ["false"]}]}
    selects = registration("ultraserver-webhook", HOOK | {"namespaceSelector": off})
    (finding,) = findings_of(mpijob(4), selects, **{keys.INJECT: "false"})
    assert finding.code == "excluded"
    assert finding.text.endswith(f" namespaceSelector: label {keys.INJECT} is false, not NotIn false")


@pytest.mark.parametrize(
    ("change", "stored", "texts"),
    [
        (("/spec/env/0", None, {"name": "a"}), {"env": [{"name": "b"}, {"name": "a", "value": ""}]}, []),
        (("/spec/env/0", None, {"name": "a"}), {"env": [{"name": "b"}]}, ['nothing, not {"name": "a"}']),
        (("/spec/cpu", None, 1), {"cpu": "1000m"}, []),
        (("/spec/cpu", 2, 1), {"cpu": 2}, ["2, not 1"]),
        (("/spec/gates/1", {"name": "a"}, None), {"gates": [{"name": "b"}]}, []),
        (("/spec/gates/1", {"name": "a"}, None), {"gates": [{"name": "a"}]}, ['{"name": "a"}, not nothing']),
        (("/spec/label", "a", None), {"label": "a"}, ['"a", not nothing']),
        (("/spec/label", "a", None), {}, []),
        (("/metadata/annotations/ultraserver-webhook.io~1added", None, "{}"), {}, []),
    ],
)
def test_a_field_that_is_stored_with_another_value_is_named(
    change: tuple[str, Any, Any], stored: dict[str, Any], texts: list[str]
) -> None:
    """Protects users from false differences: defaults, equal quantities, and items with another index."""
    path, before, after = change
    answer = {
        "received": {},
        "job": None,
        "changes": [{"path": path, "before": before, "after": after, "rule": None}],
    }
    assert list(stored_differences(DryRun(answer, stored={"spec": stored}))) == [
        f"{path}: {text}" for text in texts
    ]

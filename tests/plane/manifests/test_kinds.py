"""The value ``kinds``: which kinds the API server sends for it, and that the packaged table has them."""

from collections.abc import Callable

import pytest

from contract import keys
from tests.plane.manifests.conftest import Build, Object
from tests.plane.manifests.objects import webhooks
from webhook.rules.load import load_default

UPDATES = {f"kinds-{part}.ultraserver-webhook.io" for part in ("updates", "suspended")}


@pytest.fixture
def overlay(built: Callable[..., Build]) -> Build:
    return built(kinds=["all"])


def added(overlay: Build, base: Build) -> dict[str, Object]:
    return {name: hook for name, hook in webhooks(overlay).items() if name not in webhooks(base)}


def resources(hooks: dict[str, Object]) -> set[tuple[str, str]]:
    """Returns group and version, and the resource, of all kinds that are sent."""
    return {
        (f"{group}/{version}".lstrip("/"), resource)
        for hook in hooks.values()
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }


def test_the_base_is_as_before_and_comes_first(overlay: Build, base: Build) -> None:
    names = list(webhooks(base))
    assert {name: webhooks(overlay)[name] for name in names} == webhooks(base)
    assert resources({"mutate": webhooks(base)[names[0]]}) == {("kubeflow.org/v2beta1", "mpijobs")}


def test_every_kind_of_the_packaged_table_is_registered_by_default_or_value(overlay: Build) -> None:
    hooks = {name: hook for name, hook in webhooks(overlay).items() if "rule-table" not in name}
    kinds = {kind for workload in load_default().workloads for kind in workload.kinds}
    known = {(kind.rpartition("/")[0], f"{kind.rpartition('/')[2].lower()}s") for kind in kinds}
    assert resources(hooks) == known


def test_what_is_added_names_everything_leaves_out_what_the_base_does_and_fails_open(
    overlay: Build, base: Build
) -> None:
    usual = webhooks(base)["mpijobs.ultraserver-webhook.io"]
    for hook in added(overlay, base).values():
        for key in ("namespaceSelector", "failurePolicy", "timeoutSeconds", "sideEffects", "clientConfig"):
            assert hook[key] == usual[key]
        assert {rule["scope"] for rule in hook["rules"]} == {"Namespaced"}
        operation = "UPDATE" if hook["name"] in UPDATES else "CREATE"
        assert [rule["operations"] for rule in hook["rules"]] == [[operation]] * len(hook["rules"])
        assert "*" not in str(hook["rules"])


def test_of_pods_only_those_of_jobs_with_blocks_are_sent_and_not_what_the_base_sends(
    overlay: Build, base: Build
) -> None:
    hook = added(overlay, base)["kinds-pods.ultraserver-webhook.io"]
    label, operator = hook["objectSelector"]["matchExpressions"]
    assert label == {"key": keys.JOB, "operator": "Exists"}
    sent = webhooks(base)["pods.ultraserver-webhook.io"]["objectSelector"]["matchLabels"]
    assert operator["operator"] == "NotIn"
    assert {operator["key"]: operator["values"]} == {key: [value] for key, value in sent.items()}
    conditions = [row["name"] for row in hook["matchConditions"]]
    assert conditions == ["not-a-mirror-pod", "of-a-job-with-blocks"]


def test_updates_are_sent_for_the_kinds_whose_rows_have_states(overlay: Build, base: Build) -> None:
    rows = load_default().workloads
    hooks = webhooks(overlay)
    for name, wanted in (("kinds-updates", True), ("kinds-suspended", False)):
        sent = resources({name: hooks[f"{name}.ultraserver-webhook.io"]})
        kinds = {
            kind for row in rows if row.updates and (row.updates == "always") is wanted for kind in row.kinds
        }
        known = {(kind.rpartition("/")[0], f"{kind.rpartition('/')[2].lower()}s") for kind in kinds}
        assert sent == known - resources({"base": webhooks(base)["updates.ultraserver-webhook.io"]})


def test_of_jobs_only_those_are_sent_that_may_need_ultraservers(overlay: Build, base: Build) -> None:
    hook = added(overlay, base)["kinds-jobs.ultraserver-webhook.io"]
    conditions = {row["name"]: row["expression"] for row in hook["matchConditions"]}
    assert list(conditions) == ["not-made-by-another-job", "may-need-ultraservers"]
    candidates = load_default().candidates
    assert all(name.startswith("aws.amazon.com/neuron") for name in load_default().resources)
    assert f"'{candidates.instance_type_label}' in" in conditions["may-need-ultraservers"]
    assert "each.?resourceClaimTemplateName.hasValue()" in conditions["may-need-ultraservers"]

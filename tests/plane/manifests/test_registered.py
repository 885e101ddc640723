"""Tests of the webhooks that the values ``kinds``, ``optIn`` and ``pods`` register, alone and together."""

from collections.abc import Callable

import pytest

from contract import keys
from tests.plane.manifests.conftest import Object, Rendered
from tests.plane.manifests.objects import selects, webhooks
from webhook.rules.load import load_default

UPDATES = {f"kinds-{part}.ultraserver-webhook.io" for part in ("updates", "suspended")}


@pytest.fixture
def with_all_kinds(render: Callable[..., Rendered]) -> Rendered:
    return render(kinds=["all"])


def added_webhooks(with_all_kinds: Rendered, defaults: Rendered) -> dict[str, Object]:
    return {name: hook for name, hook in webhooks(with_all_kinds).items() if name not in webhooks(defaults)}


def resources(hooks: dict[str, Object]) -> set[tuple[str, str]]:
    """Returns the resources in the webhooks' rules: group and version, and name."""
    return {
        (f"{group}/{version}".lstrip("/"), resource)
        for hook in hooks.values()
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }


def test_the_value_kinds_does_not_change_the_default_webhooks(
    with_all_kinds: Rendered, defaults: Rendered
) -> None:
    names = list(webhooks(defaults))
    assert {name: webhooks(with_all_kinds)[name] for name in names} == webhooks(defaults)
    assert resources({"mutate": webhooks(defaults)[names[0]]}) == {("kubeflow.org/v2beta1", "mpijobs")}


def test_the_default_or_the_value_kinds_registers_every_kind_of_the_packaged_table(
    with_all_kinds: Rendered,
) -> None:
    hooks = {name: hook for name, hook in webhooks(with_all_kinds).items() if "rule-table" not in name}
    kinds = {kind for workload in load_default().workloads for kind in workload.kinds}
    expected = {(kind.rpartition("/")[0], f"{kind.rpartition('/')[2].lower()}s") for kind in kinds}
    assert resources(hooks) == expected


def test_added_webhooks_have_no_wildcards_and_the_selector_and_policy_of_the_default(
    with_all_kinds: Rendered, defaults: Rendered
) -> None:
    default_webhook = webhooks(defaults)["mpijobs.ultraserver-webhook.io"]
    for hook in added_webhooks(with_all_kinds, defaults).values():
        for key in ("namespaceSelector", "failurePolicy", "timeoutSeconds", "sideEffects", "clientConfig"):
            assert hook[key] == default_webhook[key]
        assert {rule["scope"] for rule in hook["rules"]} == {"Namespaced"}
        operation = "UPDATE" if hook["name"] in UPDATES else "CREATE"
        assert [rule["operations"] for rule in hook["rules"]] == [[operation]] * len(hook["rules"])
        assert "*" not in str(hook["rules"])


def test_only_pods_of_jobs_with_blocks_are_sent_and_no_pod_is_sent_to_two_webhooks(
    with_all_kinds: Rendered, defaults: Rendered
) -> None:
    hook = added_webhooks(with_all_kinds, defaults)["kinds-pods.ultraserver-webhook.io"]
    label, operator = hook["objectSelector"]["matchExpressions"]
    assert label == {"key": keys.JOB, "operator": "Exists"}
    default_labels = webhooks(defaults)["pods.ultraserver-webhook.io"]["objectSelector"]["matchLabels"]
    assert operator["operator"] == "NotIn"
    assert {operator["key"]: operator["values"]} == {key: [value] for key, value in default_labels.items()}
    conditions = [row["name"] for row in hook["matchConditions"]]
    assert conditions == ["not-a-mirror-pod", "of-a-job-with-blocks"]


def test_updates_are_sent_for_the_kinds_whose_rows_have_updates(
    with_all_kinds: Rendered, defaults: Rendered
) -> None:
    rows = load_default().workloads
    hooks = webhooks(with_all_kinds)
    for name, always in (("kinds-updates", True), ("kinds-suspended", False)):
        sent_resources = resources({name: hooks[f"{name}.ultraserver-webhook.io"]})
        kinds = {
            kind for row in rows if row.updates and (row.updates == "always") is always for kind in row.kinds
        }
        expected = {(kind.rpartition("/")[0], f"{kind.rpartition('/')[2].lower()}s") for kind in kinds}
        assert sent_resources == expected - resources(
            {"base": webhooks(defaults)["updates.ultraserver-webhook.io"]}
        )


def test_only_jobs_that_may_need_ultraservers_are_sent(with_all_kinds: Rendered, defaults: Rendered) -> None:
    hook = added_webhooks(with_all_kinds, defaults)["kinds-jobs.ultraserver-webhook.io"]
    conditions = {row["name"]: row["expression"] for row in hook["matchConditions"]}
    assert list(conditions) == ["not-made-by-another-job", "may-need-ultraservers"]
    candidates = load_default().candidates
    assert all(name.startswith("aws.amazon.com/neuron") for name in load_default().resources)
    assert f"'{candidates.instance_type_labels[0]}' in" in conditions["may-need-ultraservers"]
    assert "each.?resourceClaimTemplateName.hasValue()" in conditions["may-need-ultraservers"]


def selected_namespaces(hook: Object) -> set[str]:
    """Returns the values of the inject label with which a webhook selects a namespace; ``""`` if unset."""
    result = {"kubernetes.io/metadata.name": "team"}
    values = {
        "": result,
        **{value: {**result, keys.INJECT: value} for value in (*keys.OPT_IN_VALUES, *keys.OPT_OUT_VALUES)},
    }
    return {value for value, labels in values.items() if selects(hook["namespaceSelector"], labels)}


def test_with_opt_in_every_namespace_is_selected_by_at_most_one_webhook(
    render: Callable[..., Rendered],
) -> None:
    hooks = webhooks(render(optIn=True))
    for opted_in, elsewhere in (("mpijobs", "asked"), ("verify", "verify-asked")):
        first, second = (hooks[f"{name}.ultraserver-webhook.io"] for name in (opted_in, elsewhere))
        assert selected_namespaces(first) == set(keys.OPT_IN_VALUES)
        assert selected_namespaces(second) == {""}
        for key in ("rules", "failurePolicy", "clientConfig", "timeoutSeconds", "sideEffects", "matchPolicy"):
            assert first[key] == second[key]
        (condition,) = [row for row in second["matchConditions"] if row["name"] == "asks-or-was-added-to"]
        assert "in ['enabled', 'true']" in condition["expression"]
        assert set(keys.OPT_IN_VALUES) == {"enabled", "true"}
        # The default webhook receives opted-out jobs with the webhook's fields, and so does this webhook.
        (defaults,) = webhooks(render())["mpijobs.ultraserver-webhook.io"]["matchConditions"]
        of_default, of_opt_in = (" ".join(row["expression"].split()) for row in (defaults, condition))
        assert of_default.partition("||")[2] in of_opt_in


def test_opt_in_uses_the_failure_policy_and_opt_in_kinds_limits_the_other_kinds(
    render: Callable[..., Rendered],
) -> None:
    hooks = webhooks(render(failurePolicy="Fail", kinds=["all"], optIn=True, optInKinds=True))
    by_name = {name.partition(".")[0]: hook for name, hook in hooks.items()}
    for name in ("mpijobs", "asked", "verify", "verify-asked"):
        assert by_name[name]["failurePolicy"] == "Fail"
    assert by_name["verify-asked"]["clientConfig"]["service"]["path"] == "/require"
    for name in ("kinds", "kinds-jobs"):
        assert selected_namespaces(by_name[name]) == set(keys.OPT_IN_VALUES)
        assert by_name[name]["clientConfig"]["service"]["path"] == "/mutate"


NAME = "bare-pods.ultraserver-webhook.io"


def test_the_value_pods_adds_a_webhook_with_the_default_rules_and_selectors_that_fails_open(
    render: Callable[..., Rendered], defaults: Rendered
) -> None:
    hooks = webhooks(render(pods=True))
    hook = hooks.pop(NAME)
    assert hooks == webhooks(defaults)
    default_webhook = webhooks(defaults)["pods.ultraserver-webhook.io"]
    for key in ("rules", "namespaceSelector", "clientConfig", "timeoutSeconds", "sideEffects", "matchPolicy"):
        assert hook[key] == default_webhook[key]
    assert hook["failurePolicy"] == "Ignore"


def test_the_webhook_for_bare_pods_does_not_depend_on_other_values(render: Callable[..., Rendered]) -> None:
    values = {"failurePolicy": "Fail", "missedJobs": True, "kinds": ["all"], "neuronScheduler": "mine"}
    assert webhooks(render(pods=True, **values))[NAME] == webhooks(render(pods=True))[NAME]

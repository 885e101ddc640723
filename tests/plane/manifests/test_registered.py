"""The values kinds, optIn and pods: what each has the API server send, alone and with others."""

from collections.abc import Callable

import pytest

from contract import keys
from tests.plane.manifests.conftest import Build, Object
from tests.plane.manifests.objects import selects, webhooks
from webhook.rules.load import load_default

UPDATES = {f"kinds-{part}.ultraserver-webhook.io" for part in ("updates", "suspended")}


@pytest.fixture
def overlay(built: Callable[..., Build]) -> Build:
    return built(kinds=["all"])


def added(overlay: Build, base: Build) -> dict[str, Object]:
    return {name: hook for name, hook in webhooks(overlay).items() if name not in webhooks(base)}


def resources(hooks: dict[str, Object]) -> set[tuple[str, str]]:
    """Returns group and version, and the resource, of everything that is asked about."""
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


def test_updates_are_asked_about_for_the_kinds_whose_rows_say_so(overlay: Build, base: Build) -> None:
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
    assert f"'{candidates.instance_type_labels[0]}' in" in conditions["may-need-ultraservers"]
    assert "each.?resourceClaimTemplateName.hasValue()" in conditions["may-need-ultraservers"]


def namespaces(hook: Object) -> set[str]:
    """Returns which of the namespaces with these labels a webhook is called for."""
    result = {"kubernetes.io/metadata.name": "team"}
    values = {
        "": result,
        **{value: {**result, keys.INJECT: value} for value in (*keys.OPT_IN_VALUES, *keys.OPT_OUT_VALUES)},
    }
    return {value for value, labels in values.items() if selects(hook["namespaceSelector"], labels)}


def test_every_namespace_belongs_to_at_most_one_webhook(built: Callable[..., Build]) -> None:
    hooks = webhooks(built(optIn=True))
    for asking, elsewhere in (("mpijobs", "asked"), ("verify", "verify-asked")):
        first, second = (hooks[f"{name}.ultraserver-webhook.io"] for name in (asking, elsewhere))
        assert namespaces(first) == set(keys.OPT_IN_VALUES)
        assert namespaces(second) == {""}
        for key in ("rules", "failurePolicy", "clientConfig", "timeoutSeconds", "sideEffects", "matchPolicy"):
            assert first[key] == second[key]
        (asks,) = [row for row in second["matchConditions"] if row["name"] == "asks-or-was-added-to"]
        assert "in ['enabled', 'true']" in asks["expression"]
        assert set(keys.OPT_IN_VALUES) == {"enabled", "true"}
        # What the base is asked about for its claims alone, this is, too.
        (base,) = webhooks(built())["mpijobs.ultraserver-webhook.io"]["matchConditions"]
        of_base, of_this = (" ".join(row["expression"].split()) for row in (base, asks))
        assert of_base.partition("||")[2] in of_this


def test_with_others_it_fails_as_they_do_and_narrows_the_other_kinds(built: Callable[..., Build]) -> None:
    hooks = webhooks(built(failurePolicy="Fail", kinds=["all"], optIn=True, optInKinds=True))
    by_name = {name.partition(".")[0]: hook for name, hook in hooks.items()}
    for name in ("mpijobs", "asked", "verify", "verify-asked"):
        assert by_name[name]["failurePolicy"] == "Fail"
    assert by_name["verify-asked"]["clientConfig"]["service"]["path"] == "/require"
    for name in ("kinds", "kinds-jobs"):
        assert namespaces(by_name[name]) == set(keys.OPT_IN_VALUES)
        assert by_name[name]["clientConfig"]["service"]["path"] == "/mutate"


NAME = "bare-pods.ultraserver-webhook.io"


def test_it_leaves_out_what_the_base_does_and_fails_open(built: Callable[..., Build], base: Build) -> None:
    hooks = webhooks(built(pods=True))
    hook = hooks.pop(NAME)
    assert hooks == webhooks(base)
    usual = webhooks(base)["pods.ultraserver-webhook.io"]
    for key in ("rules", "namespaceSelector", "clientConfig", "timeoutSeconds", "sideEffects", "matchPolicy"):
        assert hook[key] == usual[key]
    assert hook["failurePolicy"] == "Ignore"


def test_it_combines_with_every_value_that_changes_the_registration(built: Callable[..., Build]) -> None:
    values = {"failurePolicy": "Fail", "missedJobs": True, "kinds": ["all"], "neuronScheduler": "mine"}
    assert webhooks(built(pods=True, **values))[NAME] == webhooks(built(pods=True))[NAME]

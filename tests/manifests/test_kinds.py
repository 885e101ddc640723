"""The component ``kinds``: what it has the API server ask about, and that the packaged table knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.manifests.objects import webhooks
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.manifests.conftest import Build, Object


@pytest.fixture
def overlay(built: Callable[[str], Build]) -> Build:
    return built("overlays/kinds")


def added(overlay: Build, base: Build) -> dict[str, Object]:
    return {name: hook for name, hook in webhooks(overlay).items() if name not in webhooks(base)}


def resources(hooks: dict[str, Object]) -> set[tuple[str, str]]:
    """Group and version, and the resource, of everything that is asked about."""
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
    assert list(webhooks(overlay))[:2] == names[:2]
    assert {name: webhooks(overlay)[name] for name in names} == webhooks(base)
    assert resources({"mutate": webhooks(base)[names[0]]}) == {("kubeflow.org/v2beta1", "mpijobs")}


def test_every_kind_of_the_packaged_table_is_registered_by_base_or_component(overlay: Build) -> None:
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
        assert [rule["operations"] for rule in hook["rules"]] == [["CREATE"]] * len(hook["rules"])
        assert "*" not in str(hook["rules"])


def test_of_pods_only_workers_of_jobs_with_blocks_are_sent(overlay: Build, base: Build) -> None:
    hook = added(overlay, base)["kinds-pods.ultraserver-webhook.io"]
    assert hook["objectSelector"]["matchLabels"]["training.kubeflow.org/replica-type"] == "worker"
    conditions = [row["name"] for row in hook["matchConditions"]]
    assert conditions == ["not-a-mirror-pod", "of-a-job-with-blocks"]


def test_of_jobs_only_those_are_sent_that_may_need_ultraservers(overlay: Build, base: Build) -> None:
    hook = added(overlay, base)["kinds-jobs.ultraserver-webhook.io"]
    conditions = {row["name"]: row["expression"] for row in hook["matchConditions"]}
    assert list(conditions) == ["not-made-by-another-job", "may-need-ultraservers"]
    candidates = load_default().candidates
    assert all(name.startswith("aws.amazon.com/neuron") for name in candidates.requests)
    assert f"'{candidates.instance_type_label}' in" in conditions["may-need-ultraservers"]

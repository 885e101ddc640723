"""The value ``pods``: which Pods it has the API server ask about, and that others fit next to it."""

from collections.abc import Callable

from contract import keys
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import selects, webhooks
from tests.rules.tables import with_component

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


def test_no_pod_is_sent_twice_and_only_those_that_a_rule_may_be_about(built: Callable[..., Build]) -> None:
    hook = webhooks(built(pods=True))[NAME]
    for operator in ("mpi-operator", "mpijob-controller"):
        assert not selects(hook["objectSelector"], {"training.kubeflow.org/operator-name": operator})
    assert selects(hook["objectSelector"], {"training.kubeflow.org/operator-name": "pytorchjob-controller"})
    conditions = {row["name"]: row["expression"] for row in hook["matchConditions"]}
    names = ["not-a-mirror-pod", "template-was-not-changed", "not-opted-out", "asks-for-devices"]
    assert list(conditions) == names
    assert f"'{keys.ADDED}' in" in conditions["template-was-not-changed"]
    requests = {
        name
        for rule in with_component("hyperpod").rules
        if rule.match.role == "any" and rule.match.requests
        for name in rule.match.requests.value
    }
    neuron = "aws.amazon.com/neuron"
    assert f"name.startsWith('{neuron}')" in conditions["asks-for-devices"]
    others = {name for name in requests if not name.startswith(neuron)}
    assert others == {"nvidia.com/gpu", "vpc.amazonaws.com/efa"}
    assert all(f"'{name}'" in conditions["asks-for-devices"] for name in others)

"""Tests of the rendered guard. tests/plane/guard tests the guard on an API server."""

import copy
import json
import re
from collections import Counter
from collections.abc import Callable

import pytest

from contract import keys
from testbed.plane.controllers import CONTROLLERS
from testbed.plane.kubectl import Object
from tests.docs.policies import differences
from tests.docs.tables import meanings
from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import of_kind, units_in_pod_guard, webhooks
from webhook.rules.load import load_default

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
PLACEMENT = "ultraserver-placement-account"


def guard_objects(objects: Rendered) -> Rendered:
    """Returns the objects of the guard."""
    key = "app.kubernetes.io/component"
    return tuple(item for item in objects if item["metadata"].get("labels", {}).get(key) == "guard")


def refusal_condition(policy: Object) -> str:
    """Returns the condition that selects the requests that a policy refuses."""
    text: str = policy["matchConditions"][0]["expression"]
    return text


def on_one_line(text: str) -> str:
    """Returns a text without line breaks and repeated spaces."""
    return " ".join(text.split())


@pytest.fixture
def guard(render: Callable[..., Rendered]) -> Rendered:
    """The guard with the default values and ``kinds: [all]``."""
    return guard_objects(render(kinds=["all"]))


def test_every_policy_is_bound_and_refuses(guard: Rendered) -> None:
    bound = {
        item["spec"]["policyName"]: item["spec"]["validationActions"] for item in of_kind(guard, BINDING)
    }
    assert bound == {item["metadata"]["name"]: ["Deny"] for item in of_kind(guard, POLICY)}
    assert len(bound) == 4


def test_the_reference_has_every_policy_and_the_message_of_every_validation(
    render: Callable[..., Rendered],
) -> None:
    objects = (*render(kinds=["all"]), *render(guard="warn"))
    assert list(differences(objects, meanings()["policies"])) == []


def test_the_guard_has_the_units_of_the_packaged_table(guard: Rendered) -> None:
    """The policy for jobs also has the number of nodes of each unit."""
    (jobs,) = (
        variable["expression"]
        for item in of_kind(guard, POLICY)
        for variable in item["spec"].get("variables", ())
        if variable["name"] == "units"
    )
    (family,) = load_default().enabled_families
    sizes = {label: int(nodes) for nodes, label in re.findall(r"'(\d+) unit=([^']+)'", jobs)}
    assert sizes == {keys.HOSTNAME: 1} | {unit.label: unit.nodes for unit in family.units}
    assert units_in_pod_guard(guard) == [set(sizes)] * 2  # in the match condition, and in a variable


@pytest.mark.parametrize("kinds", [[], ["all"]], ids=["default", "kinds"])
def test_the_value_guard_warn_changes_only_the_actions_of_the_guard(
    kinds: list[str], render: Callable[..., Rendered]
) -> None:
    """With one exception: the limits of the placement account still deny requests, in their own policy."""
    expected, warning = copy.deepcopy(render(kinds=kinds)), render(kinds=kinds, guard="warn")
    for item in of_kind(guard_objects(expected), BINDING):
        item["spec"]["validationActions"] = ["Warn", "Audit"]

    def other_objects(objects: Rendered) -> list[Object]:
        changed = (PLACEMENT, "ultraserver-webhook-guard-pods")
        return [item for item in objects if item["kind"] != POLICY or item["metadata"]["name"] not in changed]

    own_binding = [
        item for item in warning if (item["kind"], item["metadata"]["name"]) == (BINDING, PLACEMENT)
    ]
    assert [item["spec"]["validationActions"] for item in own_binding] == [["Deny"]]
    assert [item for item in other_objects(warning) if item not in own_binding] == other_objects(expected)
    (enforced,), (warned,) = (
        [
            policy["spec"]
            for policy in of_kind(guard_objects(objects), POLICY)
            if policy["metadata"]["name"].endswith("-pods")
        ]
        for objects in (expected, warning)
    )
    assert on_one_line(refusal_condition(enforced)).endswith(on_one_line(refusal_condition(warned)))
    assert enforced["variables"] == warned["variables"]


def test_the_limits_of_the_placement_account_are_equal_with_and_without_the_guard(
    guard: Rendered, render: Callable[..., Rendered]
) -> None:
    """The guard's policy for Pods includes the limits, because each policy costs a conversion of the Pod."""
    (own_policy,) = (
        item["spec"] for item in of_kind(render(guard="off"), POLICY) if item["metadata"]["name"] == PLACEMENT
    )
    (pod_policy,) = (
        item["spec"] for item in of_kind(guard, POLICY) if item["metadata"]["name"].endswith("-pods")
    )
    assert not [item for item in of_kind(guard, POLICY) if item["metadata"]["name"] == PLACEMENT]

    (condition,), (validation,) = own_policy["matchConditions"], own_policy["validations"]
    assert on_one_line(refusal_condition(pod_policy)).startswith(
        f"({on_one_line(condition['expression'])}) || "
    )
    assert on_one_line(validation["messageExpression"]) in on_one_line(
        pod_policy["validations"][0]["messageExpression"]
    )
    assert {"CREATE", "UPDATE", "DELETE"} == {
        *pod_policy["matchConstraints"]["resourceRules"][0]["operations"]
    }
    assert "namespaceSelector" not in pod_policy["matchConstraints"]


@pytest.mark.parametrize("off", ["off", False], ids=["text", "false, as YAML reads off"])
def test_the_value_guard_off_removes_only_the_guard(
    off: object, defaults: Rendered, render: Callable[..., Rendered]
) -> None:
    rest = [item for item in defaults if item not in guard_objects(defaults)]
    # Without the guard, the limits of the placement account are in their own policy.
    own_policy = {(kind, PLACEMENT) for kind in (POLICY, BINDING)}

    def identities(objects: Rendered) -> list[tuple[str, str]]:
        return [(item["kind"], item["metadata"]["name"]) for item in objects]

    assert [
        item for item in render(guard=off) if (item["kind"], item["metadata"]["name"]) not in own_policy
    ] == rest
    # The guard's objects for the value kinds are removed, too.
    all_kinds = identities(render(kinds=["all"], guard=off))
    assert [identity for identity in all_kinds if identity not in own_policy] == identities(tuple(rest))


def test_the_guard_fails_closed_and_has_no_parameters(guard: Rendered) -> None:
    for item in of_kind(guard, POLICY):
        assert item["spec"]["failurePolicy"] == "Fail"
        assert "paramKind" not in item["spec"]
    assert not [item for item in of_kind(guard, BINDING) if "paramRef" in item["spec"]]


def test_the_guard_excludes_the_system_namespaces_of_the_webhook_but_no_opted_out_namespace(
    guard: Rendered, defaults: Rendered
) -> None:
    (names, _) = webhooks(defaults)["mpijobs.ultraserver-webhook.io"]["namespaceSelector"]["matchExpressions"]
    for item in of_kind(guard, POLICY):
        spec = item["spec"]
        if item["metadata"]["name"].endswith(("-pods", "-bindings")):
            assert (
                f"!(request.namespace in {names['values']}) && (" in spec["matchConditions"][0]["expression"]
            )
        else:
            assert spec["matchConstraints"]["namespaceSelector"] == {"matchExpressions": [names]}


def test_the_guard_checks_every_key_that_the_webhook_writes(guard: Rendered) -> None:
    def keys_in(*names: str) -> set[str]:
        policies = [item for item in of_kind(guard, POLICY) if item["metadata"]["name"].endswith(names)]
        return set(re.findall(r"'(ultraserver-webhook\.io/[a-z-]+)'", json.dumps(policies)))

    assert keys_in("jobs", "pods") == {
        keys.PLACEMENT,
        keys.GATE,
        keys.JOB,
        keys.BLOCK,
        keys.ADDED,
        keys.INJECT,
        keys.OPENED,
        keys.ON_NODE_FAILURE,
    }
    # All keys except the gate, the keys on Secrets, and the keys that authors set other than TIME_LIMIT.
    all_keys = {value for value in vars(keys).values() if _is_key(value)}
    excluded_keys = {*keys.FOR_AUTHORS, keys.GATE, keys.TRUSTED_SINCE, keys.STORED_AT} - {keys.TIME_LIMIT}
    assert keys_in("bindings") == all_keys - excluded_keys


def _is_key(value: object) -> bool:
    return isinstance(value, str) and value.startswith(keys.PREFIX) and value != keys.PREFIX


def test_the_guard_looks_for_rights_in_the_whole_cluster(guard: Rendered) -> None:
    """Otherwise, a user with all rights in one namespace would be an operator there."""
    text = json.dumps(of_kind(guard, POLICY))
    checks = re.findall(r"authorizer\.(.*?)\.check\(", text)
    assert len(checks) == text.count("authorizer.")
    identities = "group('ultraserver-webhook.io').resource('jobidentities')"
    scheduler_checks = {
        "pods').subresource('status')": 2,
        "pods').subresource('binding')": 2,
        "bindings')": 2,
    }
    assert Counter(checks) == {identities: 8} | {
        f"group('').resource('{resource}": count for resource, count in scheduler_checks.items()
    }


def test_every_validation_has_its_own_message(guard: Rendered) -> None:
    for item in of_kind(guard, POLICY):
        for row in item["spec"]["validations"]:
            assert re.search("wayOut|who|username|repeller", row["messageExpression"])
            assert row["reason"] == "Forbidden"
            # The API server does not show a message with a line break.
            assert "\\n" not in row["messageExpression"]


def test_only_operators_and_the_controllers_that_copy_templates_are_bound(
    guard: Rendered, defaults: Rendered, render: Callable[..., Rendered]
) -> None:
    def bound(objects: Rendered) -> dict[str, set[str]]:
        value: dict[str, set[str]] = {}
        for item in of_kind(guard_objects(objects), "ClusterRoleBinding"):
            subjects = {f"{subject['namespace']}:{subject['name']}" for subject in item["subjects"]}
            value.setdefault(item["roleRef"]["name"].removeprefix("ultraserver-webhook-"), set()).update(
                subjects
            )
        return value

    operators, copiers = (
        {"mpi-operator:mpi-operator", "kubeflow:mpi-operator"},
        {"kube-system:job-controller"},
    )
    assert bound(defaults) == {"operator": operators, "copier": copiers}
    kinds = {
        f"{program.namespace}:{program.account}"
        for program in CONTROLLERS
        if program.name in {"jobset", "lws"}
    }
    copying = {"kubeflow:training-operator", "kube-system:statefulset-controller"}
    assert bound(guard) == {"operator": operators | kinds, "copier": copiers | copying}
    assert copying < bound(render(kinds=["statefulsets.v1.apps"]))["copier"]
    rules = {item["metadata"]["name"]: item["rules"] for item in of_kind(guard, "ClusterRole")}
    for name, verb in (("operator", "write"), ("copier", "copy")):
        (rule,) = rules[f"ultraserver-webhook-{name}"]
        assert rule == {
            "apiGroups": ["ultraserver-webhook.io"],
            "resources": ["jobidentities"],
            "verbs": [verb],
        }

"""The guard, as it is built; tests/plane/guard has what the API server makes of it."""

import copy
import json
import re
from collections import Counter
from collections.abc import Callable

import pytest

from contract import keys
from testbed.plane.controllers import CONTROLLERS
from testbed.plane.kubectl import Object
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import of_kind, units_of_pods, webhooks
from webhook.rules.load import load_default

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
PLACEMENT = "ultraserver-placement-account"


def of_guard(objects: Build) -> Build:
    """Returns what of an installation is the guard."""
    key = "app.kubernetes.io/component"
    return tuple(item for item in objects if item["metadata"].get("labels", {}).get(key) == "guard")


def refusal(policy: Object) -> str:
    """Returns what a policy refuses."""
    text: str = policy["matchConditions"][0]["expression"]
    return text


def words(text: str) -> str:
    """Returns a text whose lines may be broken elsewhere."""
    return " ".join(text.split())


@pytest.fixture
def guard(built: Callable[..., Build]) -> Build:
    """The default's, and what the value ``kinds`` adds to it."""
    return of_guard(built(kinds=["all"]))


def test_every_policy_is_bound_and_refuses(guard: Build) -> None:
    bound = {
        item["spec"]["policyName"]: item["spec"]["validationActions"] for item in of_kind(guard, BINDING)
    }
    assert bound == {item["metadata"]["name"]: ["Deny"] for item in of_kind(guard, POLICY)}
    assert len(bound) == 4


def test_the_guard_has_the_units_of_the_packaged_table(guard: Build) -> None:
    """The policy for jobs has them with their numbers of nodes."""
    (jobs,) = (
        variable["expression"]
        for item in of_kind(guard, POLICY)
        for variable in item["spec"].get("variables", ())
        if variable["name"] == "units"
    )
    (family,) = load_default().enabled_families
    sizes = {label: int(nodes) for nodes, label in re.findall(r"'(\d+) unit=([^']+)'", jobs)}
    assert sizes == {keys.HOSTNAME: 1} | {unit.label: unit.nodes for unit in family.units}
    assert units_of_pods(guard) == [set(sizes)] * 2  # in the condition, and in what is refused


@pytest.mark.parametrize("kinds", [[], ["all"]], ids=["default", "kinds"])
def test_the_value_for_a_staged_rollout_differs_in_what_the_guard_does_only(
    kinds: list[str], built: Callable[..., Build]
) -> None:
    """But that what always refuses, and is in the guard's policy for Pods, has a policy of its own then."""
    expected, warning = copy.deepcopy(built(kinds=kinds)), built(kinds=kinds, guard="warn")
    for item in of_kind(of_guard(expected), BINDING):
        item["spec"]["validationActions"] = ["Warn", "Audit"]

    def rest(objects: Build) -> list[Object]:
        apart = (PLACEMENT, "ultraserver-webhook-guard-pods")
        return [item for item in objects if item["kind"] != POLICY or item["metadata"]["name"] not in apart]

    own = [item for item in warning if (item["kind"], item["metadata"]["name"]) == (BINDING, PLACEMENT)]
    assert [item["spec"]["validationActions"] for item in own] == [["Deny"]]
    assert [item for item in rest(warning) if item not in own] == rest(expected)
    (enforced,), (warned,) = (
        [
            each["spec"]
            for each in of_kind(of_guard(one), POLICY)
            if each["metadata"]["name"].endswith("-pods")
        ]
        for one in (expected, warning)
    )
    assert words(refusal(enforced)).endswith(words(refusal(warned)))
    assert enforced["variables"] == warned["variables"]


def test_what_bounds_whole_job_admission_is_the_same_with_the_guard_and_without(
    guard: Build, built: Callable[..., Build]
) -> None:
    """For each policy the API server converts a Pod once more."""
    (alone,) = (
        item["spec"] for item in of_kind(built(guard="off"), POLICY) if item["metadata"]["name"] == PLACEMENT
    )
    (pods,) = (item["spec"] for item in of_kind(guard, POLICY) if item["metadata"]["name"].endswith("-pods"))
    assert not [item for item in of_kind(guard, POLICY) if item["metadata"]["name"] == PLACEMENT]

    (refused,), (validations,) = alone["matchConditions"], alone["validations"]
    assert words(refusal(pods)).startswith(f"({words(refused['expression'])}) || ")
    assert words(validations["messageExpression"]) in words(pods["validations"][0]["messageExpression"])
    assert {"CREATE", "UPDATE", "DELETE"} == {*pods["matchConstraints"]["resourceRules"][0]["operations"]}
    assert "namespaceSelector" not in pods["matchConstraints"]


@pytest.mark.parametrize("off", ["off", False], ids=["as --set", "as YAML reads it"])
def test_the_value_that_takes_it_out_takes_nothing_else(
    off: object, base: Build, built: Callable[..., Build]
) -> None:
    rest = [item for item in base if item not in of_guard(base)]
    # What bounds whole-job admission has a policy of its own then.
    own = {(kind, PLACEMENT) for kind in (POLICY, BINDING)}

    def named(objects: Build) -> list[tuple[str, str]]:
        return [(item["kind"], item["metadata"]["name"]) for item in objects]

    assert [item for item in built(guard=off) if (item["kind"], item["metadata"]["name"]) not in own] == rest
    # What the value kinds has for it goes as well.
    assert [one for one in named(built(kinds=["all"], guard=off)) if one not in own] == named(tuple(rest))


def test_it_fails_closed_and_depends_on_no_other_object(guard: Build) -> None:
    for item in of_kind(guard, POLICY):
        assert item["spec"]["failurePolicy"] == "Fail"
        assert "paramKind" not in item["spec"]
    assert not [item for item in of_kind(guard, BINDING) if "paramRef" in item["spec"]]


def test_the_same_namespaces_are_left_out_as_by_the_webhook_but_not_those_that_opted_out(
    guard: Build, base: Build
) -> None:
    (names, _) = webhooks(base)["mpijobs.ultraserver-webhook.io"]["namespaceSelector"]["matchExpressions"]
    for item in of_kind(guard, POLICY):
        spec = item["spec"]
        if item["metadata"]["name"].endswith(("-pods", "-bindings")):
            assert (
                f"!(request.namespace in {names['values']}) && (" in spec["matchConditions"][0]["expression"]
            )
        else:
            assert spec["matchConstraints"]["namespaceSelector"] == {"matchExpressions": [names]}


def test_the_keys_are_those_that_the_webhook_writes(guard: Build) -> None:
    def named(*names: str) -> set[str]:
        matching = [item for item in of_kind(guard, POLICY) if item["metadata"]["name"].endswith(names)]
        return set(re.findall(r"'(ultraserver-webhook\.io/[a-z-]+)'", json.dumps(matching)))

    assert named("jobs", "pods") == {
        keys.PLACE,
        keys.GATE,
        keys.JOB,
        keys.BLOCK,
        keys.ADDED,
        keys.INJECT,
        keys.OPENED,
        keys.ON_NODE_FAILURE,
    }
    # All that is on a Pod; the author of a job sets three, and two are on Secrets.
    ours = {value for value in vars(keys).values() if _is_key(value)}
    others = {*keys.FOR_AUTHORS, keys.GATE, keys.TRUSTED_SINCE, keys.STORED_AT} - {keys.TIME_LIMIT}
    assert named("bindings") == ours - others


def _is_key(value: object) -> bool:
    return isinstance(value, str) and value.startswith(keys.PREFIX) and value != keys.PREFIX


def test_who_is_an_operator_is_asked_about_in_the_cluster(guard: Build) -> None:
    """A user with all rights in one namespace would be one there."""
    text = json.dumps(of_kind(guard, POLICY))
    checks = re.findall(r"authorizer\.(.*?)\.check\(", text)
    assert len(checks) == text.count("authorizer.")
    line = "group('ultraserver-webhook.io').resource('jobidentities')"
    of_schedulers = {"pods').subresource('status')": 2, "pods').subresource('binding')": 2, "bindings')": 2}
    assert Counter(checks) == {line: 8} | {
        f"group('').resource('{each}": count for each, count in of_schedulers.items()
    }


def test_every_refusal_has_a_message_of_its_own(guard: Build) -> None:
    for item in of_kind(guard, POLICY):
        for row in item["spec"]["validations"]:
            assert re.search("wayOut|who|username|repeller", row["messageExpression"])
            assert row["reason"] == "Forbidden"
            # A message with a line break would not be shown.
            assert "\\n" not in row["messageExpression"]


def test_only_operators_and_the_controllers_that_copy_templates_are_bound(
    guard: Build, base: Build, built: Callable[..., Build]
) -> None:
    def bound(objects: Build) -> dict[str, set[str]]:
        value: dict[str, set[str]] = {}
        for item in of_kind(of_guard(objects), "ClusterRoleBinding"):
            subjects = {f"{one['namespace']}:{one['name']}" for one in item["subjects"]}
            value.setdefault(item["roleRef"]["name"].removeprefix("ultraserver-webhook-"), set()).update(
                subjects
            )
        return value

    operators, copiers = (
        {"mpi-operator:mpi-operator", "kubeflow:mpi-operator"},
        {"kube-system:job-controller"},
    )
    assert bound(base) == {"operator": operators, "copier": copiers}
    kinds = {f"{each.namespace}:{each.account}" for each in CONTROLLERS if each.name in {"jobset", "lws"}}
    copying = {"kubeflow:training-operator", "kube-system:statefulset-controller"}
    assert bound(guard) == {"operator": operators | kinds, "copier": copiers | copying}
    assert copying < bound(built(kinds=["statefulsets.v1.apps"]))["copier"]
    rules = {item["metadata"]["name"]: item["rules"] for item in of_kind(guard, "ClusterRole")}
    for name, verb in (("operator", "write"), ("copier", "copy")):
        (rule,) = rules[f"ultraserver-webhook-{name}"]
        assert rule == {
            "apiGroups": ["ultraserver-webhook.io"],
            "resources": ["jobidentities"],
            "verbs": [verb],
        }

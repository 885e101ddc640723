"""Tests of the rules for the Neuron scheduler extension: the scheduler's name and denied device counts."""

from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.rules.tables import (
    EXTENDS,
    Expected,
    assert_problems,
    extend_table,
    mutate,
    outcome,
    table_with_component,
)
from webhook.rows import messages as row_messages
from webhook.rules.load import load_default

TABLE = load_default()
SCHEDULER = table_with_component("neuron-scheduler")
TYPE = "node.kubernetes.io/instance-type"
NEURON, CORES, OLD_NEURON = (f"aws.amazon.com/{name}" for name in ("neuron", "neuroncore", "neurondevice"))
DENIAL = (
    "Instance type {} does not support requests for device: {}. "
    "Please request a different number of devices. "
)


def affinity_to_types(*names: str, excluded: str = "none", alternative: Any = None) -> dict[str, Any]:
    """Returns node affinity to these types without the excluded type, or to nodes of an alternative term."""
    expressions = [
        {"key": TYPE, "operator": "In", "values": list(names)},
        {"key": TYPE, "operator": "NotIn", "values": [excluded]},
    ]
    terms = [{"matchExpressions": term} for term in (expressions, alternative) if term]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def pod(*amounts: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Returns a Pod with a container for each map of resources."""
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"limits": limits, "requests": limits}}
        for number, limits in enumerate(amounts)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": containers, **spec},
    }


def type_selector(name: str) -> dict[str, Any]:
    return {"nodeSelector": {TYPE: name}}


ACCEPTED = {
    "trn1.32xlarge": {1, 4, 8, 16},
    "trn1n.32xlarge": {1, 4, 8, 16},
    "ml.trn1.32xlarge": {1, 4, 8, 16},
    "trn1.2xlarge": {1},
    "inf1.xlarge": {1},
    "inf1.2xlarge": {1},
    "inf1.6xlarge": {*range(1, 5)},
    "inf1.24xlarge": {*range(1, 17)},
    "inf2.xlarge": {1},
    "inf2.8xlarge": {1},
    "inf2.24xlarge": {*range(1, 7)},
    "inf2.48xlarge": {*range(1, 13)},
    "ml.inf2.48xlarge": {*range(1, 13)},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_instance_type_accepts_only_the_device_counts_of_the_document(name: str) -> None:
    counts = range(1, 20)
    result = {
        count for count in counts if not outcome(TABLE, pod({NEURON: count}, **type_selector(name))).denials
    }
    assert result == ACCEPTED[name]


def test_a_denial_has_the_extensions_text_the_field_and_the_valid_counts() -> None:
    (denial,) = outcome(TABLE, pod({}, {NEURON: "7"}, **type_selector("trn1.32xlarge"))).denials
    path = "spec.containers[1].resources.limits[aws.amazon.com/neuron]"
    assert denial == DENIAL.format("trn1.32xlarge", 7) + f"It accepts 1, 4, 8 or 16; the request is at {path}"


SEVEN = {NEURON: 7}
PODS_AND_REFUSING_TYPES: dict[str, tuple[dict[str, Any], str]] = {
    "the older name of the resource": (
        pod({OLD_NEURON: 7}, **type_selector("trn1.32xlarge")),
        "trn1.32xlarge",
    ),
    "an affinity": (pod(SEVEN, **affinity_to_types("trn1.32xlarge")), "trn1.32xlarge"),
    "an affinity to two types that do not accept 7": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", "inf2.24xlarge")),
        "trn1.32xlarge or inf2.24xlarge",
    ),
    "an affinity that includes a type that accepts 7": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", "inf2.48xlarge")),
        "",
    ),
    "an affinity that includes an unknown type": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", "trn9.large")),
        "",
    ),
    "an affinity, and a selector for only one of its types": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", "inf2.48xlarge"), **type_selector("trn1.32xlarge")),
        "trn1.32xlarge",
    ),
    "an affinity with a term for any type": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", alternative=[{"key": "pool", "operator": "Exists"}])),
        "",
    ),
    "an affinity that excludes the type that accepts 7": (
        pod(SEVEN, **affinity_to_types("trn1.32xlarge", "inf2.48xlarge", excluded="inf2.48xlarge")),
        "trn1.32xlarge",
    ),
    "no type": (pod(SEVEN), ""),
    "an unknown type": (pod(SEVEN, **type_selector("trn9.large")), ""),
    "cores, for which the document has no counts": (pod({CORES: 7}, **type_selector("trn1.32xlarge")), ""),
    "two containers that each request an accepted count": (
        pod({NEURON: 4}, {NEURON: 8}, **type_selector("trn1.32xlarge")),
        "",
    ),
    "a request that is not a number": (pod({NEURON: "seven"}, **type_selector("trn1.32xlarge")), ""),
    "an init container": (
        {**pod({}, **type_selector("trn1.32xlarge"), initContainers=pod(SEVEN)["spec"]["containers"])},
        "trn1.32xlarge",
    ),
}


@pytest.mark.parametrize("case", PODS_AND_REFUSING_TYPES)
def test_a_device_count_is_denied_if_no_instance_type_that_the_pod_selects_accepts_it(
    case: str,
) -> None:
    obj, types = PODS_AND_REFUSING_TYPES[case]
    denials = outcome(TABLE, obj).denials
    assert [denial.startswith(DENIAL.format(types, 7)) for denial in denials] == ([True] if types else [])


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_device_counts_in_pod_templates_of_jobs_are_denied(role: str) -> None:
    job = mpijob(resource=None)
    job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"] = pod(SEVEN, **type_selector("trn1.32xlarge"))[
        "spec"
    ]
    (denial,) = outcome(TABLE, job).denials
    assert (
        f"the request is at spec.mpiReplicaSpecs.{role}.template.spec.containers[0].resources.limits["
        in denial
    )
    opted_out = {**job, "metadata": {"annotations": {"ultraserver-webhook.io/inject": "false"}}}
    assert not outcome(TABLE, opted_out).denials


def test_a_table_can_switch_the_denial_off_and_set_the_counts_of_a_type() -> None:
    seven = pod(SEVEN, **type_selector("trn1.32xlarge"))
    assert not outcome(extend_table("rules: [{name: device-counts, mode: off}]\n"), seven).denials
    assert not outcome(extend_table("deviceCounts: {trn1.32xlarge: [1, 7, 16]}\n"), seven).denials
    new_type = extend_table("deviceCounts: {trn9.large: up to 3}\n")
    assert outcome(new_type, pod(SEVEN, **type_selector("trn9.large"))).denials[0].count("It accepts 1 to 3;")
    assert outcome(new_type, seven).denials


def test_the_scheduler_is_set_by_the_requests_of_all_containers_and_replaces_only_the_default() -> None:
    for obj, expected in (
        (pod({NEURON: 1}, {NEURON: 1}), "my-scheduler"),
        (pod({NEURON: 4}, schedulerName="default-scheduler"), "my-scheduler"),
        (pod({NEURON: 4}, schedulerName="volcano"), "volcano"),
    ):
        result = outcome(SCHEDULER, obj)
        assert (result.after["spec"]["schedulerName"], result.warnings) == (expected, ())


def test_removing_the_scheduler_leaves_the_default_of_the_api_server() -> None:
    stored = mutate(SCHEDULER, pod({NEURON: 4}, schedulerName="default-scheduler"))
    assert "schedulerName" not in mutate(TABLE, stored)["spec"]


RULE = "rules:\n  - name: x\n    reason: r\n    warn: w\n    match: {role: any, "
INVALID_TABLES: dict[str, tuple[str, Expected]] = {
    "a type that does not accept one device": (
        "deviceCounts: {trn9.large: [4, 8]}\n",
        [(4, "deviceCounts[trn9.large]", row_messages.NO_SINGLE_DEVICE)],
    ),
    "text instead of counts": (
        "deviceCounts: {trn9.large: some}\n",
        [(4, "deviceCounts[trn9.large]", "must be a list")],
    ),
    "a minimum request of 0": (
        RULE + "requests: {aws.amazon.com/neuron: 0}}\n",
        [(8, "rules[0].match.requests[aws.amazon.com/neuron]", "must be 1 or more")],
    ),
    "a placeholder of devices without a condition on devices": (
        RULE.replace("warn: w", 'warn: "$(devices.asked)"') + "candidate: any}\n",
        [(7, "rules[0].warn", "unknown placeholder $(devices.asked)")],
    ),
    "a placeholder of the role any": (
        RULE.replace("warn: w", 'warn: "$(any.image)"') + "candidate: any}\n",
        [(7, "rules[0].warn", "unknown placeholder $(any.image)")],
    ),
    "a group with the role any": (
        "workloads:\n  - name: x\n    kinds: [a/v1/X]\n    groups: [{role: any, template: /spec/template}]\n",
        [(7, "workloads[0].groups[0].role", row_messages.reserved_role("any"))],
    ),
    "a group with the role place, a reserved word": (
        "workloads:\n  - name: x\n    kinds: [a/v1/X]\n    groups: [{role: place, template: /spec}]\n",
        [(7, "workloads[0].groups[0].role", row_messages.reserved_role("place"))],
    ),
    "a path in a template by the position of a list element": (
        RULE + 'template: {/spec/containers/0/image: ""}}\n',
        [
            (
                8,
                "rules[0].match.template[/spec/containers/0/image]",
                "/spec/containers/0/image selects nothing",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", INVALID_TABLES)
def test_an_invalid_table_is_refused(case: str) -> None:
    text, expected = INVALID_TABLES[case]
    assert_problems(EXTENDS + text, expected)

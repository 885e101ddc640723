"""Seed 003, the Neuron scheduler extension: who gets its scheduler, and which device counts are refused."""

from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, Expected, after, extended, outcome, same_problems, with_component
from webhook.rules.load import load_default

TABLE = load_default()
SCHEDULER = with_component("neuron-scheduler")
TYPE = "node.kubernetes.io/instance-type"
NEURON, CORES, OLDER = (f"aws.amazon.com/{name}" for name in ("neuron", "neuroncore", "neurondevice"))
WORDS = (
    "Instance type {} does not support requests for device: {}. "
    "Please request a different number of devices. "
)


def on_types(*names: str, but: str = "none", more: Any = None) -> dict[str, Any]:
    """Returns an affinity to nodes of one of the types, but not of one; or to those of more expressions."""
    expressions = [
        {"key": TYPE, "operator": "In", "values": list(names)},
        {"key": TYPE, "operator": "NotIn", "values": [but]},
    ]
    terms = [{"matchExpressions": each} for each in (expressions, more) if each]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def pod(*amounts: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Returns a Pod of a container for each map of resources."""
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


def selected(name: str) -> dict[str, Any]:
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
def test_a_type_accepts_the_numbers_of_the_document_and_no_others(name: str) -> None:
    counts = range(1, 20)
    result = {count for count in counts if not outcome(TABLE, pod({NEURON: count}, **selected(name))).denials}
    assert result == ACCEPTED[name]


def test_a_refusal_has_the_extensions_words_the_place_and_the_valid_numbers() -> None:
    (denials,) = outcome(TABLE, pod({}, {NEURON: "7"}, **selected("trn1.32xlarge"))).denials
    place = "spec.containers[1].resources.limits[aws.amazon.com/neuron]"
    assert (
        denials == WORDS.format("trn1.32xlarge", 7) + f"It accepts 1, 4, 8 or 16; the request is at {place}"
    )


SEVEN = {NEURON: 7}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the older name of the resource": (pod({OLDER: 7}, **selected("trn1.32xlarge")), "trn1.32xlarge"),
    "an affinity": (pod(SEVEN, **on_types("trn1.32xlarge")), "trn1.32xlarge"),
    "an affinity to two types, neither of which accepts it": (
        pod(SEVEN, **on_types("trn1.32xlarge", "inf2.24xlarge")),
        "trn1.32xlarge or inf2.24xlarge",
    ),
    "an affinity to a type that accepts it": (pod(SEVEN, **on_types("trn1.32xlarge", "inf2.48xlarge")), ""),
    "an affinity to an unknown type": (pod(SEVEN, **on_types("trn1.32xlarge", "trn9.large")), ""),
    "an affinity and a selector, which decides": (
        pod(SEVEN, **on_types("trn1.32xlarge", "inf2.48xlarge"), **selected("trn1.32xlarge")),
        "trn1.32xlarge",
    ),
    "a term that leaves the type open": (
        pod(SEVEN, **on_types("trn1.32xlarge", more=[{"key": "pool", "operator": "Exists"}])),
        "",
    ),
    "an affinity that takes a type out again": (
        pod(SEVEN, **on_types("trn1.32xlarge", "inf2.48xlarge", but="inf2.48xlarge")),
        "trn1.32xlarge",
    ),
    "no type": (pod(SEVEN), ""),
    "an unknown type": (pod(SEVEN, **selected("trn9.large")), ""),
    "cores, of which the document does not say": (pod({CORES: 7}, **selected("trn1.32xlarge")), ""),
    "two containers that each ask for an accepted number": (
        pod({NEURON: 4}, {NEURON: 8}, **selected("trn1.32xlarge")),
        "",
    ),
    "what is not a number": (pod({NEURON: "seven"}, **selected("trn1.32xlarge")), ""),
    "an init container": (
        {**pod({}, **selected("trn1.32xlarge"), initContainers=pod(SEVEN)["spec"]["containers"])},
        "trn1.32xlarge",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_number_is_refused_where_every_type_that_the_pod_may_get_is_known_not_to_accept_it(
    case: str,
) -> None:
    obj, types = CASES[case]
    denials = outcome(TABLE, obj).denials
    assert [denial.startswith(WORDS.format(types, 7)) for denial in denials] == ([True] if types else [])


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_templates_of_jobs_are_looked_at_as_well(role: str) -> None:
    job = mpijob(resource=None)
    job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"] = pod(SEVEN, **selected("trn1.32xlarge"))["spec"]
    (denials,) = outcome(TABLE, job).denials
    assert (
        f"the request is at spec.mpiReplicaSpecs.{role}.template.spec.containers[0].resources.limits["
        in denials
    )
    opted_out = {**job, "metadata": {"annotations": {"ultraserver-webhook.io/inject": "false"}}}
    assert not outcome(TABLE, opted_out).denials


def test_the_refusal_is_a_row_and_a_type_is_a_line_of_the_table() -> None:
    seven = pod(SEVEN, **selected("trn1.32xlarge"))
    assert not outcome(extended("rules: [{name: device-counts, mode: off}]\n"), seven).denials
    assert not outcome(extended("deviceCounts: {trn1.32xlarge: [1, 7, 16]}\n"), seven).denials
    mine = extended("deviceCounts: {trn9.large: up to 3}\n")
    assert outcome(mine, pod(SEVEN, **selected("trn9.large"))).denials[0].count("It accepts 1 to 3;")
    assert outcome(mine, seven).denials


def test_requests_of_all_containers_count_and_only_the_api_servers_default_is_replaced() -> None:
    for obj, expected in (
        (pod({NEURON: 1}, {NEURON: 1}), "my-scheduler"),
        (pod({NEURON: 4}, schedulerName="default-scheduler"), "my-scheduler"),
        (pod({NEURON: 4}, schedulerName="volcano"), "volcano"),
    ):
        result = outcome(SCHEDULER, obj)
        assert (result.after["spec"]["schedulerName"], result.warnings) == (expected, ())


def test_the_default_of_the_api_server_is_what_remains_when_the_scheduler_is_taken_back() -> None:
    stored = after(SCHEDULER, pod({NEURON: 4}, schedulerName="default-scheduler"))
    assert "schedulerName" not in after(TABLE, stored)["spec"]


ROW = "rules:\n  - name: x\n    reason: r\n    warn: w\n    match: {role: any, "
PROBLEMS: dict[str, tuple[str, Expected]] = {
    "a type that does not accept one device": (
        "deviceCounts: {trn9.large: [4, 8]}\n",
        [(4, "deviceCounts[trn9.large]", "one device is valid on every instance type: add 1")],
    ),
    "no numbers": ("deviceCounts: {trn9.large: some}\n", [(4, "deviceCounts[trn9.large]", "must be a list")]),
    "a least number of nothing": (
        ROW + "requests: {aws.amazon.com/neuron: 0}}\n",
        [(8, "rules[0].match.requests[aws.amazon.com/neuron]", "must be 1 or more")],
    ),
    "a placeholder about devices without the condition": (
        ROW.replace("warn: w", 'warn: "$(devices.asked)"') + "candidate: any}\n",
        [(7, "rules[0].warn", "unknown placeholder $(devices.asked)")],
    ),
    "a placeholder of every role": (
        ROW.replace("warn: w", 'warn: "$(any.image)"') + "candidate: any}\n",
        [(7, "rules[0].warn", "unknown placeholder $(any.image)")],
    ),
    "a group of every role": (
        "workloads:\n  - name: x\n    kinds: [a/v1/X]\n    groups: [{role: any, template: /spec/template}]\n",
        [(7, "workloads[0].groups[0].role", "'any' cannot be a role: ")],
    ),
    "a group that is called as what placeholders say of a Pod": (
        "workloads:\n  - name: x\n    kinds: [a/v1/X]\n    groups: [{role: place, template: /spec}]\n",
        [(7, "workloads[0].groups[0].role", "'place' cannot be a role: ")],
    ),
    "a place in a template by position": (
        ROW + 'template: {/spec/containers/0/image: ""}}\n',
        [
            (
                8,
                "rules[0].match.template[/spec/containers/0/image]",
                "/spec/containers/0/image can never exist",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    text, expected = PROBLEMS[case]
    same_problems(EXTENDS + text, expected)

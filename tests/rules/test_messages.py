"""Tests of the exact reasons, warnings and denials of outcomes, and of the reasons of skipped rules."""

from typing import Any

import pytest

from contract import keys
from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import extend_table, outcome, remove_records
from webhook.engine.outcome import Outcome, Response, RuleState
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

NO_REQUEST = f"the workers request no {keys.NEURON}"
LIMITS = "containers[0].resources.limits"
TEMPLATE_PATH = "spec.mpiReplicaSpecs.Worker.template"
LABEL = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
INJECT_REMEDY = 'use "true" to opt in, "false" to opt out, or remove it'
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")
RESOURCES = (*WORKER, "spec", "containers", 0, "resources")
INVALID_COUNT = "the number of workers must be a whole number, 0 or more"


def rule(match: str = "role: worker", rest: str = "warn: w") -> str:
    return f"rules:\n  - {{name: x, reason: r, match: {{{match}}}, {rest}}}\n"


def adding_rule(fragment: str, keys_of_rule: str = "") -> str:
    return rule(rest=f"add: {{spec: {{{fragment}}}}}{keys_of_rule}")


def test_an_outcome_has_no_rules_for_other_kinds_or_roles() -> None:
    rules = "".join(
        f"  - {{name: r{number}, reason: r, match: {{{match}}}, warn: w}}\n"
        for number, match in enumerate(["workload: jobset, role: worker", "role: pod", "role: leader"])
    )
    result = outcome(extend_table("rules:\n" + rules), mpijob())
    assert result.rules == outcome(extend_table(""), mpijob()).rules


def state_and_reason(result: Outcome, name: str = "x") -> tuple[RuleState, str]:
    (row,) = [row for row in result.rules if row.name == name]
    return row.state, row.why


REQUEST_16 = "request 16, or opt the job in with ultraserver-webhook.io/inject"


@pytest.mark.parametrize(
    ("table", "obj", "reason"),
    [
        ("", {"apiVersion": "v1", "kind": "X"}, "no workload of the rule table matches kind v1/X"),
        ("mode: off\n", mpijob(), "the whole rule table is switched off"),
        ("", mpijob(annotations={keys.INJECT: "false"}), f"opted out by {keys.INJECT}"),
        ("", put(mpijob(), ("metadata", "labels"), {keys.INJECT: "false"}), f"opted out by {keys.INJECT}"),
        (
            "",
            put(mpijob(), RESOURCES, {"requests": {keys.NEURON: "1"}}),
            f"its workers ask for less than the 16 {keys.NEURON} that a node has: {REQUEST_16}",
        ),
        ("", mpijob(annotations={keys.INJECT: "true"}, resource=None), f"opted in by {keys.INJECT}"),
        ("", mpijob(), "its workers ask for aws.amazon.com/neuron"),
        ("", mpijob(0), "the job has no workers: spec.mpiReplicaSpecs.Worker.replicas is missing or 0"),
        (
            "",
            {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 0, "template": {}}},
            "the job has no workers: spec.parallelism is missing or 0",
        ),
        ("", mpijob(resource=GPU), NO_REQUEST),
        (
            "",
            put(mpijob(), RESOURCES, {"limits": {keys.NEURON: "sixteen"}}),
            (
                f"{NO_REQUEST}: {TEMPLATE_PATH}.spec.{LIMITS}[{keys.NEURON}] "
                'is "sixteen"; write a number, such as 16'
            ),
        ),
        (
            "",
            mpijob(resource=None, worker_spec={"nodeSelector": {LABEL: "trn2u.48xlarge"}}),
            "its workers select an instance type of family trn2u",
        ),
    ],
)
def test_the_reason_of_an_outcome(table: str, obj: dict[str, Any], reason: str) -> None:
    result = outcome(extend_table(table), obj)
    assert (result.reason, result.revision) == (reason, extend_table(table).revision)


def test_a_job_without_workers_is_reported_with_the_path_of_the_template() -> None:
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert (
        outcome(extend_table(""), job).reason
        == f"the job has no worker template: there is none at {TEMPLATE_PATH}"
    )


@pytest.mark.parametrize("job", [mpijob(-1), mpijob(annotations={keys.INJECT: "yes"}), mpijob()])
def test_a_table_in_shadow_changes_nothing_and_reports_what_it_would_do(
    job: dict[str, Any],
) -> None:
    enforced, reported = (outcome(extend_table(text), job) for text in ("", "mode: shadow\n"))
    assert reported.reason == f"the whole rule table only reports; {enforced.reason}"
    assert (reported.after, reported.operations, reported.warnings, reported.denials) == (job, (), (), ())
    assert (reported.fired(RuleState.SHADOWED), reported.fired()) == (enforced.fired(), ())
    assert reported.enforced
    assert reported.enforced.denials == enforced.denials
    assert reported.enforced.fired() == enforced.fired()


@pytest.mark.parametrize(
    ("job", "denial"),
    [
        (
            mpijob(annotations={keys.INJECT: "yes"}),
            f'{INJECT_REMEDY}: metadata.annotations[{keys.INJECT}] is "yes"',
        ),
        (
            mpijob(annotations={keys.INJECT: "x" * 99}),
            f'{INJECT_REMEDY}: metadata.annotations[{keys.INJECT}] is "{"x" * 58}…',
        ),
        *(
            (
                put(mpijob(), REPLICAS, number),
                f"{INVALID_COUNT}: spec.mpiReplicaSpecs.Worker.replicas is {text}",
            )
            for number, text in ((-1, "-1"), (True, "true"), ("4", '"4"'), (4.5, "4.5"))
        ),
        (
            mpijob(worker_spec={"nodeSelector": [1]}),
            f"{TEMPLATE_PATH}.spec.nodeSelector must be a map, not [1]",
        ),
        (
            mpijob(worker_spec={"initContainers": {}}),
            f"{TEMPLATE_PATH}.spec.initContainers must be a list, not {{}}",
        ),
    ],
)
def test_an_invalid_job_is_denied_with_the_field_and_its_value(job: dict[str, Any], denial: str) -> None:
    table = extend_table(adding_rule("initContainers: [{name: i, image: i}]"))
    result = outcome(table, job)
    assert (result.revision, result.reason, result.denials) == (table.revision, "invalid job", (denial,))


COUNT_REMEDY = "it takes 4 or a multiple of 4 workers; change the number of workers, or use node config"
CONFIG_PATH = f"metadata.annotations[{keys.NODE_CONFIG}]"


@pytest.mark.parametrize(
    ("workers", "config", "denial"),
    [
        (4, "3", f'the node config must be one of 4, 2, 1: {CONFIG_PATH} is "3"'),
        (3, "4", f"3 workers do not fit node config 4 of {CONFIG_PATH}: {COUNT_REMEDY} 1"),
        (2, "4", f"2 workers do not fit node config 4 of {CONFIG_PATH}: {COUNT_REMEDY} 2 or 1"),
    ],
)
def test_a_node_config_that_does_not_fit_is_denied_with_the_node_configs_that_fit(
    workers: int, config: str, denial: str
) -> None:
    job = mpijob(workers, annotations={keys.NODE_CONFIG: config})
    assert outcome(load_default(), job).denials == (denial,)


def test_a_node_config_in_a_containers_environment_is_used_and_named() -> None:
    env = [{"name": "OTHER", "value": "1"}, {"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "3"}]
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"] = env
    text = (
        "the node config must be one of 4, 2, 1: "
        "env NEURON_ULTRASERVER_NODE_CONFIG of container 'mpitest' is \"3\""
    )
    assert outcome(load_default(), job).denials == (text,)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("role: worker, shape: {nodeConfig: [1, 2]}", "shape four-node has nodeConfig 4, not 1 or 2"),
        ("role: worker, shape: {name: two-node}", "shape four-node has name four-node, not two-node"),
        ("role: worker, labelSelector: {matchLabels: {team: a}}", "label team is null, not In a"),
        (
            "role: worker, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}",
            'label kubernetes.io/metadata.name is "default", not In a',
        ),
        ("role: worker, labels: {team: [a, b]}", 'label team is "", not a or b'),
        ('role: worker, annotations: {team: ["", b]}', 'annotation team is "c", not DoesNotExist or b'),
        ("role: worker, namespace: [a, b]", "the namespace is default, not a or b"),
        (f"role: worker, requests: [{GPU}]", f"the worker asks for none of {GPU}"),
    ],
)
def test_a_skipped_rule_names_the_condition_that_failed(match: str, message: str) -> None:
    result = outcome(extend_table(rule(match)), mpijob(annotations={"team": "c"}))
    assert state_and_reason(result) == (RuleState.SKIPPED, message)


def test_a_skipped_rule_names_its_mode_or_the_rule_that_fired_instead() -> None:
    off = outcome(extend_table(rule(rest="warn: w, mode: off, deny: never")), mpijob())
    assert state_and_reason(off) == (RuleState.SKIPPED, "switched off")
    assert (off.warnings, off.denials) == ((), ())
    first = "rules:\n  - {name: other, reason: r, match: {role: worker}, warn: w}\n"
    second = rule(rest="warn: w, unless: [other]").removeprefix("rules:\n")
    assert state_and_reason(outcome(extend_table(first + second), mpijob())) == (
        RuleState.SKIPPED,
        "other fired instead",
    )


def test_a_rule_is_skipped_if_a_rule_that_it_needs_kept_a_value_of_the_job() -> None:
    second = "  - {name: other, reason: r, match: {role: worker}, warn: w, needs: [x]}\n"
    table = extend_table(adding_rule("schedulerName: ours") + second)
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    text = "x did not fire, or the job kept a value of its own"
    assert state_and_reason(outcome(table, job), "other") == (RuleState.SKIPPED, text)
    assert state_and_reason(outcome(table, mpijob()), "other") == (RuleState.FIRED, "r")


@pytest.mark.parametrize(
    ("keys_of_rule", "stored", "warnings", "denials"),
    [
        ("", "theirs", ['kept your value: {} is "theirs", not "ours"'], []),
        (", onConflict: keep", "theirs", ['kept your value: {} is "theirs", not "ours"'], []),
        (", onConflict: override", "ours", ['replaced your value: {} is "theirs", not "ours"'], []),
        (", onConflict: deny", None, [], ['{} is "theirs", not "ours"; remove your value, or opt out']),
        (", quiet: true", "theirs", [], []),
    ],
)
def test_a_conflict_is_reported_with_both_values_and_the_result(
    keys_of_rule: str, stored: str | None, warnings: list[str], denials: list[str]
) -> None:
    table = extend_table(adding_rule("schedulerName: ours, nodeSelector: {zone: a}", keys_of_rule))
    result = outcome(table, mpijob(worker_spec={"schedulerName": "theirs"}))
    path = f"{TEMPLATE_PATH}.spec.schedulerName"
    assert list(result.warnings) == [text.format(path) for text in warnings]
    assert list(result.denials) == [text.format(path) for text in denials]
    if stored:  # the rule also adds its other fields
        spec = get(result.after, (*WORKER, "spec"))
        assert (spec["schedulerName"], spec["nodeSelector"]["zone"]) == (stored, "a")
    else:
        assert result.operations == ()
    equal = outcome(table, mpijob(worker_spec={"schedulerName": "ours"}))
    assert (equal.warnings, equal.denials) == ((), ())


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "emptyDir, k0"),
        (9, "emptyDir, k0, k1, k2, k3, k4, k5, k6, k7, k8"),
        (10, "emptyDir, k0, k1, k2, k3, k4, k5, k6, k7, k8 and 1 more"),
    ],
)
def test_a_warning_about_different_maps_has_their_first_ten_keys(count: int, text: str) -> None:
    volume = {"name": "v"} | {f"k{number}": 1 for number in range(count)}
    job = mpijob(worker_spec={"volumes": [volume]})
    result = outcome(extend_table(adding_rule("volumes: [{name: v, emptyDir: {}}]")), job)
    assert result.warnings == (
        f"kept your value: {TEMPLATE_PATH}.spec.volumes[v] differs from the webhook's in {text}",
    )


def test_a_rule_in_shadow_changes_nothing_and_reports_what_it_would_do() -> None:
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    shadow = ", mode: shadow, warn: careful, deny: never"
    result = outcome(extend_table(adding_rule("hostname: h", shadow)), job)
    assert state_and_reason(result) == (RuleState.SHADOWED, "r")
    assert (result.denials, result.warnings, result.response) == ((), (), Response.ALLOWED)
    assert remove_records(result.after) == remove_records(outcome(load_default(), job).after)
    assert result.enforced
    # In the mode enforce, the rule would deny the job, and so leave it unchanged.
    assert get(result.enforced.after, (*WORKER, "spec")) is get(job, (*WORKER, "spec"))
    assert (result.enforced.denials, result.enforced.warnings) == (("never",), ("careful",))
    assert result.shadow
    assert (result.shadow.rules, result.shadow.refusing) == (("x",), ("x",))
    conflict = outcome(
        extend_table(adding_rule("schedulerName: ours", ", mode: shadow, onConflict: deny")), job
    )
    assert conflict.denials == ()
    assert conflict.shadow
    assert conflict.shadow.refusing == ("x",)


def test_a_rule_that_needs_a_rule_in_shadow_is_in_shadow_too() -> None:
    keys_of_rule = (
        "  - {name: second, reason: s, match: {role: worker}, needs: x, add: {spec: {subdomain: d}}}\n"
    )
    result = outcome(extend_table(adding_rule("hostname: h", ", mode: shadow") + keys_of_rule), mpijob())
    assert [state_and_reason(result, name) for name in ("x", "second")] == [
        (RuleState.SHADOWED, "r"),
        (RuleState.SHADOWED, "s"),
    ]


HOSTILE = "\x1b[2J\x9b1m\u202e\r\n\x7f"


@pytest.mark.parametrize(
    "job",
    [
        mpijob(annotations={keys.NODE_CONFIG: HOSTILE}),
        mpijob(annotations={keys.INJECT: HOSTILE}),
        mpijob(resource=None, worker_spec={"nodeSelector": HOSTILE}),
        mpijob(worker_spec={"volumes": [{"name": "v", HOSTILE: 1}], "nodeSelector": {LABEL: HOSTILE}}),
        mpijob(worker_spec={"schedulerName": HOSTILE}) | {"apiVersion": HOSTILE},
        put(mpijob(), (*WORKER, "metadata", "annotations"), {keys.PLACEMENT: HOSTILE}),
    ],
)
def test_no_message_contains_control_characters_for_a_terminal(job: Any) -> None:
    table = extend_table(adding_rule("schedulerName: ours, volumes: [{name: v, emptyDir: {}}]"))
    result = outcome(table, job)
    skipped = [rule.why for rule in result.rules]
    assert all(text.isprintable() for text in (result.reason, *result.warnings, *result.denials, *skipped))

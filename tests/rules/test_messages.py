"""Tests of the reasons, warnings and denials of outcomes, and of the reasons of skipped rules."""

from typing import Any

import pytest

from contract import keys
from contract.placement import MOST_WORKERS
from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import extend_table, outcome, remove_records
from webhook.engine import messages
from webhook.engine.messages import message
from webhook.engine.outcome import Outcome, Response, RuleState
from webhook.objects.messages import wrong_type
from webhook.objects.tree import get, put
from webhook.rows import messages as row_messages
from webhook.rules.load import load_default

NO_REQUEST = messages.no_device(keys.NEURON)
LIMITS = "containers[0].resources.limits"
TEMPLATE_PATH = "spec.mpiReplicaSpecs.Worker.template"
LABEL = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
INJECT_PATH = f"metadata.annotations[{keys.INJECT}]"
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")
RESOURCES = (*WORKER, "spec", "containers", 0, "resources")


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


@pytest.mark.parametrize(
    ("table", "obj", "reason"),
    [
        ("", {"apiVersion": "v1", "kind": "X"}, messages.no_workload("v1/X")),
        ("", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, messages.not_a_job("pod")),
        ("mode: off\n", mpijob(), messages.TABLE_OFF),
        ("", mpijob(annotations={keys.INJECT: "false"}), messages.OPTED_OUT),
        ("", put(mpijob(), ("metadata", "labels"), {keys.INJECT: "false"}), messages.OPTED_OUT),
        (
            "",
            put(mpijob(), RESOURCES, {"requests": {keys.NEURON: "1"}}),
            messages.wrong_amount("less", 16, keys.NEURON),
        ),
        ("", mpijob(annotations={keys.INJECT: "true"}, resource=None), messages.OPTED_IN),
        ("", mpijob(), messages.asks_for(keys.NEURON)),
        ("", mpijob(0), messages.no_workers("spec.mpiReplicaSpecs.Worker.replicas")),
        (
            "",
            {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 0, "template": {}}},
            messages.no_workers("spec.parallelism"),
        ),
        ("", mpijob(resource=GPU), NO_REQUEST),
        (
            "",
            put(mpijob(), RESOURCES, {"limits": {keys.NEURON: "sixteen"}}),
            messages.not_a_number(NO_REQUEST, f"{TEMPLATE_PATH}.spec.{LIMITS}[{keys.NEURON}]", '"sixteen"'),
        ),
        (
            "",
            mpijob(resource=None, worker_spec={"nodeSelector": {LABEL: "trn2u.48xlarge"}}),
            messages.selects_type("trn2u"),
        ),
    ],
)
def test_the_reason_of_an_outcome(table: str, obj: dict[str, Any], reason: str) -> None:
    result = outcome(extend_table(table), obj)
    assert (result.reason, result.revision) == (reason, extend_table(table).revision)


def test_a_job_without_workers_is_reported_with_the_path_of_the_template() -> None:
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert outcome(extend_table(""), job).reason == messages.no_worker_template(TEMPLATE_PATH)


@pytest.mark.parametrize("job", [mpijob(-1), mpijob(annotations={keys.INJECT: "yes"}), mpijob()])
def test_a_table_in_shadow_changes_nothing_and_reports_what_it_would_do(
    job: dict[str, Any],
) -> None:
    enforced, reported = (outcome(extend_table(text), job) for text in ("", "mode: shadow\n"))
    assert reported.reason == messages.table_reports("", enforced.reason)
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
            messages.invalid_opt_in(INJECT_PATH, '"yes"'),
        ),
        (
            mpijob(annotations={keys.INJECT: "x" * 99}),
            messages.invalid_opt_in(INJECT_PATH, f'"{"x" * 58}…'),
        ),
        *(
            (
                put(mpijob(), REPLICAS, number),
                messages.invalid_count("spec.mpiReplicaSpecs.Worker.replicas", text),
            )
            for number, text in ((-1, "-1"), (True, "true"), ("4", '"4"'), (4.5, "4.5"))
        ),
        (
            put(mpijob(), REPLICAS, MOST_WORKERS + 1),
            messages.too_many_workers(MOST_WORKERS + 1),
        ),
        (
            mpijob(worker_spec={"nodeSelector": [1]}),
            wrong_type(f"{TEMPLATE_PATH}.spec.nodeSelector", "a map", [1]),
        ),
        (
            mpijob(worker_spec={"initContainers": {}}),
            wrong_type(f"{TEMPLATE_PATH}.spec.initContainers", "a list", {}),
        ),
    ],
)
def test_an_invalid_job_is_denied_with_the_field_and_its_value(job: dict[str, Any], denial: str) -> None:
    table = extend_table(adding_rule("initContainers: [{name: i, image: i}]"))
    result = outcome(table, job)
    assert (result.revision, result.reason) == (table.revision, messages.INVALID_JOB)
    assert [(text.code, text) for text in result.denials] == [("invalid-job", denial)]


SIZES = "4 or a multiple of 4"
CONFIG_PATH = f"metadata.annotations[{keys.NODE_CONFIG}]"


@pytest.mark.parametrize(
    ("workers", "config", "denial"),
    [
        (4, "3", messages.invalid_config("4, 2, 1", CONFIG_PATH, '"3"')),
        (3, "4", messages.do_not_fit("3 workers do", 4, CONFIG_PATH, SIZES, "1")),
        (2, "4", messages.do_not_fit("2 workers do", 4, CONFIG_PATH, SIZES, "2 or 1")),
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
    variable = "env NEURON_ULTRASERVER_NODE_CONFIG of container 'mpitest'"
    assert outcome(load_default(), job).denials == (messages.invalid_config("4, 2, 1", variable, '"3"'),)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("family: nvl72", row_messages.other_family("trn2u", "nvl72")),
        ("shape: {nodeConfig: [1, 2]}", row_messages.other_shape("four-node", "nodeConfig", 4, "1 or 2")),
        ("shape: {name: two-node}", row_messages.other_shape("four-node", "name", "four-node", "two-node")),
        ("placer: whole-job", row_messages.other_placer("the scheduler", "whole-job admission")),
        ("devices: [claimed, none]", row_messages.other_devices("requested", "claimed or none")),
        ("numbered: false", row_messages.NUMBERED[True]),
        (f"requests: [{GPU}]", row_messages.requests_none("worker", GPU)),
        ("image: [a/*, b/*]", row_messages.no_image("worker", "a/* or b/*")),
        (
            "instanceType: Exists",
            row_messages.other_instance_type("worker", row_messages.NO_INSTANCE_TYPE, "Exists"),
        ),
        ("excludes: {zone: a, rack: b}", row_messages.not_excluded("worker", "zone or rack")),
        (
            "template: {/spec/schedulerName: a}",
            row_messages.other_value(row_messages.of_owner("spec.schedulerName", "worker"), '""', "a"),
        ),
        (f"unsupportedCount: {keys.NEURON}", row_messages.valid_count("worker")),
        ("workers: [3, 5 to 8]", row_messages.other_workers(4, "3 or 5 to 8")),
        ("labelSelector: {matchLabels: {team: a}}", row_messages.other_value("label team", "null", "In a")),
        (
            "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}",
            row_messages.other_value("label kubernetes.io/metadata.name", '"default"', "In a"),
        ),
        ("single: false", messages.several_templates(1, "worker")),
        ("labels: {team: [a, b]}", row_messages.other_value("label team", '""', "a or b")),
        (
            'annotations: {team: ["", b]}',
            row_messages.other_value("annotation team", '"c"', "DoesNotExist or b"),
        ),
        ("namespace: [a, b]", row_messages.other_value("the namespace", "default", "a or b")),
    ],
)
def test_a_skipped_rule_names_the_condition_that_failed(match: str, message: str) -> None:
    result = outcome(extend_table(rule(f"role: worker, {match}")), mpijob(annotations={"team": "c"}))
    assert state_and_reason(result) == (RuleState.SKIPPED, message)


def test_a_rule_with_a_condition_on_the_shape_is_skipped_for_a_pod() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {keys.JOB: "a"}}}
    result = outcome(extend_table(rule("role: any, shape: {name: two-node}")), pod)
    assert state_and_reason(result) == (RuleState.SKIPPED, row_messages.no_shape("pod"))


def test_a_skipped_rule_names_its_mode_or_the_rule_that_fired_instead() -> None:
    off = outcome(extend_table(rule(rest="warn: w, mode: off, deny: never")), mpijob())
    assert state_and_reason(off) == (RuleState.SKIPPED, messages.SWITCHED_OFF)
    assert (off.warnings, off.denials) == ((), ())
    first = "rules:\n  - {name: other, reason: r, match: {role: worker}, warn: w}\n"
    second = rule(rest="warn: w, unless: [other]").removeprefix("rules:\n")
    assert state_and_reason(outcome(extend_table(first + second), mpijob())) == (
        RuleState.SKIPPED,
        messages.fired_instead("other"),
    )


def test_a_rule_is_skipped_if_the_job_has_no_template_of_its_role() -> None:
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    result = outcome(extend_table(rule("role: launcher")), job)
    assert state_and_reason(result) == (RuleState.SKIPPED, messages.no_template("launcher"))


def test_a_rule_is_skipped_if_the_rule_that_it_needs_is_off() -> None:
    """The reason is known before the templates are read, unlike a reason about a kept value."""
    needing_rule = rule(rest="warn: w, needs: [first]").removeprefix("rules:\n")
    off_rule = rule(rest="warn: other, mode: off").replace("name: x", "name: first")
    result = outcome(extend_table(off_rule + needing_rule), mpijob())
    assert state_and_reason(result) == (RuleState.SKIPPED, messages.unmet_needs("first"))


def test_a_rule_is_skipped_if_an_earlier_rule_sets_the_placer() -> None:
    first = rule(rest="placer: kueue")
    second = rule(rest="placer: gang").replace("name: x", "name: second").removeprefix("rules:\n")
    result = outcome(extend_table(first + second), mpijob())
    assert state_and_reason(result) == (RuleState.FIRED, "r")
    assert state_and_reason(result, "second") == (RuleState.SKIPPED, messages.sets_placer("x"))


def with_texts(codes: list[str], difference: str) -> list[tuple[str, str]]:
    return [(code, message(code, difference)) for code in codes]


def test_a_rule_is_skipped_if_a_rule_that_it_needs_kept_a_value_of_the_job() -> None:
    second = "  - {name: other, reason: r, match: {role: worker}, warn: w, needs: [x]}\n"
    table = extend_table(adding_rule("schedulerName: ours") + second)
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    text = messages.unmet_needs("x")
    assert state_and_reason(outcome(table, job), "other") == (RuleState.SKIPPED, text)
    assert state_and_reason(outcome(table, mpijob()), "other") == (RuleState.FIRED, "r")


@pytest.mark.parametrize(
    ("keys_of_rule", "stored", "warnings", "denials"),
    [
        ("", "theirs", ["value-kept"], []),
        (", onConflict: keep", "theirs", ["value-kept"], []),
        (", onConflict: override", "ours", ["value-replaced"], []),
        (", onConflict: deny", None, [], ["value-refused"]),
        (", quiet: true", "theirs", [], []),
    ],
)
def test_a_conflict_is_reported_with_both_values_and_the_result(
    keys_of_rule: str, stored: str | None, warnings: list[str], denials: list[str]
) -> None:
    table = extend_table(adding_rule("schedulerName: ours, nodeSelector: {zone: a}", keys_of_rule))
    result = outcome(table, mpijob(worker_spec={"schedulerName": "theirs"}))
    difference = messages.values_differ(f"{TEMPLATE_PATH}.spec.schedulerName", '"theirs"', '"ours"')
    assert [(text.code, text) for text in result.warnings] == with_texts(warnings, difference)
    assert [(text.code, text) for text in result.denials] == with_texts(denials, difference)
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
    difference = messages.maps_differ(f"{TEMPLATE_PATH}.spec.volumes[v]", text)
    assert result.warnings == (message("value-kept", difference),)


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

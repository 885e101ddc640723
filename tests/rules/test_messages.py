"""What an outcome says to people, word for word: which field, what is there, what is wanted, the way out."""

from typing import Any

import pytest

from contract import keys
from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import extended, outcome, unrecorded
from webhook.engine.outcome import Outcome, RuleState, Verdict
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

WITHOUT = f"the workers request no {keys.NEURON}"
LIMITS = "containers[0].resources.limits"
AT = "spec.mpiReplicaSpecs.Worker.template"
LABEL = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
OPTING = 'use "true" to opt in, "false" to opt out, or remove it'
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")
RESOURCES = (*WORKER, "spec", "containers", 0, "resources")
COUNTED = "the number of workers must be a whole number, 0 or more"


def rule(match: str = "role: worker", rest: str = "warn: w") -> str:
    return f"rules:\n  - {{name: x, reason: r, match: {{{match}}}, {rest}}}\n"


def adding(fragment: str, more: str = "") -> str:
    return rule(rest=f"add: {{spec: {{{fragment}}}}}{more}")


def test_rows_for_other_kinds_or_roles_are_not_looked_at() -> None:
    others = "".join(
        f"  - {{name: r{number}, reason: r, match: {{{match}}}, warn: w}}\n"
        for number, match in enumerate(["workload: jobset, role: worker", "role: pod", "role: leader"])
    )
    result = outcome(extended("rules:\n" + others), mpijob())
    assert result.rules == outcome(extended(""), mpijob()).rules


def why(result: Outcome, name: str = "x") -> tuple[RuleState, str]:
    (row,) = [row for row in result.rules if row.name == name]
    return row.state, row.why


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
            f"its workers ask for less than the 16 {keys.NEURON} that a node has; {keys.INJECT} opts it in",
        ),
        ("", mpijob(annotations={keys.INJECT: "true"}, resource=None), f"opted in by {keys.INJECT}"),
        ("", mpijob(), "its workers ask for aws.amazon.com/neuron"),
        ("", mpijob(0), "the job has no workers: spec.mpiReplicaSpecs.Worker.replicas is missing or 0"),
        (
            "",
            {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 0, "template": {}}},
            "the job has no workers: spec.parallelism is missing or 0",
        ),
        ("", mpijob(resource=GPU), WITHOUT),
        (
            "",
            put(mpijob(), RESOURCES, {"limits": {keys.NEURON: "sixteen"}}),
            f'{WITHOUT}: {AT}.spec.{LIMITS}[{keys.NEURON}] is "sixteen"; write a number, such as 16',
        ),
        (
            "",
            mpijob(resource=None, worker_spec={"nodeSelector": {LABEL: "trn2u.48xlarge"}}),
            "its workers select an instance type of family trn2u",
        ),
    ],
)
def test_the_reason_of_an_outcome(table: str, obj: dict[str, Any], reason: str) -> None:
    result = outcome(extended(table), obj)
    assert (result.reason, result.revision) == (reason, extended(table).revision)


def test_a_job_without_workers_is_reported_with_the_path_of_the_template() -> None:
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert outcome(extended(""), job).reason == f"the job has no worker template: there is none at {AT}"


@pytest.mark.parametrize("job", [mpijob(-1), mpijob(annotations={keys.INJECT: "yes"}), mpijob()])
def test_a_table_in_shadow_changes_nothing_and_reports_what_it_would_do(
    job: dict[str, Any],
) -> None:
    enforced, reported = (outcome(extended(text), job) for text in ("", "mode: shadow\n"))
    assert reported.reason == f"the whole rule table only reports; {enforced.reason}"
    assert (reported.after, reported.operations, reported.warnings, reported.denials) == (job, (), (), ())
    assert (reported.fired(RuleState.SHADOWED), reported.fired()) == (enforced.fired(), ())
    assert reported.enforced
    assert reported.enforced.denials == enforced.denials
    assert reported.enforced.fired() == enforced.fired()


@pytest.mark.parametrize(
    ("job", "denial"),
    [
        (mpijob(annotations={keys.INJECT: "yes"}), f'{OPTING}: metadata.annotations[{keys.INJECT}] is "yes"'),
        (
            mpijob(annotations={keys.INJECT: "x" * 99}),
            f'{OPTING}: metadata.annotations[{keys.INJECT}] is "{"x" * 58}…',
        ),
        *(
            (put(mpijob(), REPLICAS, number), f"{COUNTED}: spec.mpiReplicaSpecs.Worker.replicas is {text}")
            for number, text in ((-1, "-1"), (True, "true"), ("4", '"4"'), (4.5, "4.5"))
        ),
        (mpijob(worker_spec={"nodeSelector": [1]}), f"{AT}.spec.nodeSelector must be a map, not [1]"),
        (mpijob(worker_spec={"initContainers": {}}), f"{AT}.spec.initContainers must be a list, not {{}}"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_with_the_field_and_its_value(
    job: dict[str, Any], denial: str
) -> None:
    table = extended(adding("initContainers: [{name: i, image: i}]"))
    result = outcome(table, job)
    assert (result.revision, result.reason, result.denials) == (table.revision, "invalid job", (denial,))


CHANGED = "it takes 4 or a multiple of 4 workers; change the number of workers, or use node config"
CONFIGURED = f"metadata.annotations[{keys.NODE_CONFIG}]"


@pytest.mark.parametrize(
    ("workers", "config", "denial"),
    [
        (4, "3", f'the node config must be one of 4, 2, 1: {CONFIGURED} is "3"'),
        (3, "4", f"3 workers do not fit node config 4 of {CONFIGURED}: {CHANGED} 1"),
        (2, "4", f"2 workers do not fit node config 4 of {CONFIGURED}: {CHANGED} 2 or 1"),
    ],
)
def test_a_node_config_that_does_not_fit_is_denied_with_those_that_fit(
    workers: int, config: str, denial: str
) -> None:
    job = mpijob(workers, annotations={keys.NODE_CONFIG: config})
    assert outcome(load_default(), job).denials == (denial,)


def test_a_node_config_in_a_containers_environment_counts_and_is_named() -> None:
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
    result = outcome(extended(rule(match)), mpijob(annotations={"team": "c"}))
    assert why(result) == (RuleState.SKIPPED, message)


def test_a_skipped_rule_names_its_mode_or_the_rule_that_fired_instead() -> None:
    off = outcome(extended(rule(rest="warn: w, mode: off, deny: never")), mpijob())
    assert why(off) == (RuleState.SKIPPED, "switched off")
    assert (off.warnings, off.denials) == ((), ())
    first = "rules:\n  - {name: other, reason: r, match: {role: worker}, warn: w}\n"
    second = rule(rest="warn: w, unless: [other]").removeprefix("rules:\n")
    assert why(outcome(extended(first + second), mpijob())) == (RuleState.SKIPPED, "other fired instead")


def test_a_rule_that_needs_another_one_is_skipped_if_that_kept_a_value() -> None:
    second = "  - {name: other, reason: r, match: {role: worker}, warn: w, needs: [x]}\n"
    table = extended(adding("schedulerName: ours") + second)
    theirs = mpijob(worker_spec={"schedulerName": "theirs"})
    text = "x did not fire, or the job kept a value of its own"
    assert why(outcome(table, theirs), "other") == (RuleState.SKIPPED, text)
    assert why(outcome(table, mpijob()), "other") == (RuleState.FIRED, "r")


@pytest.mark.parametrize(
    ("more", "stored", "warnings", "denials"),
    [
        ("", "theirs", ['kept your value: {} is "theirs", not "ours"'], []),
        (", onConflict: keep", "theirs", ['kept your value: {} is "theirs", not "ours"'], []),
        (", onConflict: override", "ours", ['replaced your value: {} is "theirs", not "ours"'], []),
        (", onConflict: deny", None, [], ['{} is "theirs", not "ours"; remove your value, or opt out']),
        (", quiet: true", "theirs", [], []),
    ],
)
def test_a_conflict_is_reported_with_both_values_and_the_result(
    more: str, stored: str | None, warnings: list[str], denials: list[str]
) -> None:
    table = extended(adding("schedulerName: ours, nodeSelector: {zone: a}", more))
    result = outcome(table, mpijob(worker_spec={"schedulerName": "theirs"}))
    place = f"{AT}.spec.schedulerName"
    assert list(result.warnings) == [text.format(place) for text in warnings]
    assert list(result.denials) == [text.format(place) for text in denials]
    if stored:  # and what else the rule adds is there
        spec = get(result.after, (*WORKER, "spec"))
        assert (spec["schedulerName"], spec["nodeSelector"]["zone"]) == (stored, "a")
    else:
        assert result.operations == ()
    alike = outcome(table, mpijob(worker_spec={"schedulerName": "ours"}))
    assert (alike.warnings, alike.denials) == ((), ())


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "emptyDir, k0"),
        (9, "emptyDir, k0, k1, k2, k3, k4, k5, k6, k7, k8"),
        (10, "emptyDir, k0, k1, k2, k3, k4, k5, k6, k7, k8 and 1 more"),
    ],
)
def test_a_warning_about_different_maps_has_their_first_ten_keys(count: int, text: str) -> None:
    theirs = {"name": "v"} | {f"k{number}": 1 for number in range(count)}
    job = mpijob(worker_spec={"volumes": [theirs]})
    result = outcome(extended(adding("volumes: [{name: v, emptyDir: {}}]")), job)
    assert result.warnings == (f"kept your value: {AT}.spec.volumes[v] differs from the webhook's in {text}",)


def test_a_rule_in_shadow_changes_nothing_and_reports_what_it_would_do() -> None:
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    shadow = ", mode: shadow, warn: careful, deny: never"
    result = outcome(extended(adding("hostname: h", shadow)), job)
    assert why(result) == (RuleState.SHADOWED, "r")
    assert (result.denials, result.warnings, result.verdict) == ((), (), Verdict.ALLOWED)
    assert unrecorded(result.after) == unrecorded(outcome(load_default(), job).after)
    assert result.enforced
    assert get(result.enforced.after, (*WORKER, "spec")) is get(job, (*WORKER, "spec"))  # it would be refused
    assert (result.enforced.denials, result.enforced.warnings) == (("never",), ("careful",))
    assert result.shadow
    assert (result.shadow.rules, result.shadow.refusing) == (("x",), ("x",))
    conflict = outcome(extended(adding("schedulerName: ours", ", mode: shadow, onConflict: deny")), job)
    assert conflict.denials == ()
    assert conflict.shadow
    assert conflict.shadow.refusing == ("x",)


def test_a_rule_that_needs_one_in_shadow_is_in_shadow_too() -> None:
    more = "  - {name: second, reason: s, match: {role: worker}, needs: x, add: {spec: {subdomain: d}}}\n"
    result = outcome(extended(adding("hostname: h", ", mode: shadow") + more), mpijob())
    assert [why(result, name) for name in ("x", "second")] == [
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
        put(mpijob(), (*WORKER, "metadata", "annotations"), {keys.PLACE: HOSTILE}),
    ],
)
def test_no_message_commands_the_terminal_that_it_is_shown_on(job: Any) -> None:
    table = extended(adding("schedulerName: ours, volumes: [{name: v, emptyDir: {}}]"))
    result = outcome(table, job)
    skipped = [rule.why for rule in result.rules]
    assert all(text.isprintable() for text in (result.reason, *result.warnings, *result.denials, *skipped))

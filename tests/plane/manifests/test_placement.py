"""Tests of whole-job admission in the chart: its rights, arguments, rows, and the value that removes it."""

import copy
from collections.abc import Callable
from urllib.parse import urlsplit

import yaml

from contract import keys
from placement.__main__ import main
from placement.observe.inventory import READERS
from testbed import chart
from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import find_object, pod_specs

NAME = "ultraserver-placement"
ROWS = "30-placement.yaml"


def test_every_program_prefers_nodes_outside_ultraservers(defaults: Rendered) -> None:
    """Without this preference, the scheduler placed two programs on UltraServer nodes first."""
    specs = pod_specs(defaults)
    assert {*specs} == {
        "ultraserver-webhook",
        "ultraserver-webhook-certs",
        "ultraserver-webhook-preview",
        NAME,
    }
    for spec in specs.values():
        (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (term,) = preferred["preference"]["matchExpressions"]
        assert (term["key"], term["operator"]) == ("node.kubernetes.io/instance-type", "NotIn")
        assert set(term["values"]) == {"trn2u.48xlarge", "ml.trn2u.48xlarge"}


def test_two_replicas_run_the_image_of_the_certificate_program(defaults: Rendered) -> None:
    (container,) = pod_specs(defaults)[NAME]["containers"]
    (other,) = pod_specs(defaults)["ultraserver-webhook-certs"]["containers"]
    assert container["image"] == other["image"]
    assert find_object(defaults, "Deployment", NAME)["spec"]["replicas"] == 2


def test_previews_reach_the_placement_program_if_both_run_and_the_value_fit_is_set(
    defaults: Rendered, render: Callable[..., Rendered]
) -> None:
    preview, metrics = "ultraserver-webhook-preview", [{"port": "metrics"}]
    both = render(fit=True)
    arguments = pod_specs(both)[preview]["containers"][0]["args"]
    (argument,) = (value for value in arguments if "--fit" in value)
    service = find_object(both, "Service", NAME)
    url = urlsplit(argument.removeprefix("--fit="))
    assert f"{service['metadata']['name']}.{service['metadata']['namespace']}" == url.hostname
    assert service["spec"]["ports"][0]["port"] == url.port
    assert "--answers" in pod_specs(both)[NAME]["containers"][0]["args"]
    assert find_object(both, "NetworkPolicy", preview)["spec"]["egress"][0]["ports"] == metrics
    assert find_object(both, "NetworkPolicy", NAME)["spec"]["ingress"][0]["ports"] == metrics
    for objects in (defaults, render(fit=True, preview=False), render(fit=True, placement=False)):
        assert not any(item["kind"] == "Service" and item["metadata"]["name"] == NAME for item in objects)
        specs = pod_specs(objects).values()
        arguments = [value for spec in specs for value in spec["containers"][0].get("args", ())]
        assert not [value for value in arguments if "--fit" in value or value == "--answers"]
        for policy in (item["spec"] for item in objects if item["kind"] == "NetworkPolicy"):
            assert {"port": 53} not in [port for rule in policy.get("egress", ()) for port in rule["ports"]]


def test_the_program_may_read_nodes_pods_and_claims_change_pods_create_events_and_nothing_else(
    defaults: Rendered,
) -> None:
    rules = find_object(defaults, "ClusterRole", NAME)["rules"]
    claims = [path.rpartition("/")[2] for path in READERS]
    assert {(*rule["resources"], *rule["verbs"]) for rule in rules} == {
        ("nodes", "list", "watch"),
        ("pods", "get", "list", "watch", "patch", "delete"),
        (*claims, "list", "watch"),
        ("events", "create"),
    }
    policy = find_object(defaults, "ValidatingAdmissionPolicy", "ultraserver-webhook-guard-pods")
    text = policy["spec"]["matchConditions"][0]["expression"]
    for value in (f"system:serviceaccount:ultraserver-webhook:{NAME}", keys.GATE, keys.OPENED):
        assert value in text


def test_the_program_accepts_every_argument_of_its_manifest(defaults: Rendered) -> None:
    options = {name for parameter in main.commands["run"].params for name in parameter.opts}
    (container,) = pod_specs(defaults)[NAME]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= options


def test_the_table_is_the_installations_file_and_the_rows_of_whole_job_admission(defaults: Rendered) -> None:
    files = find_object(defaults, "ConfigMap", "ultraserver-webhook-rules")["data"]
    own = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))["table"]
    assert files == {ROWS: (chart.RULES / ROWS).read_text(encoding="utf-8"), "rules.yaml": own}


def test_the_value_placement_false_removes_only_whole_job_admission(
    defaults: Rendered, render: Callable[..., Rendered]
) -> None:
    label = "app.kubernetes.io/component"
    rest = [item for item in copy.deepcopy(defaults) if item["metadata"]["labels"].get(label) != "placement"]
    del find_object(rest, "ConfigMap", "ultraserver-webhook-rules")["data"][ROWS]
    without = render(placement=False)
    # The guard's conditions about claims do not require the gate either.
    gated = f"size() > 0 && {{'name': '{keys.GATE}'}} in object.spec.?schedulingGates.orValue([])"
    guard = find_object(rest, "ValidatingAdmissionPolicy", "ultraserver-webhook-guard-pods")["spec"]
    for part in (*guard["matchConditions"], *guard["variables"]):
        part["expression"] = part["expression"].replace(gated, "size() > 0")
    assert [*without] == rest
    policies = "ValidatingAdmissionPolicy"  # they limit the account as long as it exists
    assert NAME not in str([item for item in without if item["kind"] != policies])
    assert keys.GATE not in str([item for item in without if item["kind"] == "ConfigMap"])

"""Whole-job admission as it is installed: what its pods may do, its rows, and how it is taken out."""

import copy
from collections.abc import Callable
from urllib.parse import urlsplit

import yaml

from contract import keys
from placement.__main__ import main
from placement.observe.inventory import READERS
from testbed import chart
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import one, pod_specs

NAME = "ultraserver-placement"
ROWS = "30-placement.yaml"


def test_every_program_leaves_ultraserver_nodes_to_jobs_where_there_are_others(base: Build) -> None:
    """On real nodes, two programs that said nothing of it were put there first."""
    specs = pod_specs(base)
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


def test_two_replicas_run_the_image_of_the_certificate_program(base: Build) -> None:
    (container,) = pod_specs(base)[NAME]["containers"]
    (other,) = pod_specs(base)["ultraserver-webhook-certs"]["containers"]
    assert container["image"] == other["image"]
    assert one(base, "Deployment", NAME)["spec"]["replicas"] == 2


def test_previews_reach_the_program_if_both_run_and_the_value_fit_is_set(
    base: Build, built: Callable[..., Build]
) -> None:
    preview, metrics = "ultraserver-webhook-preview", [{"port": "metrics"}]
    both = built(fit=True)
    (argument,) = (each for each in pod_specs(both)[preview]["containers"][0]["args"] if "--fit" in each)
    service = one(both, "Service", NAME)
    url = urlsplit(argument.removeprefix("--fit="))
    assert f"{service['metadata']['name']}.{service['metadata']['namespace']}" == url.hostname
    assert service["spec"]["ports"][0]["port"] == url.port
    assert "--answers" in pod_specs(both)[NAME]["containers"][0]["args"]
    assert one(both, "NetworkPolicy", preview)["spec"]["egress"][0]["ports"] == metrics
    assert one(both, "NetworkPolicy", NAME)["spec"]["ingress"][0]["ports"] == metrics
    for build in (base, built(fit=True, preview=False), built(fit=True, placement=False)):
        assert not any(of["kind"] == "Service" and of["metadata"]["name"] == NAME for of in build)
        specs = pod_specs(build).values()
        arguments = [each for spec in specs for each in spec["containers"][0].get("args", ())]
        assert not [each for each in arguments if "--fit" in each or each == "--answers"]
        for policy in (each["spec"] for each in build if each["kind"] == "NetworkPolicy"):
            assert {"port": 53} not in [port for rule in policy.get("egress", ()) for port in rule["ports"]]


def test_it_may_see_nodes_pods_and_claims_change_pods_and_write_events_and_nothing_else(base: Build) -> None:
    rules = one(base, "ClusterRole", NAME)["rules"]
    claims = [path.rpartition("/")[2] for path in READERS]
    assert {(*rule["resources"], *rule["verbs"]) for rule in rules} == {
        ("nodes", "list", "watch"),
        ("pods", "get", "list", "watch", "patch", "delete"),
        (*claims, "list", "watch"),
        ("events", "create"),
    }
    policy = one(base, "ValidatingAdmissionPolicy", "ultraserver-webhook-guard-pods")
    text = policy["spec"]["matchConditions"][0]["expression"]
    for named in (f"system:serviceaccount:ultraserver-webhook:{NAME}", keys.GATE, keys.OPENED):
        assert named in text


def test_the_program_accepts_every_argument_of_its_manifest(base: Build) -> None:
    known = {name for parameter in main.commands["run"].params for name in parameter.opts}
    (container,) = pod_specs(base)[NAME]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= known


def test_the_table_is_the_installations_file_and_the_rows_of_whole_job_admission(base: Build) -> None:
    files = one(base, "ConfigMap", "ultraserver-webhook-rules")["data"]
    own = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))["table"]
    assert files == {ROWS: (chart.RULES / ROWS).read_text(encoding="utf-8"), "rules.yaml": own}


def test_the_value_that_takes_it_out_takes_nothing_else(base: Build, built: Callable[..., Build]) -> None:
    label = "app.kubernetes.io/component"
    rest = [item for item in copy.deepcopy(base) if item["metadata"]["labels"].get(label) != "placement"]
    del one(rest, "ConfigMap", "ultraserver-webhook-rules")["data"][ROWS]
    without = built(placement=False)
    # Nor does the guard ask for the gate behind which claims are looked at.
    gated = f"size() > 0 && {{'name': '{keys.GATE}'}} in object.spec.?schedulingGates.orValue([])"
    guard = one(rest, "ValidatingAdmissionPolicy", "ultraserver-webhook-guard-pods")["spec"]
    for part in (*guard["matchConditions"], *guard["variables"]):
        part["expression"] = part["expression"].replace(gated, "size() > 0")
    assert [*without] == rest
    policies = "ValidatingAdmissionPolicy"  # they bound the account for as long as it is there
    assert NAME not in str([item for item in without if item["kind"] != policies])
    assert keys.GATE not in str([item for item in without if item["kind"] == "ConfigMap"])

"""Tests of the chart's values: the recommended sets, invalid values, and what each value changes."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed import chart
from tests.docs.blocks import anchors
from tests.helpers import load_text, metric_registries
from tests.plane.guard.people import TABLE
from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import find_object, of_kind, pod_specs, units_in_pod_guard, webhooks
from tests.rules.tables import EXTENDS
from webhook.rows.policies import Mode
from webhook.rules.load import load_default, load_texts

RULES = "ultraserver-webhook-rules"
PEM = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
PROVIDED = {"certificates": "provided", "provided": dict.fromkeys(("crt", "key", "ca"), PEM)}
EXTERNAL_CERTIFICATES = {"certManager": {"certificates": "certManager"}, "provided": PROVIDED}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "opt-in with missed jobs": ({"optIn": True, "missedJobs": True}, "set one of them to false"),
    "optInKinds without optIn": (
        {"optInKinds": True, "kinds": ["all"]},
        "set optIn: true and kinds, or optInKinds: false",
    ),
    "optInKinds without kinds": ({"optInKinds": True, "optIn": True}, "set optIn: true and kinds"),
    "a provided certificate without its key": (
        PROVIDED | {"provided": {"crt": PEM, "ca": PEM}},
        "has no provided.key: add --set-file provided.key=FILE",
    ),
    "a provided certificate that is not used": (
        {"provided": {"crt": PEM}},
        "certificates: provided, or remove it",
    ),
    "a minimum of replicas above the maximum": (
        {"replicas": {"min": 7}},
        "replicas.max 6: raise the maximum",
    ),
    "one replica with failurePolicy Fail": (
        {"replicas": {"min": 1}, "failurePolicy": "Fail"},
        "set replicas.min to 2 or more",
    ),
    "a table without an apiVersion": (
        {"table": "rules: []"},
        "begins with `apiVersion: ultraserver-webhook.io/v1alpha2`",
    ),
    "a table with a family that is not a map": (
        {"table": EXTENDS + "families: [{name: a}, b]\n"},
        "its families, and their units, are lists of maps",
    ),
    "a table with a unit whose label is not a text": (
        {"table": EXTENDS + "families: [{name: a, units: [{label: b}, {label: {a: b}}]}]\n"},
        "its families, and their units, are lists of maps",
    ),
    "a table whose units are not a list": (
        {"table": EXTENDS + "families: [{name: a, units: rack}]\n"},
        "its families, and their units, are lists of maps",
    ),
    "a unit whose label has a quote": ({"units": ["a'b"]}, "/units/0"),
    "a table with a quote in a unit's label": (
        {"table": EXTENDS + "families: [{name: a, units: [{label: a'b}]}]\n"},
        "units' labels and resources are names such as example.com/rack",
    ),
    "a table with a quote in a resource": (
        {"table": EXTENDS + "families: [{name: a, wholeNode: {a'b: 1}}]\n"},
        "units' labels and resources are names such as example.com/rack",
    ),
    "a family that is always on": (
        {"families": {"trn2u": "example.com/rack"}},
        "families: trn2u: the value switches on the packaged families trn3-gen1, trn3-gen2, nvl72;",
    ),
    "a table in the format of 0.2.0": (
        {"table": EXTENDS.replace("v1alpha2", "v1alpha1")},
        "`rules convert FILE` writes a table of 0.2.0 in this form",
    ),
    "the kind that is always sent": ({"kinds": ["mpijobs.v2beta1.kubeflow.org"]}, "always sent"),
    "a kind without a version": (
        {"kinds": ["jobs.batch"]},
        "kinds: jobs.batch: write RESOURCE.VERSION.GROUP",
    ),
    "a misspelled value": ({"optin": True}, "additional properties 'optin' not allowed"),
    "replicas of the program that the autoscaler scales": (
        {"programs": {"serving": {"replicas": 3}}},
        "/programs/serving",
    ),
    "an unknown value of guard": ({"guard": "maybe"}, "/guard"),
    "the default scheduler": ({"neuronScheduler": "default-scheduler"}, "leave the value out"),
    "an image's name with a tag": (
        {"image": {"serving": {"repository": "a:1"}}},
        "/image/serving/repository",
    ),
    "guard without a value": ({"guard": None}, "missing property 'guard'"),
    "a program without values": ({"programs": {"placement": None}}, "missing property 'placement'"),
    "an invalid digest": ({"image": {"serving": {"digest": "sha256:1"}}}, "/image/serving/digest"),
}


def identities(objects: Rendered) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


@pytest.mark.usefixtures("helm")
def test_install_yaml_is_the_chart_with_the_default_values() -> None:
    committed = chart.INSTALL.read_text(encoding="utf-8")
    assert committed == chart.render(), "run python -m testbed.chart"


@pytest.mark.usefixtures("helm")
def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    command = [chart.helm(), "lint", "--strict", "--namespace", chart.NAME, chart.CHART]
    completed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in completed.stdout


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(("values", "text"), REFUSED.values(), ids=REFUSED)
def test_invalid_values_are_refused_with_the_remedy(values: dict[str, Any], text: str) -> None:
    with pytest.raises(chart.ChartError, match=re.escape(text)):
        chart.render(values)


@pytest.mark.usefixtures("helm")
def test_another_namespace_is_refused() -> None:
    command = [chart.helm(), "template", chart.NAME, chart.CHART, "--namespace", "elsewhere"]
    completed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "add --namespace ultraserver-webhook --create-namespace" in completed.stderr


@pytest.mark.parametrize("name", chart.RECOMMENDED)
def test_a_recommended_set_has_the_deployment_and_the_webhooks_of_the_default(
    name: str, render: Callable[..., Rendered]
) -> None:
    objects = render(**chart.RECOMMENDED[name])
    assert find_object(objects, "Deployment") == find_object(render(), "Deployment")
    prefixes_by_set = {
        "kinds": ("kinds",),
        "neuron-scheduler": ("bare-pods",),
        "opt-in": ("asked", "verify-asked"),
    }
    prefixes = prefixes_by_set.get(name, ("none",))
    added_hooks = {hook for hook in webhooks(objects) if hook.startswith(prefixes)}
    assert set(webhooks(objects)) == set(webhooks(render())) | added_hooks
    assert len(identities(objects)) == len(objects)


def test_values_set_images_pod_fields_and_programs(render: Callable[..., Rendered]) -> None:
    digest = "sha256:" + "a" * 64
    env = {"name": "ULTRASERVER_CERTS_INTERVAL_SECONDS", "value": "1"}
    toleration = {"key": "reserved", "operator": "Exists"}
    image = {"registry": "registry.example.com/team", "tag": "9", "pullSecrets": ["mine"]}
    objects = render(
        image=image | {"serving": {"digest": digest}},
        programs={"certificates": {"env": [env]}, "placement": {"replicas": 3}},
        replicas={"min": 3},
        priorityClassName="",
        nodeSelector={"pool": "system"},
        tolerations=[toleration],
    )
    specs = pod_specs(objects)
    for spec in specs.values():
        assert spec["nodeSelector"] == {"pool": "system"}
        assert spec["imagePullSecrets"] == [{"name": "mine"}]
        assert toleration in spec["tolerations"]
        assert "priorityClassName" not in spec
    assert len(specs["ultraserver-webhook"]["tolerations"]) == 3
    images = {name: spec["containers"][0]["image"] for name, spec in specs.items()}
    assert images["ultraserver-webhook"] == f"registry.example.com/team/ultraserver-webhook:9@{digest}"
    other_images = {images["ultraserver-webhook-certs"], images["ultraserver-placement"]}
    assert other_images == {"registry.example.com/team/ultraserver-webhook-controllers:9"}
    assert env in specs["ultraserver-webhook-certs"]["containers"][0]["env"]
    assert find_object(objects, "Deployment", "ultraserver-placement")["spec"]["replicas"] == 3
    assert find_object(objects, "HorizontalPodAutoscaler")["spec"]["minReplicas"] == 3


def test_the_guard_has_the_units_of_the_table(render: Callable[..., Rendered], defaults: Rendered) -> None:
    data = find_object(render(table=TABLE), "ConfigMap", RULES)["data"]
    result, packaged = (
        {unit.label for row in table.enabled_families for unit in row.units}
        for table in (load_text(data["rules.yaml"], "own"), load_default())
    )
    (before, *_) = units_in_pod_guard(defaults)
    assert units_in_pod_guard(render(table=TABLE)) == [before | result - packaged] * 2
    off = render(table=EXTENDS + "mode: 'off'\n", units=["example.com/rack"])
    assert units_in_pod_guard(off) == [before | {"example.com/rack"}] * 2


def test_the_value_families_enables_families_with_their_unit_labels(render: Callable[..., Rendered]) -> None:
    labels = {"nvl72": "topology.k8s.aws/ultraserver-id", "trn3-gen1": "example.com/gen1", "trn3-gen2": "a/b"}
    objects = render(families=labels, kinds=["jobs.v1.batch"])
    data = find_object(objects, "ConfigMap", RULES)["data"]
    table = load_text(data["05-families.yaml"], "families")
    result = {family.name: family.units[0] for family in table.enabled_families[1:]}
    assert {name: unit.label for name, unit in result.items()} == labels
    assert [(unit.nodes, unit.capacity) for unit in result.values()] == [(4, 4), (36, 36), (18, 16)]
    assert units_in_pod_guard(objects)[0] > set(labels.values())
    spec = pod_specs(objects)["ultraserver-webhook"]
    (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (selected,) = preferred["preference"]["matchExpressions"]
    assert selected["values"] == [name for family in table.enabled_families for name in family.instance_types]
    conditions = webhooks(objects)["kinds-jobs.ultraserver-webhook.io"]["matchConditions"]
    assert "|| name in ['nvidia.com/gpu']" in conditions[-1]["expression"]


def test_a_row_of_the_table_enables_a_family_like_the_value_families(render: Callable[..., Rendered]) -> None:
    row = "{name: nvl72, mode: MODE, units: [{label: nvidia.com/gpu.clique}]}"
    table = EXTENDS + f"families: [{row}]\n"
    label = {"nvl72": "nvidia.com/gpu.clique"}
    result, expected, off = (
        render(**values)
        for values in (
            {"table": table.replace("MODE", "enforce")},
            {"families": label},
            {"table": table.replace("MODE", "off")},
        )
    )
    assert "nvidia.com/gpu'" not in str(of_kind(off, "ValidatingAdmissionPolicy"))
    for kind in ("ValidatingAdmissionPolicy", "Deployment", "MutatingWebhookConfiguration"):
        assert of_kind(result, kind) == of_kind(expected, kind)


@pytest.mark.parametrize("name", ["families", "units"])
def test_a_value_that_is_null_is_empty(name: str, render: Callable[..., Rendered]) -> None:
    assert render(**{name: None}) == render()


def test_claim_templates_are_in_the_namespaces_that_the_value_names(render: Callable[..., Rendered]) -> None:
    objects = of_kind(render(claims=["team-a", "team-b"]), "ResourceClaimTemplate")
    places = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in objects}
    names = [*(f"us-{mode}-node-config" for mode in (1, 2, 4)), "us-and-lnc-config"]
    assert places == {(team, name) for team in ("team-a", "team-b") for name in names}


def test_the_chart_has_a_namespace_only_with_the_value_create_namespace(
    render: Callable[..., Rendered],
) -> None:
    assert identities(render()) - identities(render(createNamespace=False)) == {("Namespace", chart.NAME)}


def test_the_value_neuron_scheduler_adds_rows_to_the_table(
    render: Callable[..., Rendered],
) -> None:
    config = find_object(render(pods=True, neuronScheduler="theirs"), "ConfigMap", RULES)
    text, _ = (config["data"].pop(name) for name in ("30-neuron-scheduler.yaml", "20-pods.yaml"))
    assert config == find_object(render(), "ConfigMap", RULES)
    table = load_text(text, "neuron-scheduler")
    (rule,) = [rule for rule in table.rules if rule.name == "neuron-scheduler"]
    assert rule.add == {"spec": {"schedulerName": "theirs"}}


def test_the_value_kueue_level_sets_the_level_and_the_warning_about_pairs(
    render: Callable[..., Rendered],
) -> None:
    level = "topology.k8s.aws/ultraserver-id"
    data = find_object(render(kueue=True, kueueLevel=level), "ConfigMap", RULES)["data"]
    assert find_object(render(kueue=True), "ConfigMap", RULES)["data"].keys() == data.keys() - {
        "16-kueue-level.yaml"
    }
    assert "16-kueue-level.yaml" not in find_object(render(kueueLevel=level), "ConfigMap", RULES)["data"]
    rules = {rule.name: rule for rule in load_texts([*data.items()], "level").rules}
    annotations = rules["kueue-blocks"].add["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/podset-slice-required-topology"] == level
    assert rules["kueue-level-above-pairs"].mode is Mode.ENFORCE
    assert level in str(rules["kueue-level-above-pairs"].warn)


def test_the_default_table_has_the_rules_of_the_packaged_table(defaults: Rendered) -> None:
    table = load_text(find_object(defaults, "ConfigMap", RULES)["data"]["rules.yaml"], "base")
    assert table.rules == load_default().rules


def test_the_value_hyperpod_puts_the_prefixed_instance_type_first(render: Callable[..., Rendered]) -> None:
    config = find_object(render(hyperpod=True), "ConfigMap", RULES)
    assert config["metadata"]["labels"]["ultraserver-webhook.io/rules"] == "true"
    assert sorted(config["data"]) == ["10-hyperpod.yaml", "30-placement.yaml", "rules.yaml"]
    table = load_texts([*config["data"].items()], "hyperpod")
    assert table.enabled_families[0].instance_types[0] == "ml.trn2u.48xlarge"


@pytest.mark.parametrize("values", EXTERNAL_CERTIFICATES.values(), ids=EXTERNAL_CERTIFICATES)
def test_an_external_certificate_adds_a_secret_and_no_writer_of_the_programs_secrets(
    values: dict[str, Any], render: Callable[..., Rendered]
) -> None:
    objects, defaults = render(**values), render()
    assert all(item in objects for item in defaults)
    added_kinds = {kind for kind, _ in identities(objects) - identities(defaults)}
    assert added_kinds <= {"Secret", "Certificate", "Issuer"}
    programs_secrets = ("ultraserver-webhook-tls", "ultraserver-webhook-ca")
    assert not any(
        name in str(item) for name in programs_secrets for item in objects if item["kind"] in added_kinds
    )


def test_cert_manager_issues_the_provided_certificate_for_the_services_name(
    render: Callable[..., Rendered],
) -> None:
    leaf = find_object(render(certificates="certManager"), "Certificate")
    assert leaf["spec"]["secretName"] == "ultraserver-webhook-provided"
    assert "ultraserver-webhook.ultraserver-webhook.svc" in leaf["spec"]["dnsNames"]


def test_the_files_of_a_user_become_the_provided_certificate(
    render: Callable[..., Rendered], own_certificate: Path
) -> None:
    files = {name: (own_certificate / name).read_text("utf-8") for name in ("tls.crt", "tls.key", "ca.crt")}
    provided = {"crt": files["tls.crt"], "key": files["tls.key"], "ca": files["ca.crt"]}
    secret = find_object(
        render(certificates="provided", provided=provided), "Secret", "ultraserver-webhook-provided"
    )
    assert secret["type"] == "kubernetes.io/tls"
    assert {name: base64.b64decode(text).decode() for name, text in secret["data"].items()} == files


def test_no_manifest_sets_a_ca_bundle(render: Callable[..., Rendered]) -> None:
    for values in chart.RECOMMENDED.values():
        for hook in webhooks(render(**values)).values():
            assert "caBundle" not in hook["clientConfig"]


def test_the_programs_export_every_metric_of_an_alert(
    render: Callable[..., Rendered], tmp_path: Path
) -> None:
    (rule,) = of_kind(render(monitoring={"enabled": True}), "PrometheusRule")
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    metrics = {name for alert in alerts for name in re.findall(r"ultraserver_\w+", alert["expr"])}
    assert metrics <= exported_samples(tmp_path)
    kinds = {alert["alert"] for alert in alerts}
    assert {"UltraserverWebhookCertificateEnds", "UltraserverWebhookTableStale"} <= kinds
    assert {"UltraserverWebhookFails", "UltraserverWebhookSlow"} <= kinds
    # The rule table has every rule that an alert names.
    config = find_object(render(), "ConfigMap", RULES)["data"]
    rows = {rule.name for rule in load_texts([*config.items()], "base").rules}
    assert {row for alert in alerts for row in re.findall(r'rule="([^"]+)"', alert["expr"])} <= rows


def test_without_placement_no_alert_is_about_stalls_evictions_or_waiting_jobs(
    render: Callable[..., Rendered],
) -> None:
    def alerts(**values: Any) -> set[str]:
        (rule,) = of_kind(render(monitoring={"enabled": True}, **values), "PrometheusRule")
        return {alert["alert"] for group in rule["spec"]["groups"] for alert in group["rules"]}

    about_placement = {f"UltraserverPlacement{name}" for name in ("Stalled", "Evicts", "JobWaits")}
    assert alerts(placement="drain") == alerts()
    assert alerts() - alerts(placement=False) == about_placement


def exported_samples(folder: Path) -> set[str]:
    """Returns the names of all samples that the three programs can export."""
    names: set[str] = set()
    for metric in (metric for registry in metric_registries(folder) for metric in registry.collect()):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.type, ("",))
        names |= {metric.name + ending for ending in endings}
    return names


def test_the_runbook_of_every_alert_is_a_heading_of_a_document(render: Callable[..., Rendered]) -> None:
    (rule,) = of_kind(render(monitoring={"enabled": True}), "PrometheusRule")
    for alert in (alert for group in rule["spec"]["groups"] for alert in group["rules"]):
        page, _, heading = alert["annotations"]["runbook_url"].partition("#")
        assert heading in anchors(f"docs/{page.removeprefix('https://ultraserver-webhook.io/docs/')}")


def test_the_service_monitor_finds_the_metrics_ports(render: Callable[..., Rendered]) -> None:
    objects = render(monitoring={"enabled": True})
    service = find_object(objects, "Service", "ultraserver-webhook-metrics")
    (monitor,) = of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    for deployment in of_kind(objects, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if deployment["metadata"]["name"] == "ultraserver-webhook-preview":
            assert ports.keys() == {"http"}, "the preview service has no metrics"
            continue
        assert f"--metrics-port={ports['metrics']}" in container["args"]

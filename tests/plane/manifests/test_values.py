"""Every recommended set of values, and what contradicts itself."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs import development
from certs.metrics import Metrics as CertificateMetrics
from placement.act.metrics import Metrics as PlacementMetrics
from testbed import chart
from tests.docs.blocks import anchors
from tests.helpers import load_text
from tests.plane.guard.people import TABLE
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import of_kind, one, pod_specs, units_of_pods, webhooks
from tests.rules.tables import EXTENDS
from webhook.metrics import Metrics
from webhook.rows.policies import Mode
from webhook.rules.load import load_default, load_texts
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState

RULES = "ultraserver-webhook-rules"
PEM = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
PROVIDED = {"certificates": "provided", "provided": dict.fromkeys(("crt", "key", "ca"), PEM)}
FROM_ELSEWHERE = {"certManager": {"certificates": "certManager"}, "provided": PROVIDED}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "opt-in with missed jobs": ({"optIn": True, "missedJobs": True}, "set one of them to false"),
    "narrowed kinds without opt-in": (
        {"optInKinds": True, "kinds": ["all"]},
        "set optIn: true and kinds, or optInKinds: false",
    ),
    "narrowed kinds without kinds": ({"optInKinds": True, "optIn": True}, "set optIn: true and kinds"),
    "a certificate of one's own without its key": (
        PROVIDED | {"provided": {"crt": PEM, "ca": PEM}},
        "has no provided.key: add --set-file provided.key=FILE",
    ),
    "a certificate that nothing uses": ({"provided": {"crt": PEM}}, "certificates: provided, or remove it"),
    "more replicas than at most": ({"replicas": {"min": 7}}, "replicas.max 6: raise the maximum"),
    "one replica that all jobs need": (
        {"replicas": {"min": 1}, "failurePolicy": "Fail"},
        "set replicas.min to 2 or more",
    ),
    "a table that is none": (
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
    "a unit whose label would end a text in CEL": ({"units": ["a'b"]}, "/units/0"),
    "a table with such a label": (
        {"table": EXTENDS + "families: [{name: a, units: [{label: a'b}]}]\n"},
        "units' labels and resources are names such as example.com/rack",
    ),
    "a table with such a resource": (
        {"table": EXTENDS + "families: [{name: a, wholeNode: {a'b: 1}}]\n"},
        "units' labels and resources are names such as example.com/rack",
    ),
    "a family that is always on": (
        {"families": {"trn2u": "example.com/rack"}},
        "families: trn2u: the value switches on the packaged families trn3-gen1, trn3-gen2, nvl72;",
    ),
    "a table of 0.2.0": (
        {"table": EXTENDS.replace("v1alpha2", "v1alpha1")},
        "`rules convert FILE` writes a table of 0.2.0 in this form",
    ),
    "the kind that is always sent": ({"kinds": ["mpijobs.v2beta1.kubeflow.org"]}, "always sent"),
    "a kind without a version": (
        {"kinds": ["jobs.batch"]},
        "kinds: jobs.batch: write RESOURCE.VERSION.GROUP",
    ),
    "a value that is misspelt": ({"optin": True}, "additional properties 'optin' not allowed"),
    "replicas and the autoscaler": ({"programs": {"serving": {"replicas": 3}}}, "/programs/serving"),
    "a guard that is neither": ({"guard": "maybe"}, "/guard"),
    "the scheduler that there is anyway": ({"neuronScheduler": "default-scheduler"}, "leave the value out"),
    "an image's name with a tag": (
        {"image": {"serving": {"repository": "a:1"}}},
        "/image/serving/repository",
    ),
    "a guard that is left empty": ({"guard": None}, "missing property 'guard'"),
    "programs of which one is taken out": ({"programs": {"placement": None}}, "missing property 'placement'"),
    "a digest that is none": ({"image": {"serving": {"digest": "sha256:1"}}}, "/image/serving/digest"),
}


def identities(objects: Build) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


@pytest.mark.usefixtures("helm")
def test_what_is_applied_without_helm_is_the_default() -> None:
    committed = chart.INSTALL.read_text(encoding="utf-8")
    assert committed == chart.rendered(), "python -m testbed.chart writes it"


@pytest.mark.usefixtures("helm")
def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    command = [chart.helm(), "lint", "--strict", "--namespace", chart.NAME, chart.CHART]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(("values", "text"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_itself_is_refused_with_the_way_out(values: dict[str, Any], text: str) -> None:
    with pytest.raises(chart.ChartError, match=re.escape(text)):
        chart.rendered(values)


@pytest.mark.usefixtures("helm")
def test_another_namespace_is_refused() -> None:
    command = [chart.helm(), "template", chart.NAME, chart.CHART, "--namespace", "elsewhere"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "add --namespace ultraserver-webhook --create-namespace" in done.stderr


@pytest.mark.parametrize("name", chart.RECOMMENDED)
def test_a_recommended_set_serves_as_the_default_does(name: str, built: Callable[..., Build]) -> None:
    objects = built(**chart.RECOMMENDED[name])
    assert one(objects, "Deployment") == one(built(), "Deployment")
    added = {"kinds": ("kinds",), "neuron-scheduler": ("bare-pods",), "opt-in": ("asked", "verify-asked")}
    beginning = added.get(name, ("none",))
    more = {hook for hook in webhooks(objects) if hook.startswith(beginning)}
    assert set(webhooks(objects)) == set(webhooks(built())) | more
    assert len(identities(objects)) == len(objects)


def test_images_pods_and_programs_are_as_the_values_say(built: Callable[..., Build]) -> None:
    digest = "sha256:" + "a" * 64
    env = {"name": "ULTRASERVER_CERTS_INTERVAL_SECONDS", "value": "1"}
    toleration = {"key": "reserved", "operator": "Exists"}
    image = {"registry": "registry.example.com/team", "tag": "9", "pullSecrets": ["mine"]}
    objects = built(
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
    others = {images["ultraserver-webhook-certs"], images["ultraserver-placement"]}
    assert others == {"registry.example.com/team/ultraserver-webhook-controllers:9"}
    assert env in specs["ultraserver-webhook-certs"]["containers"][0]["env"]
    assert one(objects, "Deployment", "ultraserver-placement")["spec"]["replicas"] == 3
    assert one(objects, "HorizontalPodAutoscaler")["spec"]["minReplicas"] == 3


def test_the_guard_has_the_units_of_the_table(built: Callable[..., Build], base: Build) -> None:
    data = one(built(table=TABLE), "ConfigMap", RULES)["data"]
    result, packaged = (
        {unit.label for row in table.enabled_families for unit in row.units}
        for table in (load_text(data["rules.yaml"], "own"), load_default())
    )
    (before, *_) = units_of_pods(base)
    assert units_of_pods(built(table=TABLE)) == [before | result - packaged] * 2
    off = built(table=EXTENDS + "mode: 'off'\n", units=["example.com/rack"])
    assert units_of_pods(off) == [before | {"example.com/rack"}] * 2


def test_a_value_switches_families_on_with_the_labels_of_their_units(built: Callable[..., Build]) -> None:
    labels = {"nvl72": "topology.k8s.aws/ultraserver-id", "trn3-gen1": "example.com/gen1", "trn3-gen2": "a/b"}
    objects = built(families=labels, kinds=["jobs.v1.batch"])
    data = one(objects, "ConfigMap", RULES)["data"]
    table = load_text(data["05-families.yaml"], "families")
    result = {family.name: family.units[0] for family in table.enabled_families[1:]}
    assert {name: unit.label for name, unit in result.items()} == labels
    assert [(unit.nodes, unit.capacity) for unit in result.values()] == [(4, 4), (36, 36), (18, 16)]
    assert units_of_pods(objects)[0] > set(labels.values())
    spec = pod_specs(objects)["ultraserver-webhook"]
    (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (selected,) = preferred["preference"]["matchExpressions"]
    assert selected["values"] == [name for family in table.enabled_families for name in family.instance_types]
    sent = webhooks(objects)["kinds-jobs.ultraserver-webhook.io"]["matchConditions"]
    assert "|| name in ['nvidia.com/gpu']" in sent[-1]["expression"]


def test_a_row_of_the_table_switches_a_family_on_as_the_value_does(built: Callable[..., Build]) -> None:
    row = "{name: nvl72, mode: MODE, units: [{label: nvidia.com/gpu.clique}]}"
    table = EXTENDS + f"families: [{row}]\n"
    label = {"nvl72": "nvidia.com/gpu.clique"}
    result, wanted, off = (
        built(**values)
        for values in (
            {"table": table.replace("MODE", "enforce")},
            {"families": label},
            {"table": table.replace("MODE", "off")},
        )
    )
    assert "nvidia.com/gpu'" not in str(of_kind(off, "ValidatingAdmissionPolicy"))
    for kind in ("ValidatingAdmissionPolicy", "Deployment", "MutatingWebhookConfiguration"):
        assert of_kind(result, kind) == of_kind(wanted, kind)


@pytest.mark.parametrize("name", ["families", "units"])
def test_a_value_that_is_null_is_empty(name: str, built: Callable[..., Build]) -> None:
    assert built(**{name: None}) == built()


def test_claim_templates_come_to_the_namespaces_that_are_named(built: Callable[..., Build]) -> None:
    objects = of_kind(built(claims=["team-a", "team-b"]), "ResourceClaimTemplate")
    places = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in objects}
    known = [*(f"us-{mode}-node-config" for mode in (1, 2, 4)), "us-and-lnc-config"]
    assert places == {(team, name) for team in ("team-a", "team-b") for name in known}


def test_without_its_value_the_namespace_is_helms_to_make(built: Callable[..., Build]) -> None:
    assert identities(built()) - identities(built(createNamespace=False)) == {("Namespace", chart.NAME)}


def test_the_neuron_scheduler_is_a_second_table_of_an_installation(
    built: Callable[..., Build],
) -> None:
    config = one(built(pods=True, neuronScheduler="theirs"), "ConfigMap", RULES)
    text, _ = (config["data"].pop(name) for name in ("30-neuron-scheduler.yaml", "20-pods.yaml"))
    assert config == one(built(), "ConfigMap", RULES)
    table = load_text(text, "neuron-scheduler")
    (rule,) = [rule for rule in table.rules if rule.name == "neuron-scheduler"]
    assert rule.add == {"spec": {"schedulerName": "theirs"}}


def test_the_level_of_kueue_is_a_value_and_a_warning_about_pairs(built: Callable[..., Build]) -> None:
    level = "topology.k8s.aws/ultraserver-id"
    data = one(built(kueue=True, kueueLevel=level), "ConfigMap", RULES)["data"]
    assert one(built(kueue=True), "ConfigMap", RULES)["data"].keys() == data.keys() - {"16-kueue-level.yaml"}
    assert "16-kueue-level.yaml" not in one(built(kueueLevel=level), "ConfigMap", RULES)["data"]
    rules = {rule.name: rule for rule in load_texts([*data.items()], "level").rules}
    marks = rules["kueue-blocks"].add["metadata"]["annotations"]
    assert marks["kueue.x-k8s.io/podset-slice-required-topology"] == level
    assert rules["kueue-level-above-pairs"].mode is Mode.ENFORCE
    assert level in str(rules["kueue-level-above-pairs"].warn)


def test_the_defaults_table_is_the_packaged_one(base: Build) -> None:
    table = load_text(one(base, "ConfigMap", RULES)["data"]["rules.yaml"], "base")
    assert table.rules == load_default().rules


def test_on_hyperpod_the_prefixed_instance_type_is_the_first(built: Callable[..., Build]) -> None:
    config = one(built(hyperpod=True), "ConfigMap", RULES)
    assert config["metadata"]["labels"]["ultraserver-webhook.io/rules"] == "true"
    assert sorted(config["data"]) == ["10-hyperpod.yaml", "30-placement.yaml", "rules.yaml"]
    table = load_texts([*config["data"].items()], "hyperpod")
    assert table.enabled_families[0].instance_types[0] == "ml.trn2u.48xlarge"


@pytest.mark.parametrize("values", FROM_ELSEWHERE.values(), ids=FROM_ELSEWHERE)
def test_a_certificate_from_elsewhere_is_one_more_secret_and_no_other_writer(
    values: dict[str, Any], built: Callable[..., Build]
) -> None:
    objects, base = built(**values), built()
    assert all(item in objects for item in base)
    more = {kind for kind, _ in identities(objects) - identities(base)}
    assert more <= {"Secret", "Certificate", "Issuer"}
    written = ("ultraserver-webhook-tls", "ultraserver-webhook-ca")
    assert not any(name in str(item) for name in written for item in objects if item["kind"] in more)


def test_cert_manager_keeps_the_provided_certificate_for_the_services_name(
    built: Callable[..., Build],
) -> None:
    leaf = one(built(certificates="certManager"), "Certificate")
    assert leaf["spec"]["secretName"] == "ultraserver-webhook-provided"
    assert "ultraserver-webhook.ultraserver-webhook.svc" in leaf["spec"]["dnsNames"]


def test_ones_own_files_become_the_provided_certificate(built: Callable[..., Build], own: Path) -> None:
    files = {name: (own / name).read_text("utf-8") for name in ("tls.crt", "tls.key", "ca.crt")}
    provided = {"crt": files["tls.crt"], "key": files["tls.key"], "ca": files["ca.crt"]}
    secret = one(built(certificates="provided", provided=provided), "Secret", "ultraserver-webhook-provided")
    assert secret["type"] == "kubernetes.io/tls"
    assert {name: base64.b64decode(text).decode() for name, text in secret["data"].items()} == files


def test_no_manifest_sets_a_ca_bundle(built: Callable[..., Build]) -> None:
    for values in chart.RECOMMENDED.values():
        for hook in webhooks(built(**values)).values():
            assert "caBundle" not in hook["clientConfig"]


def test_every_metric_of_an_alert_is_one_that_is_exported(
    built: Callable[..., Build], tmp_path: Path
) -> None:
    (rule,) = of_kind(built(monitoring={"enabled": True}), "PrometheusRule")
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    named = {name for alert in alerts for name in re.findall(r"ultraserver_\w+", alert["expr"])}
    assert named <= exported(tmp_path)
    kinds = {alert["alert"] for alert in alerts}
    assert {"UltraserverWebhookCertificateEnds", "UltraserverWebhookTableStale"} <= kinds
    assert {"UltraserverWebhookFails", "UltraserverWebhookSlow"} <= kinds
    # A row by the name in an alert is one that the installation has.
    config = one(built(), "ConfigMap", RULES)["data"]
    rows = {rule.name for rule in load_texts([*config.items()], "base").rules}
    assert {row for alert in alerts for row in re.findall(r'rule="([^"]+)"', alert["expr"])} <= rows


def test_a_program_that_was_taken_out_has_not_stalled(built: Callable[..., Build]) -> None:
    def alerts(**values: Any) -> set[str]:
        (rule,) = of_kind(built(monitoring={"enabled": True}, **values), "PrometheusRule")
        return {alert["alert"] for group in rule["spec"]["groups"] for alert in group["rules"]}

    gone = {f"UltraserverPlacement{what}" for what in ("Stalled", "GivesUp", "JobWaits")}
    assert alerts(placement="drain") == alerts()
    assert alerts() - alerts(placement=False) == gone


def exported(folder: Path) -> set[str]:
    """Returns the names of all samples that a program can have."""
    names: set[str] = set()
    development.make(folder, ["localhost"], datetime.now(UTC))
    state = CurrentState(TableSource(), TlsFiles(folder / "tls.crt", folder / "tls.key"))
    webhook = Metrics(state)
    registries = (webhook.registry, CertificateMetrics().registry, PlacementMetrics().registry)
    for metric in (metric for registry in registries for metric in registry.collect()):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.type, ("",))
        names |= {metric.name + ending for ending in endings}
    return names | {metric.name for metric in webhook.collect()}


def test_every_alert_leads_to_a_heading_of_the_document(built: Callable[..., Build]) -> None:
    (rule,) = of_kind(built(monitoring={"enabled": True}), "PrometheusRule")
    for alert in (alert for group in rule["spec"]["groups"] for alert in group["rules"]):
        page, _, heading = alert["annotations"]["runbook_url"].partition("#")
        assert heading in anchors(f"docs/{page.removeprefix('https://ultraserver-webhook.io/docs/')}")


def test_the_monitor_finds_the_metrics_ports(built: Callable[..., Build]) -> None:
    objects = built(monitoring={"enabled": True})
    service = one(objects, "Service", "ultraserver-webhook-metrics")
    (monitor,) = of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    for deployment in of_kind(objects, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if deployment["metadata"]["name"] == "ultraserver-webhook-preview":
            assert ports.keys() == {"http"}, "previews are not measured"
            continue
        assert f"--metrics-port={ports['metrics']}" in container["args"]

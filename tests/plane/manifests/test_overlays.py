"""Every overlay builds, and is the base but for what its name says."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import development
from certs.metrics import Metrics as CertificateMetrics
from placement.metrics import Metrics as PlacementMetrics
from tests.docs.blocks import REPOSITORY, text_of
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import of_kind, one, webhooks
from webhook.metrics import Metrics
from webhook.rules.load import load_default, load_text, load_texts
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState

OVERLAYS = sorted(path.name for path in (REPOSITORY / "manifests" / "overlays").iterdir())
FROM_ELSEWHERE = ("cert-manager", "bring-your-own-certificate")


def identities(objects: Build) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_builds_and_serves_as_the_base_does(overlay: str, built: Callable[[str], Build]) -> None:
    objects = built(f"overlays/{overlay}")
    assert one(objects, "Deployment") == one(built("base"), "Deployment")
    added = {"kinds": ("kinds",), "neuron-scheduler": ("bare-pods",), "opt-in": ("asked", "verify-asked")}
    beginning = added.get(overlay, ("none",))
    more = {name for name in webhooks(objects) if name.startswith(beginning)}
    assert set(webhooks(objects)) == set(webhooks(built("base"))) | more
    assert len(identities(objects)) == len(objects)


def test_the_neuron_scheduler_is_a_table_of_its_own_beside_the_installations(
    built: Callable[[str], Build],
) -> None:
    config = one(built("overlays/neuron-scheduler"), "ConfigMap", "ultraserver-webhook-rules")
    base = one(built("base"), "ConfigMap", "ultraserver-webhook-rules")
    text, _ = (config["data"].pop(name) for name in ("30-neuron-scheduler.yaml", "20-pods.yaml"))
    assert config == base
    (rule,) = [rule for rule in load_text(text, "component").rules if rule.name == "neuron-scheduler"]
    assert rule.add == {"spec": {"schedulerName": "my-scheduler"}}


def test_the_bases_table_is_the_packaged_one(base: Build) -> None:
    table = load_text(one(base, "ConfigMap", "ultraserver-webhook-rules")["data"]["rules.yaml"], "base")
    assert table.rules == load_default().rules


def test_on_hyperpod_the_prefixed_instance_type_is_the_first(built: Callable[[str], Build]) -> None:
    config = one(built("overlays/hyperpod"), "ConfigMap", "ultraserver-webhook-rules")
    assert config["metadata"]["labels"]["ultraserver-webhook.io/rules"] == "true"
    assert [*config["data"]] == ["10-hyperpod.yaml", "30-placement.yaml", "rules.yaml"]
    table = load_texts([*config["data"].items()], "hyperpod")
    assert table.candidates.instance_types[0] == "ml.trn2u.48xlarge"


@pytest.mark.parametrize("overlay", FROM_ELSEWHERE)
def test_a_certificate_from_elsewhere_is_one_more_secret_and_no_other_writer(
    overlay: str, built: Callable[[str], Build]
) -> None:
    objects, base = built(f"overlays/{overlay}"), built("base")
    assert all(item in objects for item in base)
    more = {kind for kind, _ in identities(objects) - identities(base)}
    assert more <= {"Secret", "Certificate", "Issuer"}
    written = ("ultraserver-webhook-tls", "ultraserver-webhook-ca")
    assert not any(name in str(item) for name in written for item in objects if item["kind"] in more)


def test_cert_manager_keeps_the_provided_certificate_for_the_services_name(
    built: Callable[[str], Build],
) -> None:
    leaf = one(built("overlays/cert-manager"), "Certificate")
    assert leaf["spec"]["secretName"] == "ultraserver-webhook-provided"
    assert "ultraserver-webhook.ultraserver-webhook.svc" in leaf["spec"]["dnsNames"]


def test_ones_own_files_become_the_provided_certificate(built: Callable[[str], Build], tree: Path) -> None:
    folder = tree / "components" / "bring-your-own-certificate"
    secret = one(built("overlays/bring-your-own-certificate"), "Secret", "ultraserver-webhook-provided")
    assert secret["type"] == "kubernetes.io/tls"
    files = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    assert files == {name: (folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")}


def test_no_manifest_sets_a_ca_bundle(built: Callable[[str], Build]) -> None:
    for overlay in OVERLAYS:
        for hook in webhooks(built(f"overlays/{overlay}")).values():
            assert "caBundle" not in hook["clientConfig"]


def test_every_metric_of_an_alert_is_one_that_is_exported(
    built: Callable[[str], Build], tmp_path: Path
) -> None:
    (rule,) = of_kind(built("overlays/monitoring"), "PrometheusRule")
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    named = {name for alert in alerts for name in re.findall(r"ultraserver_\w+", alert["expr"])}
    assert named <= exported(tmp_path)
    kinds = {alert["alert"] for alert in alerts}
    assert {"UltraserverWebhookCertificateEnds", "UltraserverWebhookTableStale"} <= kinds
    assert {"UltraserverWebhookFails", "UltraserverWebhookSlow"} <= kinds
    # A row by the name in an alert is one that the installation has.
    config = one(built("base"), "ConfigMap", "ultraserver-webhook-rules")["data"]
    rows = {rule.name for rule in load_texts([*config.items()], "base").rules}
    assert {row for alert in alerts for row in re.findall(r'rule="([^"]+)"', alert["expr"])} <= rows


def exported(folder: Path) -> set[str]:
    """The names of all samples that a program can have."""
    names: set[str] = set()
    development.ensure(folder, ["localhost"], datetime.now(UTC))
    state = CurrentState(TableSource(), TlsFiles(folder / "tls.crt", folder / "tls.key"))
    webhook = Metrics(state)
    registries = (webhook.registry, CertificateMetrics().registry, PlacementMetrics().registry)
    for metric in (metric for registry in registries for metric in registry.collect()):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.type, ("",))
        names |= {metric.name + ending for ending in endings}
    return names | {metric.name for metric in webhook.collect()}


def test_every_alert_leads_to_a_heading_of_the_document(built: Callable[[str], Build]) -> None:
    (rule,) = of_kind(built("overlays/monitoring"), "PrometheusRule")
    for alert in (alert for group in rule["spec"]["groups"] for alert in group["rules"]):
        document, _, heading = alert["annotations"]["runbook"].partition(": ")
        assert f"## {heading}\n" in text_of(document)


def test_the_monitor_finds_the_metrics_ports(built: Callable[[str], Build]) -> None:
    objects = built("overlays/monitoring")
    service = one(objects, "Service", "ultraserver-webhook-metrics")
    (monitor,) = of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    for deployment in of_kind(objects, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert f"--metrics-port={ports['metrics']}" in container["args"]

"""Every overlay builds, and is the base but for what its name says."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from certs.metrics import Metrics as CertificateMetrics
from tests.docs.blocks import REPOSITORY, text_of
from tests.manifests.objects import of_kind, one, webhooks
from webhook.metrics import Metrics, StateCollector
from webhook.rules.load import load_default, load_text
from webhook.serving.tls import TlsStatus
from webhook.watched import WatchStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.manifests.conftest import Build

OVERLAYS = sorted(path.name for path in (REPOSITORY / "manifests" / "overlays").iterdir())
TABLES = sorted((REPOSITORY / "manifests").rglob("rules.yaml"))
FROM_ELSEWHERE = ("cert-manager", "bring-your-own-certificate")


def identities(objects: Build) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_builds_and_serves_as_the_base_does(overlay: str, built: Callable[[str], Build]) -> None:
    objects = built(f"overlays/{overlay}")
    assert one(objects, "Deployment") == one(built("base"), "Deployment")
    assert set(webhooks(objects)) == set(webhooks(built("base")))
    assert len(identities(objects)) == len(objects)


@pytest.mark.parametrize("overlay", [*FROM_ELSEWHERE, "hyperpod", "monitoring", "guard", "failclosed"])
def test_the_document_says_what_an_overlay_is_for(overlay: str) -> None:
    assert f"| `{overlay}` |" in text_of("docs/install.md")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.parent.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules


def test_the_bases_table_is_the_packaged_one(base: Build) -> None:
    table = load_text(one(base, "ConfigMap", "ultraserver-webhook-rules")["data"]["rules.yaml"], "base")
    assert table.rules == load_default().rules


def test_on_hyperpod_the_prefixed_instance_type_is_the_first(built: Callable[[str], Build]) -> None:
    config = one(built("overlays/hyperpod"), "ConfigMap", "ultraserver-webhook-rules")
    assert config["metadata"]["labels"]["ultraserver-webhook.io/rules"] == "true"
    table = load_text(config["data"]["rules.yaml"], "hyperpod")
    assert table.candidates.instance_types[0] == "ml.trn2u.48xlarge"


@pytest.mark.parametrize("overlay", FROM_ELSEWHERE)
def test_with_a_certificate_from_elsewhere_nothing_of_the_program_is_left(
    overlay: str, built: Callable[[str], Build]
) -> None:
    objects = built(f"overlays/{overlay}")
    gone = identities(built("base")) - identities(objects)
    assert {name for _, name in gone} == {"ultraserver-webhook-certs"}
    assert not of_kind(objects, "ClusterRole")


def test_cert_manager_issues_for_the_services_name_and_injects_the_authority(
    built: Callable[[str], Build],
) -> None:
    objects = built("overlays/cert-manager")
    leaf = one(objects, "Certificate")
    assert leaf["spec"]["secretName"] == "ultraserver-webhook-tls"
    assert "ultraserver-webhook.ultraserver-webhook.svc" in leaf["spec"]["dnsNames"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = one(objects, kind)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "ultraserver-webhook/ultraserver-webhook"}


def test_ones_own_authority_becomes_the_ca_bundle_of_every_webhook(
    built: Callable[[str], Build], tree: Path
) -> None:
    objects = built("overlays/bring-your-own-certificate")
    own = (tree / "components" / "bring-your-own-certificate" / "ca.crt").read_bytes()
    bundles = {hook["clientConfig"]["caBundle"] for hook in webhooks(objects).values()}
    assert {base64.b64decode(bundle) for bundle in bundles} == {own}
    assert one(objects, "Secret", "ultraserver-webhook-tls")["type"] == "kubernetes.io/tls"


def test_every_metric_of_an_alert_is_one_that_is_exported(built: Callable[[str], Build]) -> None:
    (rule,) = of_kind(built("overlays/monitoring"), "PrometheusRule")
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    named = {name for alert in alerts for name in re.findall(r"ultraserver_\w+", alert["expr"])}
    assert named <= exported()
    kinds = {alert["alert"] for alert in alerts}
    assert {"UltraserverWebhookCertificateEnds", "UltraserverWebhookTableStale"} <= kinds
    assert {"UltraserverWebhookFails", "UltraserverWebhookSlow"} <= kinds


def exported() -> set[str]:
    """The names of all samples that either program can have."""
    names: set[str] = set()
    registries = (Metrics().registry, CertificateMetrics().registry)
    for metric in (metric for registry in registries for metric in registry.collect()):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.type, ("",))
        names |= {metric.name + ending for ending in endings}
    tls = TlsStatus(datetime.now(UTC), 0, 0, "")
    state = StateCollector(lambda: "0", lambda: WatchStatus(0, 0, ""), lambda: tls)
    return names | {metric.name for metric in state.collect()}


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

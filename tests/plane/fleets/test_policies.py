"""Tests of policies on the real API server: an exemption that ends, shadow mode, and a denial."""

import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import to_json
from testbed.plane.kubectl import Kubectl, KubectlError
from testbed.plane.process import free_ports
from testbed.waiting import until
from webhook.objects.tree import get

LABEL = {"policies.example/asks": "yes"}
SECONDS = 15
"""The duration of the exemption: longer than the start of a webhook takes."""

TABLE = """
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
rules:
  - {{name: large, reason: r, match: {{role: worker, workers: {{atLeast: 16}}}}, deny: too large}}
  - {{name: named, reason: r, match: {{role: worker}}, mode: shadow, add: {{spec: {{hostname: host}}}}}}
policies:
  - {{namespaces: pol-exempt, mode: off, until: {until}, reason: They move.}}
  - {{namespaces: pol-shadow, mode: shadow, reason: They look first.}}
"""


@pytest.mark.limit(45, "an exemption of fifteen seconds ends")
def test_policies_have_the_same_effect_on_reviews_metrics_log_and_preview(
    plane: ControlPlane, tmp_path: Path
) -> None:
    namespaces = {
        name: plane.kubectl.create_namespace(f"pol-{name}", LABEL) for name in ("exempt", "shadow", "all")
    }
    ends = time.time() + SECONDS
    table = tmp_path / "table.yaml"
    table.write_text(TABLE.format(until=f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%dT%H:%M:%SZ}"))
    (port,) = free_ports(1)
    options = ["--metrics-port", str(port)]
    running = webhook.start(plane.programs, tmp_path / "webhook", table, "policies", options)
    document = webhook.configuration(running, "policies", {"matchLabels": LABEL})
    with webhook.register(namespaces["all"], document):
        assert time.time() < ends, "the webhook took as long as the exemption"
        assert not is_changed(namespaces["exempt"])
        assert not is_changed(namespaces["shadow"])
        assert is_changed(namespaces["all"])
        with pytest.raises(KubectlError, match="denied the request: too large"):
            dry_run(namespaces["all"], 16)
        dry_run(namespaces["shadow"], 16)
        until(lambda: is_changed(namespaces["exempt"]), "the end of the exemption", SECONDS + 5)
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    for sample in (
        'shadow_reviews_total{response="denied"} 1.0',
        'shadow_rules_total{rule="large",state="refused"} 1.0',
        "policies_ended 1.0",
    ):
        assert f"ultraserver_webhook_{sample}" in metrics
    assert "would be refused: too large" in running.program.log.read_text(encoding="utf-8")
    job = to_json(mpijob(16, namespace="pol-shadow"))
    command = [sys.executable, "-m", "webhook", "preview", "--rules", str(table)]
    preview = subprocess.run(command, input=job, capture_output=True, text=True, check=False)
    assert "shadow   would be refused: too large" in preview.stderr
    assert "policy   They look first." in preview.stderr


def dry_run(inside: Kubectl, workers: int) -> object:
    return inside.create(mpijob(workers), "--dry-run=server")


def is_changed(inside: Kubectl) -> bool:
    """Returns whether the webhook changes a new job. The rule in shadow mode must never change it."""
    job = dry_run(inside, 4)
    assert get(job, (*WORKER, "spec", "hostname")) is None
    return get(job, (*LAUNCHER, "metadata", "annotations", keys.ADDED)) is not None

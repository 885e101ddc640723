"""Two policies, an exemption that ends, a rule in shadow and a refusal, on the real API server."""

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
from testbed.plane.jobs import text
from testbed.plane.kubectl import Kubectl, KubectlError
from testbed.plane.process import free_ports
from testbed.waiting import until
from webhook.objects.tree import get

LABEL = {"policies.example/asks": "yes"}
SECONDS = 15
"""How long the exemption lasts: longer than a webhook takes to start."""

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
def test_policies_are_enforced_counted_logged_and_previewed_alike(
    plane: ControlPlane, tmp_path: Path
) -> None:
    made = {
        name: plane.kubectl.create_namespace(f"pol-{name}", LABEL) for name in ("exempt", "shadow", "all")
    }
    ends = time.time() + SECONDS
    table = tmp_path / "table.yaml"
    table.write_text(TABLE.format(until=f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%dT%H:%M:%SZ}"))
    (port,) = free_ports(1)
    more = ["--metrics-port", str(port)]
    running = webhook.start(plane.programs, tmp_path / "webhook", table, "policies", more)
    document = webhook.configuration(running, "policies", {"matchLabels": LABEL})
    with webhook.registered(made["all"], document):
        assert time.time() < ends, "the webhook took as long as the exemption"
        assert not added(made["exempt"])
        assert not added(made["shadow"])
        assert added(made["all"])
        with pytest.raises(KubectlError, match="denied the request: too large"):
            created(made["all"], 16)
        created(made["shadow"], 16)
        until(lambda: added(made["exempt"]), "the end of the exemption", SECONDS + 5)
        counted = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    for sample in (
        'shadow_reviews_total{verdict="denied"} 1.0',
        'shadow_rules_total{rule="large",state="refused"} 1.0',
        "policies_ended 1.0",
    ):
        assert f"ultraserver_webhook_{sample}" in counted
    assert "would be refused: too large" in running.program.log.read_text(encoding="utf-8")
    job = text(mpijob(16, namespace="pol-shadow"))
    command = [sys.executable, "-m", "webhook", "preview", "--rules", str(table)]
    shown = subprocess.run(command, input=job, capture_output=True, text=True, check=False)
    assert "shadow   would be refused: too large" in shown.stderr
    assert "policy   They look first." in shown.stderr


def created(inside: Kubectl, workers: int) -> object:
    return inside.create(mpijob(workers), "--dry-run=server")


def added(inside: Kubectl) -> bool:
    """Returns whether a new job gets what the table adds; never what is in shadow."""
    job = created(inside, 4)
    assert get(job, (*WORKER, "spec", "hostname")) is None
    return get(job, (*LAUNCHER, "metadata", "annotations", keys.ADDED)) is not None

"""Each alert of the chart, evaluated by promtool: it fires for one history, and not for another."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import of_kind

WEBHOOK, PLACEMENT, CERTS = "ultraserver_webhook", "ultraserver_placement", "ultraserver_certs"
EXPIRY, UNTIL = f"{WEBHOOK}_certificate_expiry_timestamp_seconds", f"{WEBHOOK}_policy_until_timestamp_seconds"
TABLE, BUCKET = f"{WEBHOOK}_table_info", f"{WEBHOOK}_review_seconds_bucket"
REJECTED = "apiserver_admission_webhook_rejection_count"
OPEN = "apiserver_admission_webhook_fail_open_count"
OURS = 'name="mpijobs.ultraserver-webhook.io"'
FIRED = f'{WEBHOOK}_rules_fired_total{{rule="whole-job-workers"}}'
LAST, SUCCESS = f"{PLACEMENT}_last_decision_timestamp_seconds", f"{CERTS}_last_success_timestamp_seconds"

Series = dict[str, str]


class Case(NamedTuple):
    """Histories of series, one value a minute from the time 0, as promtool writes them.

    Attributes:
        minutes: When the alert is looked at.
        fires: Histories for which it fires.
        quiet: Histories for which it does not.
    """

    minutes: int
    fires: tuple[Series, ...]
    quiet: tuple[Series, ...]


def above(name: str, value: float, minutes: int = 20, least: float = 0) -> Case:
    """Returns the case of a gauge of two replicas of which one is above a value, or not above another."""
    ok, bad = f"{least}x{minutes}", f"{value}x{minutes}"
    pods = [f'{name}{{pod="{pod}"}}' for pod in "ab"]
    return Case(minutes, ({pods[0]: ok, pods[1]: bad},), (dict.fromkeys(pods, ok),))


def rising(name: str) -> Case:
    """Returns the case of a counter that rose just now, or that has its value from long ago."""
    return Case(10, ({name: "3x5 4x5"},), ({name: "3x10"},))


CASES = {
    "WebhookCertificateEnds": above(EXPIRY, 600_000, least=900_000),
    "WebhookTableStale": above(f"{WEBHOOK}_table_stale", 1),
    "WebhookPolicyEnds": above(UNTIL, 600_000, least=900_000),
    "WebhookPolicyEnded": above(f"{WEBHOOK}_policies_ended", 1),
    "WebhookTablesDiffer": Case(
        20,
        ({f'{TABLE}{{revision="1",pod="a"}}': "1x20", f'{TABLE}{{revision="2",pod="b"}}': "1x20"},),
        ({f'{TABLE}{{revision="1",pod="a"}}': "1x20", f'{TABLE}{{revision="1",pod="b"}}': "1x20"},),
    ),
    "WebhookFails": rising(f"{WEBHOOK}_failures_total"),
    "WebhookSlow": Case(
        25,
        (
            {
                f'{BUCKET}{{le="0.1"}}': "0+98x25",
                f'{BUCKET}{{le="0.5"}}': "0+100x25",
                f'{BUCKET}{{le="+Inf"}}': "0+100x25",
            },
        ),
        (
            {
                f'{BUCKET}{{le="0.1"}}': "0+100x25",
                f'{BUCKET}{{le="0.5"}}': "0+100x25",
                f'{BUCKET}{{le="+Inf"}}': "0+100x25",
            },
        ),
    ),
    "WebhookDown": Case(10, ({},), ({f'{TABLE}{{revision="1"}}': "1x10"},)),
    "WebhookNotReached": Case(
        10,
        (
            {f'{REJECTED}{{{OURS},error_type="calling_webhook_error"}}': "0x5 1x5"},
            {f"{OPEN}{{{OURS}}}": "0x5 1x5"},
            # The API server has no series before the first failure.
            {f'{REJECTED}{{{OURS},error_type="calling_webhook_error"}}': "_x5 1x5"},
            {f"{OPEN}{{{OURS}}}": "_x5 1x5"},
            {f'{OPEN}{{{OURS},pod="a"}}': "3x10", f'{OPEN}{{{OURS},pod="b"}}': "_x5 1x5"},
        ),
        (
            {f'{REJECTED}{{{OURS},error_type="no_error"}}': "0x5 1x5"},
            {f'{OPEN}{{name="other.example.com"}}': "0x5 1x5"},
            {f'{REJECTED}{{{OURS},error_type="no_error"}}': "_x5 1x5"},
            {f"{OPEN}{{{OURS}}}": "3x20"},
        ),
    ),
    "PlacementNobodyLeads": Case(
        10,
        ({FIRED: "5x10", f"{PLACEMENT}_leader": "0x10"}, {FIRED: "5x10"}),
        ({FIRED: "5x10", f"{PLACEMENT}_leader": "1x10"}, {f"{PLACEMENT}_leader": "0x10"}),
    ),
    "PlacementStalled": Case(10, ({LAST: "0x10"}, {LAST: "0x2 _x8"}), ({LAST: "0+60x10"}, {})),
    "PlacementGivesUp": rising(f"{PLACEMENT}_deletions_total"),
    "PlacementJobWaits": above(f"{PLACEMENT}_oldest_wait_seconds", 90_000, least=80_000),
    "CertificatesNotRenewed": Case(70, ({SUCCESS: "0x70"}, {}), ({SUCCESS: "0+60x70"},)),
}
"""By the name of the alert, without its beginning."""


@pytest.mark.program("promtool")
@pytest.mark.limit(15, "promtool evaluates hours of histories")
def test_each_alert_fires_when_it_should_and_only_then(built: Callable[..., Build], tmp_path: Path) -> None:
    (rule,) = of_kind(built(monitoring={"enabled": True}), "PrometheusRule")
    alerts = {
        alert["alert"].removeprefix("Ultraserver"): alert
        for group in rule["spec"]["groups"]
        for alert in group["rules"]
    }
    assert alerts.keys() == CASES.keys()
    (tmp_path / "rules.json").write_text(json.dumps(rule["spec"]), encoding="utf-8")
    tests = [
        checked(alerts[name], case.minutes, series, fires=fires)
        for name, case in CASES.items()
        for fires, histories in ((True, case.fires), (False, case.quiet))
        for series in histories
    ]
    document = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.json").write_text(json.dumps(document), encoding="utf-8")
    command = ["promtool", "test", "rules", "tests.json"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def checked(alert: dict[str, Any], minutes: int, series: Series, *, fires: bool) -> dict[str, Any]:
    """Returns a test of promtool for one alert."""
    expected = {"exp_labels": alert["labels"], "exp_annotations": alert["annotations"]}
    return {
        "name": f"{alert['alert']} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minutes}m",
                "alertname": alert["alert"],
                "exp_alerts": [expected] if fires else [],
            }
        ],
    }

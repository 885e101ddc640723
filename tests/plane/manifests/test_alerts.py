"""Tests by promtool that each alert of the chart fires for some histories of metrics, and not for others."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import of_kind

WEBHOOK, PLACEMENT, CERTS = "ultraserver_webhook", "ultraserver_placement", "ultraserver_certs"
EXPIRY, UNTIL = f"{WEBHOOK}_certificate_expiry_timestamp_seconds", f"{WEBHOOK}_policy_until_timestamp_seconds"
TABLE, BUCKET = f"{WEBHOOK}_table_info", f"{WEBHOOK}_review_seconds_bucket"
REJECTED = "apiserver_admission_webhook_rejection_count"
FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
OUR_WEBHOOK = 'name="mpijobs.ultraserver-webhook.io"'
WHOLE_JOB_FIRED = f'{WEBHOOK}_rules_fired_total{{rule="whole-job-workers"}}'
LAST_DECISION, LAST_SUCCESS = (
    f"{PLACEMENT}_last_decision_timestamp_seconds",
    f"{CERTS}_last_success_timestamp_seconds",
)

Series = dict[str, str]


class Case(NamedTuple):
    """Histories of series for an alert, in promtool's notation: one value per minute from time 0.

    Attributes:
        minutes: The minute in which promtool evaluates the alert.
        fires: The histories for which the alert fires.
        quiet: The histories for which the alert does not fire.
    """

    minutes: int
    fires: tuple[Series, ...]
    quiet: tuple[Series, ...]


def gauge(name: str, firing: float, minutes: int = 20, quiet: float = 0) -> Case:
    """Returns a case: the alert fires if one of two replicas has the value ``firing``, and one ``quiet``."""
    ok, bad = f"{quiet}x{minutes}", f"{firing}x{minutes}"
    pods = [f'{name}{{pod="{pod}"}}' for pod in "ab"]
    return Case(minutes, ({pods[0]: ok, pods[1]: bad},), (dict.fromkeys(pods, ok),))


def counter(name: str) -> Case:
    """Returns the case of a counter: the alert fires if it rises, not if it is constant."""
    return Case(10, ({name: "3x5 4x5"},), ({name: "3x10"},))


CASES = {
    "WebhookCertificateEnds": gauge(EXPIRY, 600_000, quiet=900_000),
    "WebhookTableStale": gauge(f"{WEBHOOK}_table_stale", 1),
    "WebhookPolicyEnds": gauge(UNTIL, 600_000, quiet=900_000),
    "WebhookPolicyEnded": gauge(f"{WEBHOOK}_policies_ended", 1),
    "WebhookTablesDiffer": Case(
        20,
        ({f'{TABLE}{{revision="1",pod="a"}}': "1x20", f'{TABLE}{{revision="2",pod="b"}}': "1x20"},),
        ({f'{TABLE}{{revision="1",pod="a"}}': "1x20", f'{TABLE}{{revision="1",pod="b"}}': "1x20"},),
    ),
    "WebhookFails": counter(f"{WEBHOOK}_failures_total"),
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
            {f'{REJECTED}{{{OUR_WEBHOOK},error_type="calling_webhook_error"}}': "0x5 1x5"},
            {f"{FAILED_OPEN}{{{OUR_WEBHOOK}}}": "0x5 1x5"},
            # The API server has no series before the first failure.
            {f'{REJECTED}{{{OUR_WEBHOOK},error_type="calling_webhook_error"}}': "_x5 1x5"},
            {f"{FAILED_OPEN}{{{OUR_WEBHOOK}}}": "_x5 1x5"},
            {
                f'{FAILED_OPEN}{{{OUR_WEBHOOK},pod="a"}}': "3x10",
                f'{FAILED_OPEN}{{{OUR_WEBHOOK},pod="b"}}': "_x5 1x5",
            },
        ),
        (
            {f'{REJECTED}{{{OUR_WEBHOOK},error_type="no_error"}}': "0x5 1x5"},
            {f'{FAILED_OPEN}{{name="other.example.com"}}': "0x5 1x5"},
            {f'{REJECTED}{{{OUR_WEBHOOK},error_type="no_error"}}': "_x5 1x5"},
            {f"{FAILED_OPEN}{{{OUR_WEBHOOK}}}": "3x20"},
        ),
    ),
    "PlacementWithoutLeader": Case(
        10,
        ({WHOLE_JOB_FIRED: "5x10", f"{PLACEMENT}_leader": "0x10"}, {WHOLE_JOB_FIRED: "5x10"}),
        ({WHOLE_JOB_FIRED: "5x10", f"{PLACEMENT}_leader": "1x10"}, {f"{PLACEMENT}_leader": "0x10"}),
    ),
    "PlacementStalled": Case(
        10, ({LAST_DECISION: "0x10"}, {LAST_DECISION: "0x2 _x8"}), ({LAST_DECISION: "0+60x10"}, {})
    ),
    "PlacementEvicts": counter(f"{PLACEMENT}_evictions_total"),
    "PlacementJobWaits": gauge(f"{PLACEMENT}_oldest_wait_seconds", 90_000, quiet=80_000),
    "CertificatesNotRenewed": Case(70, ({LAST_SUCCESS: "0x70"}, {}), ({LAST_SUCCESS: "0+60x70"},)),
}
"""The cases, by the name of the alert without ``Ultraserver``."""


@pytest.mark.program("promtool")
@pytest.mark.limit(15, "promtool evaluates hours of histories")
def test_each_alert_fires_only_for_the_right_histories(
    render: Callable[..., Rendered], tmp_path: Path
) -> None:
    (rule,) = of_kind(render(monitoring={"enabled": True}), "PrometheusRule")
    alerts = {
        alert["alert"].removeprefix("Ultraserver"): alert
        for group in rule["spec"]["groups"]
        for alert in group["rules"]
    }
    assert alerts.keys() == CASES.keys()
    (tmp_path / "rules.json").write_text(json.dumps(rule["spec"]), encoding="utf-8")
    tests = [
        promtool_test(alerts[name], case.minutes, series, fires=fires)
        for name, case in CASES.items()
        for fires, histories in ((True, case.fires), (False, case.quiet))
        for series in histories
    ]
    document = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.json").write_text(json.dumps(document), encoding="utf-8")
    command = ["promtool", "test", "rules", "tests.json"]
    result = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def promtool_test(alert: dict[str, Any], minutes: int, series: Series, *, fires: bool) -> dict[str, Any]:
    """Returns promtool's test of an alert with one history."""
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

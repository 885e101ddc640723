"""Tests of logs, metrics and audit annotations about rules in shadow mode."""

import json
import logging

import pytest
from prometheus_client import generate_latest
from werkzeug.test import Client

from testbed.mpijob import mpijob
from tests.admission.reviews import response, state_of
from tests.rules.tables import extend_table
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.rows.table import Table

TABLE = extend_table("""
mode: shadow
rules:
  - {name: large, reason: r, match: {role: worker, workers: {atLeast: 16}}, deny: too large}
  - {name: huge, reason: r, match: {role: worker, namespace: enforced}, mode: shadow, deny: huge}
policies:
  - {namespaces: enforced, mode: enforce, reason: The first team.}
""")


def send_jobs(table: Table, namespace: str, *sizes: int) -> tuple[list[dict[str, object]], str]:
    """Sends reviews of jobs of these sizes; returns the answers and the metrics afterwards."""
    state = state_of(table)
    metrics = Metrics(state)
    client = Client(create_app(admission_blueprint(state, metrics)))
    answers = [response(client, mpijob(size), namespace=namespace) for size in sizes]
    return answers, generate_latest(metrics.registry).decode()


def metric_value(metrics: str, name: str) -> float:
    return float(metrics.partition(f"\nultraserver_webhook_{name} ")[2].partition("\n")[0])


def test_shadow_metrics_and_logs_have_the_jobs_that_would_be_changed_or_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "webhook.admission")
    answers, metrics = send_jobs(TABLE, "default", *[4] * 90, *[16] * 10)
    assert all(answer["allowed"] and "patch" not in answer for answer in answers)
    counts = {
        name: metric_value(metrics, f"shadow_{name}")
        for name in (
            'reviews_total{response="allowed"}',
            'reviews_total{response="denied"}',
            'rules_total{rule="large",state="fired"}',
            'rules_total{rule="large",state="refused"}',
            'rules_total{rule="job-label",state="fired"}',
        )
    }
    assert list(counts.values()) == [90, 10, 10, 10, 100]
    log = [vars(record)["shadow_denials"] for record in caplog.records if "shadow_denials" in vars(record)]
    assert log == ["too large"] * 10
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.endswith("; would be refused: too large") for line in lines) == 10
    assert "rules_fired_total{" not in metrics


def test_audit_annotations_name_shadow_rules_and_the_policy_that_applies() -> None:
    (shadowed,), _ = send_jobs(TABLE, "default", 16)
    notes = json.loads(json.dumps(shadowed["auditAnnotations"]))
    assert notes["shadow-denials"] == "too large"
    assert "large" in notes["shadow-rules"].split(",")
    (enforced,), metrics = send_jobs(
        TABLE, "enforced", 16
    )  # an enforced rule refuses the job, so shadow mode reports nothing
    notes = json.loads(json.dumps(enforced["auditAnnotations"]))
    assert notes["policy"] == "The first team."
    assert not {"shadow-rules", "shadow-denials"} & notes.keys()
    assert not enforced["allowed"]
    assert "shadow_reviews_total{" not in metrics

"""Upgrades: jobs that another table has changed before."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.mpijob import LAUNCHER, WORKER
from tests.engine.strategies import jobs, without_void
from tests.helpers import load_text
from tests.rules.tables import EXTENDS
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Verdict
from webhook.objects.tree import canonical, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")


def after(table: Table, job: Any, namespace: str = "default", uid: str = "now", username: str = "ada") -> Any:
    return evaluate(table, Request(job, namespace, uid, username)).after


ROWS = {
    "off": "{name: nodes-with-server-id, mode: off}\n  - {name: together-required, mode: off}",
    "documented init container": "{name: init-in-job-image, mode: off}",
    "one order": "{name: a, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: a}, {key: b}]}}}",
    "other order": "{name: b, reason: r, match: {role: worker},"
    " add: {spec: {tolerations: [{key: b}, {key: a}]}}}",
    "amended": "{name: c, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, image: i, command: [x, z, $(job.workers), x]}]}}}\n"
    "  - {name: d, reason: r, match: {role: launcher}, add: {spec: {initContainers:"
    " [{name: c, env: [{name: E, value: $(job.id)}], args: [b, a, b]}]}}}",
    "terms": "{name: e, reason: r, match: {role: worker}, add: {spec: {affinity: {nodeAffinity: {"
    "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions:"
    " [{key: e, operator: Exists}, {key: f, operator: In, values: [b, a]}],"
    " matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}]}}}}}}",
    "empty maps": "{name: f, reason: r, match: {role: worker},"
    " add: {spec: {securityContext: {}, hostIPC: true, dnsConfig: {searches: [b, a]}}}}",
}
TABLES = {
    name: load_text(f"{EXTENDS}values: {{waitSeconds: '{seconds}'}}\nrules:\n  - {row}\n", "t")
    for seconds, (name, row) in enumerate(ROWS.items())
}


def unordered(obj: Any) -> Any:
    """Returns a job without empty maps and with sorted tolerations, a set that keeps its first order."""
    obj = without_void(obj)
    for role in (LAUNCHER, WORKER):
        tolerations = get(obj, (*role, "spec", "tolerations"))
        if tolerations:
            obj = put(obj, (*role, "spec", "tolerations"), sorted(tolerations, key=canonical))
    return obj


# Half of the usual number of examples: each evaluates three times.
@settings(max_examples=settings().max_examples // 2)
@given(jobs(named=True), st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(TABLES)))
def test_the_result_does_not_depend_on_earlier_tables(job: Any, first: str, second: str) -> None:
    upgraded = evaluate(TABLES[second], Request(after(TABLES[first], job), "default", "now", "ada"))
    fresh = evaluate(TABLES[second], Request(job, "default", "now", "ada"))
    assert upgraded.denials == fresh.denials
    if fresh.verdict is not Verdict.DENIED:
        assert same(unordered(upgraded.after), unordered(fresh.after))

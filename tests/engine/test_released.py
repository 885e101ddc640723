"""Upgrades: jobs as every released version mutated them, through the present table."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests import released
from tests.engine.strategies import jobs, without_void
from tests.helpers import load_text
from tests.released import Kept, __main__, cases, versions
from tests.rules.tables import EXTENDS
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Verdict
from webhook.objects.tree import canonical, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")

CHANGES: dict[str, Any] = {
    "as it is": lambda job: job,
    "renamed": lambda job: renamed(job, "second"),
    "resized": lambda job: put(job, REPLICAS, 8),
    "renamed and resized to one": lambda job: put(renamed(job, "second"), REPLICAS, 1),
}


def renamed(job: Any, name: str) -> Any:
    return put(job, ("metadata", "name"), name) if get(job, ("metadata", "name")) else job


def after(table: Table, job: Any, namespace: str = "default", uid: str = "now", username: str = "ada") -> Any:
    return evaluate(table, Request(job, namespace, uid, username)).after


every_job = pytest.mark.parametrize(
    "kept",
    [kept for version in versions().values() for kept in version.values()],
    ids=lambda kept: f"{kept.version}/{kept.case}",
)


@pytest.mark.parametrize("namespace", ["default", "elsewhere"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@every_job
def test_a_job_of_an_earlier_version_becomes_what_its_author_would_get_today(
    kept: Kept, change: Any, namespace: str
) -> None:
    uid = kept.request["uid"]
    exported = after(TABLE, change(kept.mutated), namespace, uid)
    assert same(exported, after(TABLE, change(kept.job), namespace, uid))


@every_job
def test_the_init_containers_of_an_earlier_version_get_todays_commands_whole(kept: Kept) -> None:
    containers = get(after(TABLE, kept.mutated), (*LAUNCHER, "spec", "initContainers"))
    fresh = get(after(TABLE, mpijob(4)), (*LAUNCHER, "spec", "initContainers"))
    commands = {item["name"]: item["command"] for item in containers}
    assert [commands[item["name"]] for item in fresh] == [item["command"] for item in fresh]
    assert commands["ultraserver-init-container"][3:] == ["ultraserver-init", "init"]
    assert commands.get("mine", ["sh"])[0] == "sh"


def test_every_version_has_every_case_and_the_first_has_other_scripts_than_today() -> None:
    assert all(set(version) == set(cases()) for version in versions().values())
    commands = [
        [item["command"][2] for item in get(job, (*LAUNCHER, "spec", "initContainers"))]
        for job in (versions()["0.1.0"]["four-node"].mutated, after(TABLE, mpijob(4)))
    ]
    assert not {*commands[0]} & {*commands[1]}


def test_the_program_keeps_what_the_present_version_makes_of_every_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released, "FOLDER", tmp_path)
    monkeypatch.setattr(released, "SCRIPTS", tmp_path / "scripts")
    monkeypatch.setattr(sys, "argv", ["python -m tests.released", "9.9.9"])
    __main__.main()
    kept = versions.__wrapped__()["9.9.9"]
    assert {name: found.job for name, found in kept.items()} == cases()
    assert all(same(found.mutated, after(TABLE, found.job, **found.request)) for found in kept.values())
    assert len(list((tmp_path / "scripts").iterdir())) == 1
    with pytest.raises(FileExistsError):
        __main__.main()


def test_what_another_webhook_added_behind_a_script_that_changed_stays_beside_it() -> None:
    job = copy.deepcopy(versions()["0.1.0"]["four-node"].mutated)
    sidecar = {"name": "istio-init", "image": "istio", "command": ["istio", "b", "a", "b"]}
    get(job, (*LAUNCHER, "spec"))["initContainers"].append(sidecar)
    stored = after(TABLE, job)
    assert sidecar in get(stored, (*LAUNCHER, "spec", "initContainers"))
    assert evaluate(TABLE, Request(stored, "default", "now", "ada")).operations == ()


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
    name: load_text(f"{EXTENDS}values: {{waitSeconds: '{seconds}', initImage: i}}\nrules:\n  - {row}\n", "t")
    for seconds, (name, row) in enumerate(ROWS.items())
}


def unordered(obj: Any) -> Any:
    """A job without empty maps and with sorted tolerations, a set that keeps its first order."""
    obj = without_void(obj)
    for role in (LAUNCHER, WORKER):
        found = get(obj, (*role, "spec", "tolerations"))
        if found:
            obj = put(obj, (*role, "spec", "tolerations"), sorted(found, key=canonical))
    return obj


# Half of the usual number of examples: each evaluates three times.
@settings(max_examples=settings().max_examples // 2)
@given(jobs(named=True), st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(TABLES)))
def test_whatever_table_a_job_went_through_before_this_ones_result_is_that_of_the_authors_job(
    job: Any, first: str, second: str
) -> None:
    upgraded = evaluate(TABLES[second], Request(after(TABLES[first], job), "default", "now", "ada"))
    fresh = evaluate(TABLES[second], Request(job, "default", "now", "ada"))
    assert upgraded.denials == fresh.denials
    if fresh.verdict is not Verdict.DENIED:
        assert same(unordered(upgraded.after), unordered(fresh.after))

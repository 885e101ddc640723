"""The way of an upgrade: jobs as every released version mutated them, through the present table."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.strategies import jobs
from tests.engine.test_properties import without_void
from tests.helpers import LAUNCHER, WORKER, mpijob
from tests.released import FOLDER, cases
from tests.rules.tables import EXTENDS
from webhook.documents import read_documents
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Verdict
from webhook.engine.table import Table
from webhook.engine.tree import canonical, get, put, same
from webhook.rules.load import load_default, load_text

TABLE = load_default()
FILES = sorted(FOLDER.glob("*/*.yaml"))
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")

CHANGES: dict[str, Any] = {
    "as it is": lambda job: job,
    "renamed": lambda job: renamed(job, "second"),
    "resized": lambda job: put(job, REPLICAS, 8),
    "renamed and resized to one": lambda job: put(renamed(job, "second"), REPLICAS, 1),
}


def renamed(job: Any, name: str) -> Any:
    return put(job, ("metadata", "name"), name) if get(job, ("metadata", "name")) else job


def released(path: Path) -> Any:
    (document,) = read_documents(path.read_text(encoding="utf-8"), str(path))
    return document.value


def after(table: Table, job: Any, namespace: str = "default", uid: str = "now") -> Any:
    return evaluate(table, Request(job, namespace, uid, "ada")).after


@pytest.mark.parametrize("namespace", ["default", "elsewhere"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_job_of_an_earlier_version_becomes_what_its_author_would_get_today(
    path: Path, change: Any, namespace: str
) -> None:
    found = released(path)
    uid = found["request"]["uid"]
    exported = after(TABLE, change(found["mutated"]), namespace, uid)
    assert same(exported, after(TABLE, change(found["job"]), namespace, uid))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_init_containers_of_an_earlier_version_get_todays_commands_whole(path: Path) -> None:
    containers = get(after(TABLE, released(path)["mutated"]), (*LAUNCHER, "spec", "initContainers"))
    fresh = get(after(TABLE, mpijob(4)), (*LAUNCHER, "spec", "initContainers"))
    commands = {item["name"]: item["command"] for item in containers}
    assert [commands[item["name"]] for item in fresh] == [item["command"] for item in fresh]
    assert commands["ultraserver-init-container"][3:] == ["ultraserver-init", "init"]
    assert commands.get("mine", ["sh"])[0] == "sh"


def test_every_case_is_there_in_every_version_and_one_has_other_scripts_than_today() -> None:
    versions = {path.parent.name for path in FILES}
    assert {(path.parent.name, path.stem) for path in FILES} == {
        (v, case) for v in versions for case in cases()
    }
    texts = [path.read_text(encoding="utf-8") for path in FILES if path.parent.name == "0.1.0-other-scripts"]
    assert all("another release's" in text for text in texts)


def test_what_another_webhook_added_behind_a_script_that_changed_stays_beside_it() -> None:
    job = copy.deepcopy(released(FOLDER / "0.1.0-other-scripts" / "four-node.yaml")["mutated"])
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


@given(jobs(named=True), st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(TABLES)))
def test_whatever_table_a_job_went_through_before_this_ones_result_is_that_of_the_authors_job(
    job: Any, first: str, second: str
) -> None:
    upgraded = evaluate(TABLES[second], Request(after(TABLES[first], job), "default", "now", "ada"))
    fresh = evaluate(TABLES[second], Request(job, "default", "now", "ada"))
    assert upgraded.denials == fresh.denials
    if fresh.verdict is not Verdict.DENIED:
        assert same(unordered(upgraded.after), unordered(fresh.after))

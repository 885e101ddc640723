"""A job that was taken from a cluster, already mutated, and is applied as another job."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import pytest

from testbed.plane import jobs
from tests.plane.ways import with_own_lists

if TYPE_CHECKING:
    from testbed.plane.kubectl import Kubectl, Object
    from webhook.objects.tree import Json

pytestmark = pytest.mark.usefixtures("registered_webhook")

# What is done to the export: where it goes, its name, its workers.
HERE, THERE = 0, 1
CHANGES = {
    "renamed": (HERE, "second", 4),
    "moved": (THERE, "first", 4),
    "renamed and moved": (THERE, "second", 4),
    "renamed and resized": (HERE, "second", 16),
    "moved and resized": (THERE, "first", 2),
    "renamed, moved and resized to one": (THERE, "second", 1),
    "resized": (HERE, "first", 2),
}


def changed(job: Object, name: str, workers: int = 4) -> Object:
    """A job as another one, for the namespace that it will be sent to."""
    job = copy.deepcopy(job)
    job["metadata"]["name"] = name
    job["metadata"].pop("namespace", None)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return job


def without_void(node: Json) -> Json:
    """Without the empty parents that taking something out of a list or map may remove."""
    if isinstance(node, dict):
        kept = {key: without_void(value) for key, value in node.items()}
        return {key: value for key, value in kept.items() if value not in ({}, [])}
    return [without_void(item) for item in node] if isinstance(node, list) else node


def test_an_exported_job_gets_the_terms_of_the_job_that_it_is_now(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    job = with_own_lists("first")
    first = namespace.create(job)
    export = jobs.exported(namespace, "first")
    namespace.delete("mpijob", "first")
    label = f"{namespace.namespace}.first"
    assert label in json.dumps(first["spec"])
    for what, (where, name, workers) in CHANGES.items():
        there = (namespace, second_namespace)[where]
        pair = [changed(export, name, workers), changed(job, name, workers)]
        stored, fresh = there.create(jobs.together(*pair), "--dry-run=server")["items"]
        assert without_void(stored["spec"]) == without_void(fresh["spec"]), what
        old = {"renamed": '"first"', "moved": label}
        assert not [text for word, text in old.items() if word in what and text in json.dumps(stored)], what


def test_an_export_that_is_applied_where_it_came_from_changes_nothing(namespace: Kubectl) -> None:
    first = namespace.apply(with_own_lists("first"))
    again = namespace.apply(jobs.exported(namespace, "first"))
    assert again["spec"] == first["spec"]
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1

"""A job that was taken from a cluster, already mutated, and is applied as another job."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs
from tests.cluster.jobs import template
from tests.helpers import mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object
    from webhook.engine.tree import Json

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


def own() -> Object:
    """A job with something of the author's own in every place that the webhook adds to."""
    term = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    zone = {"key": "topology.kubernetes.io/zone", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    job = mpijob(
        4,
        name="first",
        worker_spec={
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
            },
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
        },
        launcher_spec={
            "initContainers": [{"name": "mine", "image": "example.invalid/mine"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    )
    template(job, "Worker")["metadata"] = {"labels": {"team": "research"}, "annotations": {"note": "kept"}}
    return job


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


@pytest.mark.parametrize("job", [mpijob(4, name="first"), own()], ids=["plain", "with own parts"])
def test_an_exported_job_gets_the_terms_of_the_job_that_it_is_now(
    job: Object, namespace: Kubectl, second_namespace: Kubectl
) -> None:
    first = namespace.create(job)
    export = jobs.exported(namespace, "first")
    namespace.run("delete", "mpijob", "first")
    label = f"{namespace.namespace}.first"
    assert label in json.dumps(first["spec"])
    for what, (where, name, workers) in CHANGES.items():
        there = (namespace, second_namespace)[where]
        pair = [changed(export, name, workers), changed(job, name, workers)]
        stored, fresh = there.create(jobs.together(*pair), "--dry-run=server")["items"]
        assert without_void(stored["spec"]) == without_void(fresh["spec"]), what
        old = {"renamed": '"first"', "moved": label}
        assert not [text for word, text in old.items() if word in what and text in json.dumps(stored)], what


def test_an_export_without_its_annotations_gets_its_own_terms(namespace: Kubectl) -> None:
    namespace.create(own())
    export = jobs.exported(namespace, "first")
    # A person takes out what looks like the cluster's; the record is on the templates and not here.
    export["metadata"] = {"name": "second", "labels": {"team": "research"}}
    fresh = namespace.create(changed(own(), "second"), "--dry-run=server")
    stored = namespace.create(export)
    assert without_void(stored["spec"]) == without_void(fresh["spec"])
    assert "first" not in json.dumps(stored["spec"])


def test_an_export_that_is_opted_out_loses_what_the_webhook_had_added(namespace: Kubectl) -> None:
    namespace.create(own())
    export = jobs.exported(namespace, "first")
    for word in ("false", "disabled"):
        export["metadata"]["annotations"] = {keys.INJECT: word}
        stored = namespace.create(changed(export, "second"), "--dry-run=server")
        for role in ("Launcher", "Worker"):
            assert without_void(template(stored, role)) == without_void(template(own(), role))


def test_a_whole_list_of_jobs_can_be_exported_and_applied_in_another_namespace(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    originals = [mpijob(workers, name=f"of-{workers}") for workers in (1, 2, 4, 8)]
    namespace.apply(jobs.together(*originals))
    exports = namespace.get_json("mpijobs")["items"]
    for export in exports:
        del export["metadata"]["namespace"]
        del export["metadata"]["resourceVersion"]
    fresh = second_namespace.apply(jobs.together(*originals), "--dry-run=server")["items"]
    moved = second_namespace.apply(jobs.together(*exports), "--dry-run=server")["items"]
    assert [job["spec"] for job in moved] == [job["spec"] for job in fresh]
    assert str(namespace.namespace) not in json.dumps([job["spec"] for job in moved])


def test_an_export_that_is_applied_where_it_came_from_changes_nothing(namespace: Kubectl) -> None:
    first = namespace.apply(own())
    again = namespace.apply(jobs.exported(namespace, "first"))
    assert again["spec"] == first["spec"]
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1


def test_a_term_that_a_person_changed_in_the_export_is_theirs_from_then_on(namespace: Kubectl) -> None:
    namespace.create(mpijob(4, name="first"))
    export = jobs.exported(namespace, "first")
    affinity = template(export, "Worker")["spec"]["affinity"]["podAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    term["topologyKey"] = "topology.kubernetes.io/zone"
    stored = namespace.create(changed(export, "second"))
    terms = template(stored, "Worker")["spec"]["affinity"]["podAffinity"]
    assert terms["requiredDuringSchedulingIgnoredDuringExecution"][0] == term
    assert len(terms["requiredDuringSchedulingIgnoredDuringExecution"]) == 2


def test_the_record_names_what_was_added_and_nothing_of_the_authors(namespace: Kubectl) -> None:
    stored = namespace.create(own(), "--dry-run=server")
    for role, places in {
        "Launcher": {
            "/metadata/annotations/ultraserver-webhook.io~1hostfile",
            "/spec/initContainers",
            "/spec/volumes",
        },
        "Worker": {
            "/metadata/labels/ultraserver-webhook.io~1job",
            "/spec/nodeSelector/node.kubernetes.io~1instance-type",
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
            "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        },
    }.items():
        added = json.loads(template(stored, role)["metadata"]["annotations"][keys.ADDED])["added"]
        assert set(added) == places

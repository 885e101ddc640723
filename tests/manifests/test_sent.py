"""Tests that previews agree with the default installation: its table, and which objects the webhook gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract import keys
from testbed import chart
from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text
from tests.plane.kinds.jobs import job
from webhook.documents import dump_yaml, read_documents
from webhook.preview.run import preview
from webhook.preview.sent import DEFAULT_KIND, POD_LABEL, SYSTEM_NAMESPACES
from webhook.rules.load import load_installed

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "alone"},
    "spec": {
        "nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
        "containers": [{"name": "x", "resources": {"limits": {"aws.amazon.com/neuron": 7}}}],
    },
}


def _pod_with_labels(labels: dict[str, str]) -> dict[str, Any]:
    return POD | {"metadata": POD["metadata"] | {"labels": labels}}


def _notes(obj: Any) -> list[str]:
    (result,) = preview(load_installed(), read_documents(dump_yaml(obj)))
    return list(result.report["notes"])


def test_a_preview_uses_the_table_of_the_default_installation(tmp_path: Path) -> None:
    """The mounted files have the revision of the preview's table, so no row is added twice."""
    (data,) = [part["data"] for part in chart.objects() if part["kind"] == "ConfigMap"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    assert load_installed(tmp_path).revision == load_installed().revision
    assert load_installed(tmp_path / "rules.yaml").revision == load_installed().revision
    assert load_installed(placement=False).revision != load_installed().revision


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("batch/v1/CronJob", "jobTemplate"),
        ("keda.sh/v1alpha1/ScaledJob", "jobTargetRef"),
        ("argoproj.io/v1alpha1/Workflow", "templates"),
        ("trainer.kubeflow.org/v1alpha1/TrainingRuntime", "template"),
    ],
)
def test_a_kind_that_creates_jobs_with_devices_gets_a_note(kind: str, place: str) -> None:
    """Protects users who would think that the webhook ignores the jobs of a CronJob."""
    version, _, name = kind.rpartition("/")
    obj = {"apiVersion": version, "kind": name, "metadata": {"name": "x"}, "spec": {place: [POD]}}
    (note,) = _notes(obj)
    assert note.startswith(f"{kind} is not a workload, but the Jobs or Pods that it creates")
    obj["spec"] = {"trainer": {"resourcesPerNode": {"limits": {"aws.amazon.com/neuron": 16}}}}
    assert _notes(obj) == [note]
    assert _notes({**obj, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIjob"}) == []
    assert _notes({**obj, "spec": {"limits": {"aws.amazon.com/neuron": 64}}}) == []


def test_the_kinds_and_namespaces_of_notes_agree_with_the_registration() -> None:
    """Protects users from wrong notes: the constants in ``sent`` must agree with manifests/install.yaml."""
    (registered,) = [part for part in chart.objects() if part["kind"] == "MutatingWebhookConfiguration"]
    kinds, selectors = set(), list[Any]()
    for webhook in registered["webhooks"]:
        for rule in webhook["rules"]:
            kinds |= {
                (group, version, resource)
                for group in rule["apiGroups"]
                for version in rule["apiVersions"]
                for resource in rule["resources"]
            }
        (system,) = [
            term["values"]
            for term in webhook["namespaceSelector"]["matchExpressions"]
            if term["key"] == "kubernetes.io/metadata.name"
        ]
        assert tuple(system) == SYSTEM_NAMESPACES
        if webhook["rules"][0]["resources"] == ["pods"]:
            selectors.append(webhook["objectSelector"]["matchLabels"])
    group, version, kind = DEFAULT_KIND.split("/")
    assert kinds == {(group, version, f"{kind.lower()}s"), ("", "v1", "pods")}
    assert all(POD_LABEL in labels.items() for labels in selectors)


NOTES: dict[str, tuple[Any, str]] = {
    "an MPIJob": (mpijob(), ""),
    "a system namespace": (mpijob(namespace="kube-system"), "objects of namespace kube-system"),
    "another kind": (
        job(4, completionMode="Indexed"),
        "batch/v1/Job to the webhook: .* `kinds: [jobs.v1.batch]`",
    ),
    "a Pod": (POD, "v1/Pod to the webhook: .* `pods: true`"),
    "a Pod of a job of another kind": (_pod_with_labels({keys.JOB: "default.x"}), "`kinds` (of its job)"),
    "a Pod of an MPIJob": (_pod_with_labels(dict([POD_LABEL])), ""),
    "a Pod without devices": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, ""),
}


@pytest.mark.parametrize("name", NOTES)
def test_a_preview_has_a_note_on_objects_that_the_api_server_does_not_send(name: str) -> None:
    """Protects users who would expect the placement of a job that the webhook never receives."""
    obj, part = NOTES[name]
    notes = _notes(obj)
    assert len(notes) == bool(part)
    assert all(piece in notes[0] for piece in part.split(" .* ") if notes)


TABLES = sorted(path for path in (REPOSITORY / "manifests" / "chart" / "rules").iterdir())


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules


@pytest.mark.parametrize("name", chart.COPIES)
def test_the_chart_has_the_files_of_the_packaged_table(name: str) -> None:
    """If the files differed, previews and the guard would use other rows than the installation."""
    packaged = chart.packaged_file(name).read_text(encoding="utf-8")
    assert chart.COPIES[name].read_text(encoding="utf-8") == packaged, "make manifests writes it"

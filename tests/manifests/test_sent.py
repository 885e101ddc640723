"""What the chart's default sends to the webhook and has as its table, and what a preview says of that."""

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


def _labelled(labels: dict[str, str]) -> dict[str, Any]:
    return POD | {"metadata": POD["metadata"] | {"labels": labels}}


def _notes(obj: Any) -> list[str]:
    (shown,) = preview(load_installed(), read_documents(dump_yaml(obj)))
    return list(shown.report["notes"])


def test_the_table_of_a_preview_is_that_of_the_default_installation(tmp_path: Path) -> None:
    """Its files, as they are mounted, have the same revision: nothing is added twice."""
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
def test_a_kind_that_makes_jobs_has_a_note_where_it_requests_devices(kind: str, place: str) -> None:
    """Protects people from the belief that nothing will happen to the jobs of such an object."""
    version, _, name = kind.rpartition("/")
    obj = {"apiVersion": version, "kind": name, "metadata": {"name": "x"}, "spec": {place: [POD]}}
    (note,) = _notes(obj)
    assert note.startswith(f"{kind} is not a workload, but the Jobs or Pods that it creates")
    obj["spec"] = {"trainer": {"resourcesPerNode": {"limits": {"aws.amazon.com/neuron": 16}}}}
    assert _notes(obj) == [note]
    assert _notes({**obj, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIjob"}) == []
    assert _notes({**obj, "spec": {"limits": {"aws.amazon.com/neuron": 64}}}) == []


def test_what_is_sent_is_what_the_default_registers() -> None:
    """Protects from a note about other kinds and namespaces than those of manifests/install.yaml."""
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


UNSENT: dict[str, tuple[Any, str]] = {
    "an MPIJob": (mpijob(), ""),
    "of the system": (mpijob(namespace="kube-system"), "objects of namespace kube-system"),
    "another kind": (
        job(4, completionMode="Indexed"),
        "batch/v1/Job to the webhook: .* `kinds: [jobs.v1.batch]`",
    ),
    "a Pod": (POD, "v1/Pod to the webhook: .* `pods: true`"),
    "a Pod of another kind": (_labelled({keys.JOB: "default.x"}), "`kinds` (of its job)"),
    "a Pod of an MPIJob": (_labelled(dict([POD_LABEL])), ""),
    "another kind that gets nothing": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, ""),
}


@pytest.mark.parametrize("what", UNSENT)
def test_a_preview_names_what_the_default_installation_does_not_send(what: str) -> None:
    """Protects from the belief that a job is placed that the webhook never gets."""
    obj, part = UNSENT[what]
    notes = _notes(obj)
    assert len(notes) == bool(part)
    assert all(piece in notes[0] for piece in part.split(" .* ") if notes)


TABLES = sorted(path for path in (REPOSITORY / "manifests" / "chart" / "rules").iterdir())


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules


@pytest.mark.parametrize("name", chart.COPIES)
def test_the_chart_has_the_files_of_the_packaged_table(name: str) -> None:
    """Protects from a preview by other rows than those installed, and a guard for other families."""
    packaged = chart.packaged_file(name).read_text(encoding="utf-8")
    assert chart.COPIES[name].read_text(encoding="utf-8") == packaged, "make manifests writes it"

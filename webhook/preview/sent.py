"""Finds out which objects the API server of a default installation sends to the webhook."""

from typing import Final

from common.texts import cut
from contract import keys
from webhook.engine.outcome import Outcome, OutcomeKind
from webhook.engine.reading import kind_of
from webhook.objects.tree import Json, get, walk
from webhook.preview import messages
from webhook.rows.table import Table

# tests/manifests/test_sent.py compares these constants with manifests/install.yaml.
DEFAULT_KIND: Final = "kubeflow.org/v2beta1/MPIJob"
"""In every installation, the API server sends objects of this kind, and their Pods, to the webhook."""
POD_LABEL: Final = ("training.kubeflow.org/operator-name", "mpi-operator")
"""The label by which the API server selects the Pods of MPIJobs."""
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "ultraserver-webhook")
"""The namespaces whose objects the API server never sends to the webhook."""
_REQUESTS: Final = {
    (key, part) for key in ("resources", "resourcesPerNode") for part in ("limits", "requests")
}


def system_outcome(outcome: Outcome, obj: Json, namespace: str) -> Outcome:
    """Returns the outcome of an object in a system namespace: the webhook does not change the object."""
    reason = messages.not_called(namespace)
    return Outcome(outcome.revision, reason, obj, kind_if_unchanged=OutcomeKind.NO_CANDIDATE)


def not_sent_note(obj: Json, namespace: str, outcome: Outcome) -> str | None:
    """Returns why the API server does not send an object to the webhook, and what the user can do.

    None if the API server sends the object, or if the outcome has no effect.
    """
    if not any(result.operations or result.denials for result in (outcome, outcome.enforced) if result):
        return None
    if namespace in SYSTEM_NAMESPACES:
        return messages.excluded(namespace)
    value = chart_value(obj)
    return cut(messages.not_sent(kind_of(obj), value)) if value else None


def creates_jobs_note(table: Table, obj: Json) -> str | None:
    """Returns a note on an object that probably creates jobs, such as a CronJob; None for other objects."""
    kind, devices = kind_of(obj), {*table.resources}
    resources = (path[-1] for path, _ in walk(obj) if path[-3:-1] in _REQUESTS)
    if table.workloads_of(kind) or devices.isdisjoint(resources):
        return None
    return cut(messages.may_create(kind))


def chart_value(obj: Json) -> str | None:
    """Returns the chart's value with which the API server sends an object; None if it is sent by default."""
    kind, labels = kind_of(obj), get(obj, ("metadata", "labels")) or {}
    if kind == DEFAULT_KIND:
        return None
    if kind == "v1/Pod":
        if POD_LABEL in labels.items():
            return None
        return "`kinds` (of its job)" if keys.JOB in labels else "`pods: true`"
    group, version, name = kind.split("/")
    return f"`kinds: [{name.lower()}s.{version}.{group}]`"

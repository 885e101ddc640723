"""The objects that the API server sends to the webhook, with the registrations of a default installation."""

from typing import Final

from common.texts import cut
from contract import keys
from webhook.engine.outcome import Outcome, OutcomeKind
from webhook.engine.reading import kind_of
from webhook.objects.tree import Json, get, walk
from webhook.rows.table import Table

# tests/manifests/test_sent.py compares these with manifests/install.yaml.
SENT: Final = "kubeflow.org/v2beta1/MPIJob"
"""The kind that every installation sends, besides the Pods of its jobs."""
OPERATOR: Final = ("training.kubeflow.org/operator-name", "mpi-operator")
"""The label by which the API server selects those Pods."""
SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease", "ultraserver-webhook")
"""Namespaces whose objects are never sent."""
_REQUESTS: Final = {(of, part) for of in ("resources", "resourcesPerNode") for part in ("limits", "requests")}


def unseen(outcome: Outcome, obj: Json, namespace: str) -> Outcome:
    """Returns the outcome of an object in a namespace that is never sent: the webhook does nothing."""
    reason = f"the webhook is not called for namespace {namespace}"
    return Outcome(outcome.revision, reason, obj, default_kind=OutcomeKind.NO_CANDIDATE)


def not_sent(obj: Json, namespace: str, outcome: Outcome) -> str | None:
    """Returns why an outcome has no effect in the default installation, and which value changes that.

    None if the object is sent, or if the outcome has no effect anyway.
    """
    if not any(result.operations or result.denials for result in (outcome, outcome.enforced) if result):
        return None
    if namespace in SYSTEM:
        return f"no installation sends objects of the namespace {namespace} to the webhook: use another one"
    kind, value = kind_of(obj), value_of(obj)
    if not value:
        return None
    return cut(
        f"the default installation does not send {kind} to the webhook: the chart's value {value} does"
    )


def not_a_job(table: Table, obj: Json) -> str | None:
    """Returns which objects of a kind that creates jobs, such as a CronJob, are sent; None for others."""
    kind, devices = kind_of(obj), {*table.resources}
    resources = (path[-1] for path, _ in walk(obj) if path[-3:-1] in _REQUESTS)
    if table.workloads_of(kind) or devices.isdisjoint(resources):
        return None
    return cut(
        f"{kind} is not a workload itself: the webhook gets the Jobs or Pods it creates, so preview those"
    )


def value_of(obj: Json) -> str | None:
    """Returns the value of the chart with which an object is sent; None if it is always sent."""
    kind, labels = kind_of(obj), get(obj, ("metadata", "labels")) or {}
    if kind == SENT:
        return None
    if kind == "v1/Pod":
        if OPERATOR in labels.items():
            return None
        return "`kinds` (of its job)" if keys.JOB in labels else "`pods: true`"
    group, version, name = kind.split("/")
    return f"`kinds: [{name.lower()}s.{version}.{group}]`"

"""Decides whether a node suits a pod, as kube-scheduler does.

Sources: ``k8s.io/component-helpers/scheduling/corev1`` (``nodeaffinity`` for selectors and required node
affinity, ``helpers.go`` for tolerations) and the scheduler's plugins ``noderesources``, ``nodeports`` and
``interpodaffinity`` (required anti-affinity of the pod and of existing pods). One check is stricter than the
scheduler's: a node that is cordoned or not Ready suits no pod, even a pod with a toleration, because a job
that starts on such a node will soon lose it.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from placement import messages
from placement.decide.allocation import unmet_request
from placement.observe.model import (
    HARD_EFFECTS,
    HIDDEN,
    MARKS,
    NAMESPACE,
    PORT,
    Apart,
    Demand,
    Expression,
    Node,
    Taint,
    Term,
    Toleration,
)

ANY_LABEL: Final = ("", "")
"""The result of `label_pair` for a term that selects all pods. No real label has an empty name."""

INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class Cause(NamedTuple):
    """Why a node or a unit cannot be used. Causes of the same category are counted together."""

    category: str
    detail: str


def why_unusable(node: Node) -> str | None:
    """Returns why a node suits no pod at all; None if it may suit a pod."""
    if not node.ready:
        return messages.NOT_READY
    return messages.CORDONED if node.cordoned else None


def why_misfit(demand: Demand, node: Node) -> Cause | None:
    """Returns why a usable node does not suit a pod; None if it does. Ignores what other pods use."""
    if node.taints and (cause := why_untolerated(demand, node)):
        return cause
    for key, value in demand.selector.items():
        if node.labels.get(key) != value:
            return Cause("not selected", messages.not_selected(node.name, key, value))
    if demand.claims and (request := unmet_request(demand.claims, node.devices, {})):
        return Cause("too few devices", messages.too_few_devices(node.name, request.name))
    if demand.terms is not None and not any(_node_matches(term, node) for term in demand.terms):
        return Cause("not selected", messages.not_in_affinity(node.name))
    return None


def why_untolerated(demand: Demand, node: Node) -> Cause | None:
    """Returns the cause if a taint keeps a pod off a node; None if no taint does."""
    for taint in node.taints:
        if taint.effect in HARD_EFFECTS and not any(
            tolerates(toleration, taint) for toleration in demand.tolerations
        ):
            return Cause("tainted", messages.tainted(node.name, taint.key))
    return None


def lacking_resource(demand: Demand, node: Node, used: Mapping[str, int]) -> str | None:
    """Returns the resource (or a text about a claim) of which a node has too little left; or None.

    ``used`` has the amounts that the pods on the node use, in thousandths, by resource.
    """
    for name, amount in demand.requests.items():
        allocatable = node.allocatable.get(name, 0)
        if not allocatable and name.startswith(PORT):  # a node has each host port once
            allocatable = 0 if PORT in used else amount
        if amount and amount > allocatable - used.get(name, 0):
            return name
    if demand.claims and (request := unmet_request(demand.claims, node.devices, used)):
        return messages.requested_by(request.name)
    # A node without the resource "pods" accepts any number of pods.
    pods = node.allocatable.get("pods")
    if pods is not None and pods - used.get("pods", 0) < 1000:  # noqa: PLR2004
        return "pods"
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Returns whether a toleration covers a taint (``ToleratesTaint`` in ``core/v1/toleration.go``)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def selects(term: Apart, own_namespace: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a term of a pod in ``own_namespace`` selects a pod with these labels in ``namespace``.

    Only the name of a namespace is known, so conditions on its other labels are ignored. Conditions on
    labels of a pod that were not stored are ignored, too.
    """
    if term.labels is None or not all(
        _label_matches(labels, item) or _may_have_label(labels, item) for item in term.labels
    ):
        return False
    if namespace in term.namespaces:
        return True
    if term.spaces is None:
        return not term.namespaces and namespace == own_namespace
    name_label = {NAMESPACE: namespace}
    return all(_label_matches(name_label, item) for item in term.spaces)


def label_pair(term: Apart) -> tuple[str, str] | None:
    """Returns the only label and value by which a term selects; `ANY_LABEL` if it selects all; else None."""
    match term.labels:
        case ():
            return ANY_LABEL
        case (Expression(key, "In", (value,)),):
            return key, value
    return None


def _node_matches(term: Term, node: Node) -> bool:
    # "A null or empty node selector term matches no objects" (API reference, NodeSelectorTerm).
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": node.name}  # the only field; the API server accepts only In and NotIn for it
    are_labels_met = all(_label_matches(node.labels, expression) for expression in term.labels)
    return are_labels_met and all(_label_matches(fields, expression) for expression in term.fields)


def _label_matches(labels: Mapping[str, str], expression: Expression) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _number_matches(expression, value)
        case _:
            return False


def _may_have_label(labels: Mapping[str, str], expression: Expression) -> bool:
    return HIDDEN in labels and expression.key not in labels and expression.key not in MARKS


def _number_matches(expression: Expression, value: str | None) -> bool:
    """Returns whether Gt or Lt holds; both sides must be integers, and there must be one value."""
    texts = (value or "", *expression.values)
    if len(expression.values) != 1 or not all(INTEGER.fullmatch(text) for text in texts):
        return False
    number, limit = (int(text) for text in texts)
    return number > limit if expression.operator == "Gt" else number < limit

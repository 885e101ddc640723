"""Decides whether a node suits a pod, as kube-scheduler does.

Sources: ``k8s.io/component-helpers/scheduling/corev1`` (``nodeaffinity`` for selectors and required node
affinity, ``helpers.go`` for tolerations) and the scheduler's plugins ``noderesources``, ``nodeports`` and
``interpodaffinity`` (required anti-affinity of the pod and of existing pods). Two rules are stricter than the
scheduler's: a node that is cordoned or not Ready suits no pod, even if the pod tolerates that, because a job
that starts there now will soon lose the node.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from placement import messages
from placement.decide.allocation import unmet
from placement.observe.model import (
    HARD,
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
"""Stands for a label and its value in terms that select all pods. No label has an empty name."""

INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class Cause(NamedTuple):
    """Why a node or a unit cannot be used: the kind, by which equal causes are counted, and details."""

    kind: str
    detail: str


def unusable(node: Node) -> str | None:
    """Returns why a node suits no pod; None if it may suit some."""
    if not node.ready:
        return messages.NOT_READY
    return messages.CORDONED if node.cordoned else None


def misfit(demand: Demand, node: Node) -> Cause | None:
    """Returns why a usable node does not suit a pod, apart from other pods; None if it does."""
    if node.taints and (cause := untolerated(demand, node)):
        return cause
    for key, value in demand.selector.items():
        if node.labels.get(key) != value:
            return Cause("not selected", messages.not_selected(node.name, key, value))
    if demand.claims and (ask := unmet(demand.claims, node.devices, {})):
        return Cause("too few devices", messages.too_few_devices(node.name, ask.name))
    if demand.terms is not None and not any(_holds(term, node) for term in demand.terms):
        return Cause("not selected", messages.not_in_affinity(node.name))
    return None


def untolerated(demand: Demand, node: Node) -> Cause | None:
    """Returns the taint of a node that keeps a pod off it; None if there is none."""
    for taint in node.taints:
        if taint.effect in HARD and not any(tolerates(each, taint) for each in demand.tolerations):
            return Cause("tainted", messages.tainted(node.name, taint.key))
    return None


def lacking(demand: Demand, node: Node, used: Mapping[str, int]) -> str | None:
    """Returns the resource of which too little is left on a node; None if there is enough.

    ``used`` has the amounts that the pods there use, in thousandths, by resource.
    """
    for name, amount in demand.requests.items():
        offered = node.allocatable.get(name, 0)
        if not offered and name.startswith(PORT):  # a node has one of each
            offered = 0 if PORT in used else amount
        if amount and amount > offered - used.get(name, 0):
            return name
    if demand.claims and (ask := unmet(demand.claims, node.devices, used)):
        return messages.requested_by(ask.name)
    # Every pod counts as one of a node's pods; a node without this resource accepts any number.
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


def selects(term: Apart, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a term of a pod in the namespace ``own`` selects a pod with labels in a namespace.

    Only the name of a namespace is known: conditions on its other labels count as met, and so do conditions
    on labels of a pod that were not stored.
    """
    if term.labels is None or not all(
        _holds_of(labels, item) or _hides(labels, item) for item in term.labels
    ):
        return False
    if namespace in term.namespaces:
        return True
    if term.spaces is None:
        return not term.namespaces and namespace == own
    known = {NAMESPACE: namespace}
    return all(_holds_of(known, item) for item in term.spaces)


def pair_of(term: Apart) -> tuple[str, str] | None:
    """Returns the label and the value if a term selects pods by one label only; None otherwise."""
    match term.labels:
        case ():
            return ANY_LABEL
        case (Expression(key, "In", (value,)),):
            return key, value
    return None


def _holds(term: Term, node: Node) -> bool:
    # "A null or empty node selector term matches no objects" (API reference, NodeSelectorTerm).
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": node.name}  # the only field; the API server accepts only In and NotIn for it
    return all(_holds_of(node.labels, expression) for expression in term.labels) and all(
        _holds_of(fields, expression) for expression in term.fields
    )


def _holds_of(labels: Mapping[str, str], expression: Expression) -> bool:
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
            return _compares(expression, value)
        case _:
            return False


def _hides(labels: Mapping[str, str], expression: Expression) -> bool:
    return HIDDEN in labels and expression.key not in labels and expression.key not in MARKS


def _compares(expression: Expression, value: str | None) -> bool:
    """Returns whether Gt or Lt holds; both sides must be integers, and there must be one value."""
    texts = (value or "", *expression.values)
    if len(expression.values) != 1 or not all(INTEGER.fullmatch(text) for text in texts):
        return False
    number, limit = (int(text) for text in texts)
    return number > limit if expression.operator == "Gt" else number < limit

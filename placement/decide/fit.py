"""Whether a node suits a pod, as kube-scheduler sees it.

Sources: ``k8s.io/component-helpers/scheduling/corev1`` (``nodeaffinity`` for selectors and required node
affinity, ``helpers.go`` for tolerations) and the scheduler's plugins ``noderesources``, ``nodeports`` and
``interpodaffinity`` (required anti-affinity, of the pod and of those that are there). Two
rules are stricter than the scheduler's: a cordoned node and one that is not Ready suit nobody, whatever is
tolerated, because a job that starts there now loses a node soon.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

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
"""In place of a label and its value, for terms about all pods: no label is called so."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class Cause(NamedTuple):
    """Why a node, or a unit, cannot be used: in a word or two, to count equal ones, and in full."""

    kind: str
    detail: str


def unusable(node: Node) -> str | None:
    """Why a node suits nobody; None where it suits some."""
    if not node.ready:
        return "not ready"
    return "cordoned" if node.cordoned else None


def misfit(demand: Demand, node: Node) -> Cause | None:
    """Why a node that is usable does not suit a pod; None where it does. Other pods are not looked at."""
    name = f"node {node.name}"
    for taint in node.taints:
        if taint.effect in HARD and not any(tolerates(held, taint) for held in demand.tolerations):
            return Cause("tainted", f"{name} taint {taint.key}")
    for key, value in demand.selector.items():
        if node.labels.get(key) != value:
            return Cause("not selected", f"{name} is not {key}={value}")
    if demand.claims and (ask := unmet(demand.claims, node.devices, {})):
        return Cause("too few devices", f"{name} offers too few devices for {ask.name}")
    if demand.terms is not None and not any(_holds(term, node) for term in demand.terms):
        return Cause("not selected", f"{name} is not in the pods' node affinity")
    return None


def lacking(demand: Demand, node: Node, used: Mapping[str, int]) -> str | None:
    """The resource of which too little is left on a node; None where there is enough.

    What the pods there have already is given in thousandths, by resource.
    """
    for name, amount in demand.requests.items():
        offered = node.allocatable.get(name, 0)
        if not offered and name.startswith(PORT):  # a node has one of each
            offered = 0 if PORT in used else amount
        if amount and amount > offered - used.get(name, 0):
            return name
    if demand.claims and (ask := unmet(demand.claims, node.devices, used)):
        return f"of what {ask.name} asks for"
    # Every pod takes one of a node's pods; a node that does not say how many it can have takes any number.
    if "pods" in node.allocatable and node.allocatable["pods"] - used.get("pods", 0) < 1000:  # noqa: PLR2004
        return "pods"
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint (``ToleratesTaint`` in ``k8s.io/api/core/v1/toleration.go``)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def selects(term: Apart, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a term of a pod of the namespace ``own`` is about a pod with labels in a namespace.

    Of a namespace only the name is known: what a term asks of its other labels counts as met, and so does
    what it asks of labels of a pod that are not kept.
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
    """The one label, with its value, that a term selects pods by; None where it takes more to say."""
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
    fields = {"metadata.name": node.name}  # the only one; the API server takes no operators but In and NotIn
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
    """Gt and Lt: both sides are integers, and there is one to compare with."""
    texts = (value or "", *expression.values)
    if len(expression.values) != 1 or not all(_INTEGER.fullmatch(text) for text in texts):
        return False
    found, wanted = (int(text) for text in texts)
    return found > wanted if expression.operator == "Gt" else found < wanted

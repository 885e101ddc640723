"""Functions that find objects and fields in the output of Helm."""

import re
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]
NAMESPACE = "ultraserver-webhook"


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    """Returns all objects of a kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def find_object(objects: Iterable[Object], kind: str, name: str = "ultraserver-webhook") -> Object:
    """Returns the object of a kind with a name."""
    (obj,) = [item for item in of_kind(objects, kind) if item["metadata"]["name"] == name]
    return obj


def units_in_pod_guard(objects: Iterable[Object]) -> list[set[str]]:
    """Returns the units in each expression by which the guard permits anti-affinity of Pods."""
    name = "ultraserver-webhook-guard-pods"
    spec = find_object(objects, "ValidatingAdmissionPolicy", name)["spec"]
    expressions = [part["expression"] for part in (*spec["matchConditions"], *spec["variables"])]
    lists = [keys for text in expressions for keys in re.findall(r"term\.topologyKey in \[(.*?)\]", text)]
    return [set(re.findall("'(.*?)'", value)) for value in lists]


def webhooks(objects: Iterable[Object]) -> dict[str, Object]:
    """Returns every registered webhook by its name."""
    objects = list(objects)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    hooks = [hook for kind in kinds for hook in find_object(objects, kind)["webhooks"]]
    return {hook["name"]: hook for hook in hooks}


def pod_specs(objects: Iterable[Object]) -> dict[str, Object]:
    """Returns the pod spec of every Deployment, by the Deployment's name."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in of_kind(objects, "Deployment")
    }


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Returns whether a selector, only with the operators ``In`` and ``NotIn``, selects the labels."""
    results = [labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()]
    for row in selector.get("matchExpressions", ()):
        assert row["operator"] in {"In", "NotIn"}
        results.append((labels.get(row["key"]) in row["values"]) == (row["operator"] == "In"))
    return all(results)

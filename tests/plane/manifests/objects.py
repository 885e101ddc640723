"""Finding things in what Helm rendered."""

import re
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]
NAMESPACE = "ultraserver-webhook"


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    """Returns all objects of a kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def one(objects: Iterable[Object], kind: str, name: str = "ultraserver-webhook") -> Object:
    """Returns the object of a kind with a name."""
    (matching,) = [item for item in of_kind(objects, kind) if item["metadata"]["name"] == name]
    return matching


def units_of_pods(objects: Iterable[Object]) -> list[set[str]]:
    """Returns the units for which the guard permits anti-affinity, as each of its expressions has them."""
    name = "ultraserver-webhook-guard-pods"
    spec = one(objects, "ValidatingAdmissionPolicy", name)["spec"]
    expressions = [part["expression"] for part in (*spec["matchConditions"], *spec["variables"])]
    lists = [keys for text in expressions for keys in re.findall(r"term\.topologyKey in \[(.*?)\]", text)]
    return [set(re.findall("'(.*?)'", value)) for value in lists]


def webhooks(objects: Iterable[Object]) -> dict[str, Object]:
    """Returns every registered webhook by its name."""
    objects = list(objects)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    hooks = [hook for kind in kinds for hook in one(objects, kind)["webhooks"]]
    return {hook["name"]: hook for hook in hooks}


def pod_specs(objects: Iterable[Object]) -> dict[str, Object]:
    """Returns the pod spec of every Deployment."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in of_kind(objects, "Deployment")
    }


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Returns whether a label selector selects such labels; ``In`` and ``NotIn`` are all that is used."""
    fits = [labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()]
    for row in selector.get("matchExpressions", ()):
        assert row["operator"] in {"In", "NotIn"}
        fits.append((labels.get(row["key"]) in row["values"]) == (row["operator"] == "In"))
    return all(fits)

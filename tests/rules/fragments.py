"""Fragments of pod templates that the API server refuses or accepts. The lint of rules must do the same."""

from typing import Any

from webhook.rows import messages as row_messages
from webhook.rules import messages


def spec(**fields: object) -> dict[str, object]:
    return {"spec": fields}


def container(**fields: object) -> dict[str, object]:
    return spec(containers=[{"name": "main", **fields}])


def node_affinity(**fields: object) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": "a", **fields}]}]
    return spec(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    )


REFUSED = {
    "effect of a toleration": (
        spec(tolerations=[{"key": "a", "effect": "NoShedule"}]),
        "did you mean 'NoSchedule'?",
    ),
    "operator of a toleration": (
        spec(tolerations=[{"key": "a", "operator": "Exist"}]),
        "did you mean 'Exists'?",
    ),
    "toleration with Exists and a value": (
        spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "takes no value",
    ),
    "toleration without a key": (spec(tolerations=[{"effect": "NoSchedule"}]), "its operator must be Exists"),
    "key of a toleration": (
        spec(tolerations=[{"key": "a b", "operator": "Exists"}]),
        "is not a key of a label",
    ),
    "operator of node affinity": (node_affinity(operator="Equals", values=["b"]), "must be In, NotIn,"),
    "node affinity with In and no values": (node_affinity(operator="In"), row_messages.needs_values("In")),
    "node affinity with Exists and values": (
        node_affinity(operator="Exists", values=["b"]),
        messages.needless_values("Exists"),
    ),
    "value of a label": ({"metadata": {"labels": {"a": "b c"}}}, "is not a value of a label"),
    "long value of a label": ({"metadata": {"labels": {"a": "b" * 64}}}, "is not a value of a label"),
    "key of a label": ({"metadata": {"labels": {"a/b/c": "d"}}}, "is not a key of a label"),
    "value of a node selector": (spec(nodeSelector={"a": "b/c"}), "is not a value of a label"),
    "pull policy": (container(imagePullPolicy="always"), "did you mean 'Always'?"),
    "restart policy": (spec(restartPolicy="OnFail"), "did you mean 'OnFailure'?"),
    "name of a variable": (container(env=[{"name": "A=B", "value": "c"}]), "is not the name of a variable"),
    "name of a volume": (spec(volumes=[{"name": "My Volume", "emptyDir": {}}]), "is not a DNS label"),
    "name of a container": (spec(containers=[{"name": "main_1"}]), "is not a DNS label"),
    "quantity": (container(resources={"limits": {"cpu": "2 cores"}}), "is not a quantity, such as"),
    "port": (container(ports=[{"containerPort": 70000}]), messages.not_between(1, 65535, 70000)),
    "tolerationSeconds with the effect NoSchedule": (
        spec(
            tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
        ),
        messages.NEEDS_EFFECT,
    ),
    "tolerationSeconds without an effect": (
        spec(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
        "add this effect, or remove tolerationSeconds",
    ),
    "gate with a space": (spec(schedulingGates=[{"name": "whole job"}]), "is not the name of a gate"),
    "gate with an invalid domain": (spec(schedulingGates=[{"name": "A.b/c"}]), "is not the name of a gate"),
    "service account": (spec(serviceAccountName="Team"), "is not the name of an object"),
    "empty runtime class": (spec(runtimeClassName=""), "is not the name of an object"),
    "priority class": (spec(priorityClassName="very_high"), "is not the name of an object"),
    "long priority class": (spec(priorityClassName="a" * 254), "is not the name of an object"),
    "restart policy of an init container": (
        spec(initContainers=[{"name": "i", "image": "i", "restartPolicy": "always"}]),
        "did you mean 'Always'?",
    ),
    "empty restart policy of an init container": (
        spec(initContainers=[{"name": "i", "image": "i", "restartPolicy": ""}]),
        "must be Always, Never or OnFailure",
    ),
    "two sources of a volume": (
        spec(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]),
        messages.several_sources("emptyDir, hostPath"),
    ),
    "two sources of a variable": (
        container(
            env=[
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "configMapKeyRef": {"name": "a", "key": "b"},
                    },
                }
            ]
        ),
        messages.several_sources("configMapKeyRef, fieldRef"),
    ),
    "value and source of a variable": (
        container(
            env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        ),
        "value or valueFrom",
    ),
    "empty path of a mount": (container(volumeMounts=[{"name": "a", "mountPath": ""}]), "is not a path"),
    "key of an annotation": ({"metadata": {"annotations": {"a b": "c"}}}, "is not a key of an annotation"),
    "key of an annotation with an empty domain": (
        {"metadata": {"annotations": {"/a": "c"}}},
        "is not a key of an annotation",
    ),
    "termination message policy": (
        container(terminationMessagePolicy="FallbackToLogs"),
        "did you mean 'FallbackToLogsOnError'?",
    ),
}

WITH_PLACEHOLDERS = {"placeholder in a label", "placeholder as a pull policy"}
"""The accepted fragments that contain a placeholder."""

ACCEPTED = {
    "toleration of every taint": spec(tolerations=[{"operator": "Exists"}]),
    "placeholder in a label": {"metadata": {"labels": {"a": "$(job.namespace)"}}},
    "placeholder as a pull policy": container(imagePullPolicy="$(value.waitSeconds)"),
    "empty value of a label": {"metadata": {"labels": {"example.com/a": ""}}},
    "variable with a space in its name": container(env=[{"name": "a.b-c d", "value": "e"}]),
    "toleration with an empty operator and effect": spec(
        tolerations=[{"key": "a", "operator": "", "value": "b", "effect": ""}]
    ),
    "tolerationSeconds with the effect NoExecute": spec(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
    ),
    "empty values of optional fields": {
        "spec": {
            "serviceAccountName": "",
            "priorityClassName": "",
            "restartPolicy": "",
            "dnsPolicy": "",
            "containers": [{"name": "main", "imagePullPolicy": "", "terminationMessagePolicy": ""}],
        }
    },
    "names of objects": spec(runtimeClassName="a.b", serviceAccountName="a", priorityClassName="a" * 253),
    "gate with a domain": spec(schedulingGates=[{"name": "example.com/a.B_c"}]),
    "key of an annotation in upper case": {"metadata": {"annotations": {"Example.com/A": "b"}}},
    "restart policies of init containers": spec(
        initContainers=[
            {"name": name.lower(), "image": "i", "restartPolicy": name} for name in ("Always", "Never")
        ]
    ),
    "variable with an empty value and a source": container(
        env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    ),
    "node affinity with Gt": node_affinity(operator="Gt", values=["1"]),
}


def complete_template(fragment: Any) -> Any:
    """Returns a pod template that has a fragment, and the other fields that the API server requires."""
    spec = {"containers": [{"name": "main"}], **fragment.get("spec", {})}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.setdefault("image", "image:1")
    mounts = {
        mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", ())
    }
    volumes = [*spec.get("volumes", ())]
    volumes += [{"name": name, "emptyDir": {}} for name in mounts - {volume["name"] for volume in volumes}]
    metadata = {"labels": {"app": "train"}, **fragment.get("metadata", {})}
    return {"metadata": metadata, "spec": {**spec, "volumes": volumes}}

"""Parts of pod templates that the API server refuses, or takes: the lint of rules says the same."""

from typing import Any


def spec(**fields: object) -> dict[str, object]:
    return {"spec": fields}


def container(**fields: object) -> dict[str, object]:
    return spec(containers=[{"name": "main", **fields}])


def requirement(**fields: object) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": "a", **fields}]}]
    return spec(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    )


REFUSED = {
    "effect": (spec(tolerations=[{"key": "a", "effect": "NoShedule"}]), "did you mean 'NoSchedule'?"),
    "operator": (spec(tolerations=[{"key": "a", "operator": "Exist"}]), "did you mean 'Exists'?"),
    "value of Exists": (
        spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "takes no value",
    ),
    "no key": (spec(tolerations=[{"effect": "NoSchedule"}]), "its operator must be Exists"),
    "key of a taint": (spec(tolerations=[{"key": "a b", "operator": "Exists"}]), "is not a key of a label"),
    "operator of a node": (requirement(operator="Equals", values=["b"]), "must be In, NotIn,"),
    "no values": (requirement(operator="In"), "operator In needs values"),
    "values of Exists": (requirement(operator="Exists", values=["b"]), "operator Exists takes no values"),
    "label": ({"metadata": {"labels": {"a": "b c"}}}, "is not a value of a label"),
    "long label": ({"metadata": {"labels": {"a": "b" * 64}}}, "is not a value of a label"),
    "key": ({"metadata": {"labels": {"a/b/c": "d"}}}, "is not a key of a label"),
    "selector": (spec(nodeSelector={"a": "b/c"}), "is not a value of a label"),
    "pull policy": (container(imagePullPolicy="always"), "did you mean 'Always'?"),
    "restart policy": (spec(restartPolicy="OnFail"), "did you mean 'OnFailure'?"),
    "variable": (container(env=[{"name": "A=B", "value": "c"}]), "is not the name of a variable"),
    "volume": (spec(volumes=[{"name": "My Volume", "emptyDir": {}}]), "is not a name there"),
    "container": (spec(containers=[{"name": "main_1"}]), "is not a name there"),
    "quantity": (container(resources={"limits": {"cpu": "2 cores"}}), "is not a quantity, such as"),
    "port": (container(ports=[{"containerPort": 70000}]), "must be between 1 and 65535"),
    "time of another effect": (
        spec(
            tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
        ),
        "tolerationSeconds needs the effect NoExecute",
    ),
    "time of every effect": (
        spec(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
        "add this effect, or remove tolerationSeconds",
    ),
    "gate": (spec(schedulingGates=[{"name": "whole job"}]), "is not the name of a gate"),
    "gate of a domain": (spec(schedulingGates=[{"name": "A.b/c"}]), "is not the name of a gate"),
    "account": (spec(serviceAccountName="Team"), "is not the name of an object"),
    "runtime class": (spec(runtimeClassName=""), "is not the name of an object"),
    "priority class": (spec(priorityClassName="very_high"), "is not the name of an object"),
    "long priority class": (spec(priorityClassName="a" * 254), "is not the name of an object"),
    "restart policy of an init container": (
        spec(initContainers=[{"name": "i", "image": "i", "restartPolicy": "always"}]),
        "did you mean 'Always'?",
    ),
    "no restart policy": (
        spec(initContainers=[{"name": "i", "image": "i", "restartPolicy": ""}]),
        "must be Always, Never or OnFailure",
    ),
    "two sources": (
        spec(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]),
        "can have only one source, not emptyDir, hostPath: keep one",
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
        "can have only one source, not configMapKeyRef, fieldRef",
    ),
    "value and source": (
        container(
            env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        ),
        "value or valueFrom",
    ),
    "no path": (container(volumeMounts=[{"name": "a", "mountPath": ""}]), "is not a path"),
    "annotation": ({"metadata": {"annotations": {"a b": "c"}}}, "is not a key of an annotation"),
    "annotation of no domain": ({"metadata": {"annotations": {"/a": "c"}}}, "is not a key of an annotation"),
    "termination": (
        container(terminationMessagePolicy="FallbackToLogs"),
        "did you mean 'FallbackToLogsOnError'?",
    ),
}

QUOTING = {"placeholders", "policy of a value"}
"""The accepted ones that contain a placeholder."""

TAKEN = {
    "every taint": spec(tolerations=[{"operator": "Exists"}]),
    "placeholders": {"metadata": {"labels": {"a": "$(job.namespace)"}}},
    "policy of a value": container(imagePullPolicy="$(value.waitSeconds)"),
    "empty label": {"metadata": {"labels": {"example.com/a": ""}}},
    "relaxed variable": container(env=[{"name": "a.b-c d", "value": "e"}]),
    "every effect": spec(tolerations=[{"key": "a", "operator": "", "value": "b", "effect": ""}]),
    "a time": spec(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
    ),
    "nothing said": {
        "spec": {
            "serviceAccountName": "",
            "priorityClassName": "",
            "restartPolicy": "",
            "dnsPolicy": "",
            "containers": [{"name": "main", "imagePullPolicy": "", "terminationMessagePolicy": ""}],
        }
    },
    "names": spec(runtimeClassName="a.b", serviceAccountName="a", priorityClassName="a" * 253),
    "gate": spec(schedulingGates=[{"name": "example.com/a.B_c"}]),
    "annotation of upper case": {"metadata": {"annotations": {"Example.com/A": "b"}}},
    "restart policies": spec(
        initContainers=[
            {"name": name.lower(), "image": "i", "restartPolicy": name} for name in ("Always", "Never")
        ]
    ),
    "a value and a source": container(
        env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    ),
    "greater": requirement(operator="Gt", values=["1"]),
}


def whole(fragment: Any) -> Any:
    """Returns a pod template that has a fragment and all else that one needs."""
    spec = {"containers": [{"name": "main"}], **fragment.get("spec", {})}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.setdefault("image", "image:1")
    mounted = {mount["name"] for each in spec["containers"] for mount in each.get("volumeMounts", ())}
    volumes = [*spec.get("volumes", ())]
    volumes += [{"name": name, "emptyDir": {}} for name in mounted - {each["name"] for each in volumes}]
    metadata = {"labels": {"app": "train"}, **fragment.get("metadata", {})}
    return {"metadata": metadata, "spec": {**spec, "volumes": volumes}}

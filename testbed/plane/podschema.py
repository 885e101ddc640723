"""Generates ``webhook/rules/podtemplate.schema.json`` from the OpenAPI that Kubernetes publishes.

Run ``python -m testbed.plane.podschema OPENAPI_FILE > webhook/rules/podtemplate.schema.json``. The file is
``api/openapi-spec/v3/api__v1_openapi.json`` of the Go module ``k8s.io/kubernetes``, whose version is read
from the path. The output depends only on the input.

A rule adds a part of a pod template, so a struct requires no field, with two exceptions. An element of a
list that is merged by key must have its key (``x-kubernetes-list-map-keys``). An element of an atomic list is
added as a whole, so it must have all fields that Kubernetes requires.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

ROOT = "PodSpec"
# A quantity (suffixes: suffix.go of apimachinery's ``resource``), or a text with a placeholder.
QUANTITY = r"^([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?|.*\$\(.*)$"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _labels() -> Schema:
    key, value = _ref("LabelKey"), _ref("LabelValue")
    return {"type": "object", "propertyNames": key, "additionalProperties": value}


SPECIAL: dict[str, Schema] = {
    "IntOrString": {"type": ["integer", "string"]},
    "Quantity": {
        "type": ["number", "string"],
        "pattern": QUANTITY,
        "title": "a quantity, such as 2, 500m or 1.5Gi",
    },
    # The other fields of ObjectMeta are an identity, or are set by the API server.
    "ObjectMeta": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "annotations": {
                "type": "object",
                "propertyNames": _ref("AnnotationKey"),
                "additionalProperties": {"type": "string"},
            },
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _labels(),
        },
    },
}
PLACEHOLDER_TYPES = {
    "SecurityContext": r"^\$\([a-z][A-Za-z0-9]*\.securityContext\)$",
    "ResourceRequirements": r"^\$\([a-z][A-Za-z0-9]*\.resources\)$",
    "EnvVar": r"^\$\([a-z][A-Za-z0-9]*\.sshEnv\)$",
    "EnvFromSource": r"^\$\([a-z][A-Za-z0-9]*\.sshEnvFrom\)$",
    "VolumeMount": r"^\$\([a-z][A-Za-z0-9]*\.sshMounts\)$",
}
"""Structs that a placeholder may replace, as a field or an element of a list."""

PLACEHOLDER_FIELDS = {
    ("LabelSelector", "matchLabels"): r"^\$\(job\.peers\)$",
    ("PodAffinityTerm", "matchLabelKeys"): r"^\$\(job\.groupLabels\)$",
    ("PodAffinityTerm", "mismatchLabelKeys"): r"^\$\(job\.groupLabels\)$",
    ("Container", "env"): r"^\$\([a-z][A-Za-z0-9]*\.sshEnv\)$",
    ("Container", "envFrom"): r"^\$\([a-z][A-Za-z0-9]*\.sshEnvFrom\)$",
    ("Container", "volumeMounts"): r"^\$\([a-z][A-Za-z0-9]*\.sshMounts\)$",
}
"""Fields whose value a placeholder may replace."""

FORBIDDEN = {"PodSpec": {"ephemeralContainers"}}
"""Fields of a type that no pod template may use."""

_SELECTS = ["In", "NotIn", "Exists", "DoesNotExist"]
_PULL = ["Always", "IfNotPresent", "Never"]
_PROFILES = ["Localhost", "RuntimeDefault", "Unconfined"]
_POLICIES = ["Honor", "Ignore"]
VALUES = {
    ("AppArmorProfile", "type"): _PROFILES,
    ("AzureDiskVolumeSource", "cachingMode"): ["None", "ReadOnly", "ReadWrite"],
    ("AzureDiskVolumeSource", "kind"): ["Dedicated", "Managed", "Shared"],
    ("Container", "imagePullPolicy"): _PULL,
    ("Container", "restartPolicy"): ["Always", "Never", "OnFailure"],
    ("Container", "terminationMessagePolicy"): ["FallbackToLogsOnError", "File"],
    ("ContainerPort", "protocol"): ["SCTP", "TCP", "UDP"],
    ("HTTPGetAction", "scheme"): ["HTTP", "HTTPS"],
    ("HostPathVolumeSource", "type"): [
        *["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"]
    ],
    ("ImageVolumeSource", "pullPolicy"): _PULL,
    ("LabelSelectorRequirement", "operator"): _SELECTS,
    ("NodeSelectorRequirement", "operator"): [*_SELECTS, "Gt", "Lt"],
    ("PersistentVolumeClaimSpec", "volumeMode"): ["Block", "Filesystem"],
    ("PodSecurityContext", "fsGroupChangePolicy"): ["Always", "OnRootMismatch"],
    ("PodSecurityContext", "supplementalGroupsPolicy"): ["Merge", "Strict"],
    ("PodSpec", "dnsPolicy"): ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ("PodSpec", "preemptionPolicy"): ["Never", "PreemptLowerPriority"],
    ("PodSpec", "restartPolicy"): ["Always", "Never", "OnFailure"],
    ("SeccompProfile", "type"): _PROFILES,
    ("SecurityContext", "procMount"): ["Default", "Unmasked"],
    ("Toleration", "effect"): ["NoExecute", "NoSchedule", "PreferNoSchedule"],
    ("Toleration", "operator"): ["Equal", "Exists", "Gt", "Lt"],
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): _POLICIES,
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): _POLICIES,
    ("TopologySpreadConstraint", "whenUnsatisfiable"): ["DoNotSchedule", "ScheduleAnyway"],
    ("VolumeMount", "mountPropagation"): ["Bidirectional", "HostToContainer", "None"],
}
"""The values that the API server accepts in a field. The published OpenAPI has these values only in
descriptions. The API server serves an OpenAPI with enums, and tests/plane/test_api_contract.py compares this
table with them. The operators of label selectors are in apimachinery's ``meta/v1``."""

EMPTY = {
    *{("Container", "imagePullPolicy"), ("ImageVolumeSource", "pullPolicy"), ("HTTPGetAction", "scheme")},
    *{("Container", "terminationMessagePolicy"), ("ContainerPort", "protocol"), ("PodSpec", "dnsPolicy")},
    *{("PodSpec", "restartPolicy"), ("Toleration", "effect"), ("Toleration", "operator")},
}
"""The fields in `VALUES` for which an empty text means that the field is not set."""

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PREFIX = f"({_DOMAIN}/)?"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_FORM = "at most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit"
_OBJECT = (
    "the name of an object: at most 253 lower case letters, digits, '-' and '.', "
    "the first and last a letter or digit"
)
PATTERNS: dict[str, tuple[str, str]] = {
    "LabelKey": (f"^{_PREFIX}{_NAME}$", f"a key of a label: NAME or DOMAIN/NAME, where NAME has {_FORM}"),
    "GateName": (f"^{_PREFIX}{_NAME}$", f"the name of a gate: NAME or DOMAIN/NAME, where NAME has {_FORM}"),
    "AnnotationKey": (
        f"^{_PREFIX.replace('a-z', 'A-Za-z')}{_NAME}$",
        f"a key of an annotation: NAME or DOMAIN/NAME, where NAME has {_FORM}",
    ),
    "LabelValue": (f"^({_NAME})?$", f"a value of a label: {_FORM}"),
    "DnsLabel": (
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        "a DNS label: at most 63 lower case letters, digits and '-', the first and last a letter or digit",
    ),
    "ObjectName": (f"^(?=.{{1,253}}$){_DOMAIN}$", _OBJECT),
    "NameOrNone": (f"^((?=.{{1,253}}$){_DOMAIN})?$", _OBJECT),
    "MountPath": ("^.", "a path: write where the container has the volume, such as /data"),
    "EnvName": ("^[ -<>-~]+$", "the name of a variable: printable ASCII characters except '='"),
}
"""The forms of texts, as in apimachinery's ``util/validation``. A form has a pattern and a description."""

FORMS = {
    ("Container", "name"): "DnsLabel",
    ("Volume", "name"): "DnsLabel",
    ("EnvVar", "name"): "EnvName",
    **{(name, "key"): "LabelKey" for name in ("LabelSelectorRequirement", "NodeSelectorRequirement")},
    **{(name, "values"): "LabelValue" for name in ("LabelSelectorRequirement", "NodeSelectorRequirement")},
    **{(name, "topologyKey"): "LabelKey" for name in ("PodAffinityTerm", "TopologySpreadConstraint")},
    ("Toleration", "key"): "LabelKey",
    ("Toleration", "value"): "LabelValue",
    ("PodResourceClaim", "name"): "DnsLabel",
    ("PodSchedulingGate", "name"): "GateName",
    ("PodSpec", "runtimeClassName"): "ObjectName",
    **{
        ("PodSpec", key): "NameOrNone"
        for key in ("priorityClassName", "serviceAccount", "serviceAccountName")
    },
    ("VolumeMount", "mountPath"): "MountPath",
}
"""The form of a field's text or, if the field is a list, of each text in the list."""

MAPS = {("LabelSelector", "matchLabels"), ("PodSpec", "nodeSelector"), ("ObjectMeta", "labels")}
"""The fields that are maps of labels."""

_WEIGHT, _PORT = (1, 100), (1, 65535)
RANGES = {
    ("PreferredSchedulingTerm", "weight"): _WEIGHT,
    ("WeightedPodAffinityTerm", "weight"): _WEIGHT,
    ("ContainerPort", "containerPort"): _PORT,
    ("ContainerPort", "hostPort"): _PORT,
    ("TopologySpreadConstraint", "maxSkew"): (1, 2**31 - 1),
}
"""The minimum and maximum of a field."""

MAX_DESCRIPTION = 140


class Generator:
    """Generates a JSON Schema from an OpenAPI document."""

    def __init__(self, openapi: Schema) -> None:
        self.types = {name.rsplit(".", 1)[1]: body for name, body in openapi["components"]["schemas"].items()}
        self.partial = self._reachable(ROOT, through_atomic=False)

    def schema(self, comment: str) -> Schema:
        """Returns the whole schema."""
        names = sorted(self._reachable(ROOT, through_atomic=True) | {"ObjectMeta"})
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$comment": comment,
            "title": "A part of a pod template",
            "type": "object",
            "additionalProperties": False,
            "properties": {"metadata": _ref("ObjectMeta"), "spec": _ref(ROOT)},
            "$defs": {name: self._definition(name) for name in names}
            | {
                name: _without_placeholder(pattern=form, title=title)
                for name, (form, title) in PATTERNS.items()
            },
        }

    def _fields(self, name: str) -> dict[str, Schema]:
        if name in SPECIAL:
            return {}
        hidden = FORBIDDEN.get(name, set())
        fields = self.types[name].get("properties", {})
        return {key: fields[key] for key in sorted(fields) if key not in hidden}

    def _reachable(self, name: str, *, through_atomic: bool) -> set[str]:
        """Returns the types below a type, optionally without the types that are only in atomic lists."""
        reached, todo = set(), [name]
        while todo:
            if (current := todo.pop()) not in reached:
                reached.add(current)
                for field in self._fields(current).values():
                    if through_atomic or field.get("x-kubernetes-list-type") != "atomic":
                        todo += _references(field)
        return reached

    def _definition(self, name: str) -> Schema:
        if name in SPECIAL:
            return SPECIAL[name]
        body = self.types[name]
        if body.get("type") != "object":
            return {"type": body["type"]}
        schema: Schema = {"type": "object", "additionalProperties": False}
        if name in PLACEHOLDER_TYPES:
            schema |= {"type": ["object", "string"], "pattern": PLACEHOLDER_TYPES[name]}
        if name not in self.partial and body.get("required"):
            schema["required"] = sorted(body["required"])
        schema["properties"] = {
            key: _or_placeholder(
                name, key, _with_description(field) | _constrained(name, key, self._type(field))
            )
            for key, field in self._fields(name).items()
        }
        return schema

    def _type(self, field: Schema) -> Schema:
        if references := list(_references({key: field[key] for key in ("allOf", "$ref") if key in field})):
            return _ref(references[0])
        schema: Schema = {"type": field["type"]}
        if "additionalProperties" in field:
            schema["additionalProperties"] = self._type(field["additionalProperties"])
        if "items" in field:
            items = self._type(field["items"])
            if required := self._required(field):
                items["required"] = required
            schema["items"] = items
        return schema

    def _required(self, field: Schema) -> list[str]:
        """Returns the fields that each element of a list must have, but that its type does not require."""
        names = list(_references(field["items"]))
        if not names or names[0] not in self.partial:
            return []
        item = self.types[names[0]]
        if keys := field.get("x-kubernetes-list-map-keys"):
            # A key with a default, such as a port's protocol, is optional.
            return sorted(key for key in keys if not item["properties"][key].get("default"))
        return sorted(item.get("required", []))


def _with_description(field: Schema) -> Schema:
    description = _first_sentence(field.get("description", ""))
    return {"description": description} if description else {}


def _or_placeholder(struct: str, field: str, schema: Schema) -> Schema:
    pattern = PLACEHOLDER_FIELDS.get((struct, field))
    return schema | {"type": [schema["type"], "string"], "pattern": pattern} if pattern else schema


def _constrained(name: str, key: str, schema: Schema) -> Schema:
    """Returns the schema of a field, with the constraints of the API server."""
    place = name, key
    if place in MAPS:
        return _labels()
    if place in FORMS:
        form = _ref(FORMS[place])
        return schema | {"items": form} if schema["type"] == "array" else form
    smallest, largest = RANGES.get(place, (None, None))
    schema |= {"minimum": smallest, "maximum": largest} if smallest else {}
    values = [*VALUES.get(place, ()), *[""] * (place in EMPTY)]
    return schema | _without_placeholder(enum=values) if values else schema


def _without_placeholder(**constraints: object) -> Schema:
    """Returns the schema of a text. The constraints apply only if the text contains no placeholder."""
    return {"type": "string", "if": {"not": {"pattern": r"\$\("}}, "then": constraints}


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit(".", 1)[1]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _first_sentence(text: str) -> str:
    """Returns the first sentence of a description, which editors show next to a completion."""
    text = " ".join(text.split()).removeprefix("Required. ").removeprefix("Optional: ")
    sentence = re.split(r"(?<=\.)(?<!e\.g\.)(?<!i\.e\.) ", text, maxsplit=1)[0]
    return (
        sentence if len(sentence) <= MAX_DESCRIPTION else sentence[:MAX_DESCRIPTION].rsplit(" ", 1)[0] + " …"
    )


def render(schema: Schema) -> str:
    """Returns the schema as JSON with one definition per line, so that a diff shows the changed types."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    lines = [f"{compact(key)}:{compact(value)}" for key, value in schema.items() if key != "$defs"]
    definitions = ",\n".join(f"{compact(name)}:{compact(body)}" for name, body in schema["$defs"].items())
    return "{\n" + ",\n".join(lines) + ',\n"$defs":{\n' + definitions + "\n}\n}\n"


def main(path: Path) -> str:
    """Returns the text of the schema that is generated from an OpenAPI file.

    Raises:
        ValueError: The path of the file does not contain the module's version.
    """
    version = re.search(r"k8s\.io/kubernetes@(v[0-9.]+)/(.*)", str(path.absolute()))
    if version is None:
        raise ValueError(
            f"{path} is not in a module folder k8s.io/kubernetes@vX.Y.Z, so its version is unknown"
        )
    source = f"{version[2]} of k8s.io/kubernetes {version[1]} (Apache-2.0)"
    comment = f"Made by testbed/plane/podschema.py from {source}."
    return render(Generator(json.loads(path.read_text(encoding="utf-8"))).schema(comment))


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1])))

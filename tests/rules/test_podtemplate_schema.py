"""Tests that the JSON Schema of fragments accepts the fields of Kubernetes, and refuses unknown fields."""

import json
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from testbed.mpijob import mpijob
from testbed.plane import podschema
from tests.rules.tables import mutate, parse_yaml
from webhook.rows import placeholders
from webhook.rules import schema
from webhook.rules.load import load_default

TEXT = files("webhook.rules").joinpath("podtemplate.schema.json").read_text(encoding="utf-8")
SCHEMA = json.loads(TEXT)
VALIDATOR = Draft202012Validator(SCHEMA)


def _fragment() -> Any:
    """Returns the packaged table's additions to a job, with more fields and placeholders."""
    roles = mutate(load_default(), mpijob(16))["spec"]["mpiReplicaSpecs"]
    launcher, worker = (roles[role]["template"] for role in ("Launcher", "Worker"))
    wait, init = launcher["spec"]["initContainers"]
    init_fields = parse_yaml("""
securityContext: $(launcher.securityContext)
resources:
  limits: {cpu: 1, memory: 1.5Gi, aws.amazon.com/neuron: "16", hugepages-2Mi: $(value.pages)}
readinessProbe:
  httpGet: {port: http}
livenessProbe:
  tcpSocket: {port: 22}
""")
    spec = parse_yaml("""
volumes:
- name: shm
  emptyDir: {medium: Memory, sizeLimit: 1e9}
tolerations:
- {key: aws.amazon.com/neuron, operator: Exists, effect: NoSchedule}
imagePullSecrets:
- name: pull
schedulerName: my-scheduler
""")
    spec["volumes"] += launcher["spec"]["volumes"]
    return {**worker, "spec": {**worker["spec"], **spec, "initContainers": [wait, init | init_fields]}}


FRAGMENT = _fragment()


def violations(fragment: Any) -> list[tuple[str, str]]:
    """Returns the violations of the schema in a fragment. Asserts that loading agrees with the schema."""
    errors = [(error.json_path, error.message) for error in VALIDATOR.iter_errors(fragment)]
    table = {"extends": "default", "rules": [{"name": "x", "add": fragment}]}
    loading = [path for path, _ in schema.violations(table) if path[:3] == ("rules", 0, "add")]
    assert bool(loading) == bool(errors)
    return errors


def change_fragment(path: str, value: object, *, drop: str = "") -> dict[str, Any]:
    """Returns the fragment with one value set, and with one key of the same map removed."""
    fragment = deepcopy(FRAGMENT)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    node: Any = fragment
    for part in parents:
        node = node[part]
    node.pop(drop, None) if drop else None
    node[last] = value
    return dict(fragment)


def test_the_schema_itself_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_fragments_of_the_packaged_table_are_valid() -> None:
    assert violations(FRAGMENT) == []
    assert violations({}) == []
    assert violations({"spec": {"containers": [{"name": "main", "env": [{"name": "A"}]}]}}) == []


ANTI_AFFINITY = "spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0"
EXPRESSION = f"{ANTI_AFFINITY}/labelSelector/matchExpressions/0"


@pytest.mark.parametrize(
    ("path", "value", "drop", "message"),
    [
        ("spec/nodeSelecter", {"a": "b"}, "nodeSelector", "'nodeSelecter' was unexpected"),
        (f"{EXPRESSION}/operater", "In", "operator", "'operater' was unexpected"),
        (f"{EXPRESSION}/operater", "In", "operator", "'operator' is a required property"),
        (f"{EXPRESSION}/operator", "Notin", "", "'Notin' is not one of"),
        (f"{ANTI_AFFINITY}/namespaces", [], "topologyKey", "'topologyKey' is a required property"),
        ("metadata/labels/a", 1, "", "1 is not of type 'string'"),
        ("spec/initContainers/1/image", "x", "name", "'name' is a required property"),
        ("spec/initContainers/1/resources/limits/cpu", "1 cpu", "", "does not match"),
        ("spec/initContainers/1/resources/limits/cpu", True, "", "not of type 'number', 'string'"),
        ("spec/terminationGracePeriodSeconds", "30", "", "'30' is not of type 'integer'"),
        ("spec/affinity/podAffinity", None, "", "None is not of type 'object'"),
        ("spec/initContainers/0/securityContext", "$(launcher.image)", "", "does not match"),
        ("spec/initContainers/0/securityContext", {"runAsRoot": True}, "", "'runAsRoot' was unexpected"),
        ("spec/volumes/0/emptyDir", [], "", "[] is not of type 'object'"),
    ],
)
def test_typos_and_wrong_types_are_refused(path: str, value: object, drop: str, message: str) -> None:
    assert any(message in text for _, text in violations(change_fragment(path, value, drop=drop)))


@pytest.mark.parametrize(
    "quantity", [1, 0.5, "1", "+1", "-.5", "1.", "100m", "1.5Gi", "1e3", "12E-2", "5E", "$(value.x)"]
)
def test_a_quantity_that_kubernetes_accepts_is_valid(quantity: object) -> None:
    assert violations({"spec": {"overhead": {"cpu": quantity}}}) == []


@pytest.mark.parametrize("quantity", ["", "1 Gi", "Gi", "1gb", "1K", "1ki", ".", "1e", "0x1", None, [1]])
def test_a_quantity_that_kubernetes_refuses_is_invalid(quantity: object) -> None:
    assert len(violations({"spec": {"overhead": {"cpu": quantity}}})) == 1


def test_every_placeholder_for_a_map_or_a_list_has_a_type_in_the_schema() -> None:
    placeholder_names = {pattern.rsplit(".", 1)[1] for pattern in podschema.PLACEHOLDER_TYPES.values()}
    assert placeholder_names == {name + r"\)$" for name in (*placeholders.ROLE_MAPS, *placeholders.SSH_LISTS)}


def test_every_definition_refuses_unknown_keys_and_is_referenced() -> None:
    for name, definition in SCHEMA["$defs"].items():
        assert "properties" not in definition or definition["additionalProperties"] is False, name
    names = {part.split('"')[0] for part in TEXT.split('"$ref":"#/$defs/')[1:]}
    assert names == set(SCHEMA["$defs"])


def test_the_schema_is_small_enough_for_an_editor() -> None:
    assert len(TEXT) < 120_000


def test_the_schema_is_the_output_of_the_generator(tmp_path: Path) -> None:
    module = tmp_path / "k8s.io/kubernetes@v9.9.9/api"
    module.mkdir(parents=True)
    name = {"type": "string", "description": "The name. Unique."}
    item = {
        "type": "object",
        "required": ["name", "x"],
        "properties": {"name": name, "x": {"type": "integer"}},
    }
    array = {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Item"}]}}
    map_list = {**array, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    spec = {"type": "object", "required": ["items"], "properties": {"items": map_list}}
    types = {"io.k8s.PodSpec": spec, "io.k8s.Item": item}
    (module / "openapi.json").write_text(json.dumps({"components": {"schemas": types}}))
    text = podschema.main(module / "openapi.json")
    schema_of_module = json.loads(text)
    assert schema_of_module["$comment"].endswith(
        "from api/openapi.json of k8s.io/kubernetes v9.9.9 (Apache-2.0)."
    )
    assert schema_of_module["$defs"]["PodSpec"]["properties"]["items"]["items"] == {
        "$ref": "#/$defs/Item",
        "required": ["name"],
    }
    assert "required" not in schema_of_module["$defs"]["Item"]
    assert schema_of_module["$defs"]["Item"]["properties"]["name"] == {
        "description": "The name.",
        "type": "string",
    }
    map_list["x-kubernetes-list-type"] = "atomic"
    (module / "openapi.json").write_text(json.dumps({"components": {"schemas": types}}))
    assert json.loads(podschema.main(module / "openapi.json"))["$defs"]["Item"]["required"] == ["name", "x"]
    assert SCHEMA["$comment"].endswith("of k8s.io/kubernetes v1.36.3 (Apache-2.0).")
    assert podschema.render(SCHEMA) == TEXT
    with pytest.raises(ValueError, match="version is unknown"):
        podschema.main(tmp_path / "openapi.json")

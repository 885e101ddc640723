"""Tests that the MPIJob CRD accepts and keeps everything that the webhook adds to a job."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import Phase, example, given, settings

from testbed.kits import build
from testbed.mpijob import mpijob
from testbed.plane import jobs as testbed_jobs
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, Object, objects
from testbed.plane.webhook import RunningWebhook
from tests.engine.strategies import jobs
from webhook.engine import Request, evaluate
from webhook.engine.outcome import Response
from webhook.objects.lists import APPENDABLE, IDENTITY_KEYS, TERMS
from webhook.objects.tree import Json
from webhook.rules.load import load_default

TABLE = load_default()
JOBS = 100
# Names that the webhook uses for its own init containers and volumes.
TAKEN = {
    "initContainers": [{"name": "wait-hostfilename"}, {"name": "ultraserver-init-container"}],
    "volumes": [{"name": "ultraserver-init", "hostPath": {"path": "/mnt"}}],
}


@functools.cache
def schema_of(folder: Path) -> Object:
    """Returns the schema of MPIJob v2beta1 from mpi-operator's CRD."""
    crd = yaml.safe_load((folder / build.CRD).read_text(encoding="utf-8"))
    (version,) = crd["spec"]["versions"]
    schema: Object = version["schema"]["openAPIV3Schema"]
    return schema


def schemas_with_paths(
    schema: Object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Object]]:
    """Yields every schema in a schema, with the path of names that leads to it."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas_with_paths(inner, (*path, name))
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas_with_paths(schema[key], path)


def without_nulls(node: Json) -> Json:
    """Returns the object without nulls, which the API server drops before admission."""
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    return [without_nulls(item) for item in node] if isinstance(node, list) else node


def test_lists_are_merged_by_the_keys_of_the_schema(tools: Path) -> None:
    spec = schema_of(tools)["properties"]["spec"]
    by_key, atomic = {}, set()
    for path, schema in schemas_with_paths(spec):
        if schema.get("type") == "array":
            if schema.get("x-kubernetes-list-type") == "map":
                by_key[path[-1]] = tuple(schema["x-kubernetes-list-map-keys"])
            else:
                atomic.add(path[-1])
    # The API server refuses ephemeral containers in a template.
    del by_key["ephemeralContainers"]
    assert by_key == IDENTITY_KEYS
    assert not atomic & IDENTITY_KEYS.keys()
    assert atomic >= {*APPENDABLE, TERMS}


@pytest.fixture(scope="module")
def two_namespaces(
    control_plane: ControlPlane, registered_webhook: RunningWebhook
) -> Iterator[tuple[Kubectl, Kubectl]]:
    """Kubectl for a namespace with the webhook, and for a namespace without it."""
    assert registered_webhook.url
    with (
        testbed_jobs.temporary_namespace(control_plane, "generated-jobs") as mutated,
        testbed_jobs.temporary_namespace(
            control_plane, "generated-jobs-plain", {webhook.INJECT: "disabled"}
        ) as plain,
    ):
        yield mutated, plain


def generate_jobs() -> list[Object]:
    """Returns generated jobs, which are equal in every run."""
    result: list[Object] = []

    @given(jobs(has_name=True))
    @example(mpijob(4, namespace="default", launcher_spec=TAKEN))
    @settings(max_examples=JOBS, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
    def add_job(job: Object) -> None:
        result.append(with_number(job, len(result)))

    add_job()
    return result


def with_number(job: Object, number: int) -> Object:
    job = json.loads(json.dumps(without_nulls(job)))
    job["metadata"]["name"] += f"-{number}"
    del job["metadata"]["namespace"]
    return job


def accepted_jobs(kubectl: Kubectl, batch: list[Object]) -> dict[str, Object]:
    """Returns the jobs that the API server accepts in a dry run, by name. A single kubectl sends all jobs."""
    create = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", "-")
    output = kubectl.run(*create, stdin=testbed_jobs.to_json(testbed_jobs.list_object(*batch)), check=False)
    return {job["metadata"]["name"]: job for job in objects(output.stdout)}


def without_templates(job: Object) -> Object:
    """Returns a job without its pod templates, status, and the metadata that the API server writes."""
    metadata = {key: job["metadata"].get(key) for key in ("labels", "annotations", "finalizers")}
    return {"metadata": metadata, "spec": {**job["spec"], "mpiReplicaSpecs": None}}


def test_the_api_server_stores_what_the_engine_computes_for_any_job(
    two_namespaces: tuple[Kubectl, Kubectl],
) -> None:
    mutated, plain = two_namespaces
    batch = generate_jobs()
    without_webhook, stored = accepted_jobs(plain, batch), accepted_jobs(mutated, batch)
    placed, refused = 0, 0
    for job in batch:
        name = job["metadata"]["name"]
        outcome = evaluate(TABLE, Request(job, str(mutated.namespace)))
        if name not in without_webhook or outcome.response is Response.DENIED:
            assert name not in stored
            refused += name in without_webhook
            continue
        assert stored[name]["spec"]["mpiReplicaSpecs"] == outcome.after["spec"]["mpiReplicaSpecs"]
        assert without_templates(stored[name]) == without_templates(without_webhook[name])
        placed += bool(outcome.operations)
    # Otherwise, too few generated jobs reach the comparison.
    assert placed > JOBS // 4
    assert refused

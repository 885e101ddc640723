"""The Pods of a preview are those of the real operators, in all that the webhook adds to them."""

from collections.abc import Callable, Iterator

import pytest

from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob, trainjob
from tests.plane.previewed import SIZES, are_as_previewed, blocks, pods_of
from webhook.preview.hints import SCALARS

MADE: dict[str, Callable[[int], Object]] = {
    "Job": lambda size: job(size, completionMode="Indexed"),
    "Job without numbers": job,
    "JobSet": lambda size: jobset(max(1, size // 2), min(2, size)),
    "LeaderWorkerSet": lambda size: leaderworkerset(1, size),
    "PyTorchJob": lambda size: pytorchjob(size - (size > 1), masters=int(size > 1)),
    "MPIJob v1": mpijob_v1,
    "TrainJob": trainjob,
}


DEFINITIONS = (
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "pytorchjobs.kubeflow.org",
    "mpijobs.kubeflow.org",
)


def fields_of(schema: Object) -> Iterator[tuple[str, str]]:
    """Yields name and type of every field outside of pod templates."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner.get("type", "")
    inside = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for inner in inside:
        if isinstance(inner, dict) and "containers" not in inner.get("properties", {}):
            yield from fields_of(inner)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_fields_have_the_types_of_the_real_definitions(name: str, plane: ControlPlane) -> None:
    """Protects people from a false warning that the API server refuses a field."""
    (version,) = plane.kubectl.get_json("crd", name)["spec"]["versions"]
    fields = set(fields_of(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))
    known = {(field, SCALARS[field]["type"]) for field, _ in fields if field in SCALARS}
    assert known
    assert known == {(field, of) for field, of in fields if field in SCALARS}


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("kind", MADE)
def test_the_pods_of_a_preview_get_what_those_of_the_operator_get(kind: str, namespace: Kubectl) -> None:
    jobs = {f"of-{size}": MADE[kind](size) for size in SIZES}
    for name, made in jobs.items():
        made["metadata"]["name"] = name
        namespace.create(made)
    for (name, made), size in zip(jobs.items(), SIZES, strict=True):
        pods = pods_of(namespace, name, size + (kind == "MPIJob v1"))
        # A TrainJob's templates are those of the JobSet that Kubeflow Trainer makes of it.
        shown = namespace.get_json("jobset", name) if kind == "TrainJob" else made
        are_as_previewed(namespace, shown, pods)
        group = "0-" * (kind == "LeaderWorkerSet")
        several = size == 8 and "without" not in kind
        assert blocks(pods) == ({f"{group}0", f"{group}1"} if several else set())

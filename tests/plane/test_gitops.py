"""Tests of the differences that Argo CD and Flux find after a sync, and of a second sync (docs/gitops.md).

Flux, and Argo CD with ServerSideDiff, compare the stored object with a dry run of a forced server-side apply.
By default, Argo CD merges the file and the stored object itself. The code of both was run once against this
control plane (Argo CD 3.1.9, fluxcd/pkg/ssa 0.70.0). In these tests, kubectl sends their requests.
"""

import copy
from collections.abc import Iterator

import pytest
import yaml

from testbed import chart
from testbed.mpijob import IMAGE, LAUNCHER, WORKER, mpijob
from testbed.plane import nodes
from testbed.plane.jobs import list_object, template, to_json
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import REPOSITORY
from tests.helpers import kubectl_apply
from tests.plane.ways import with_own_lists
from webhook.objects.tree import get

pytestmark = pytest.mark.usefixtures("registered_webhook")

ARGO = "--field-manager=argocd-controller"
SERVER_SIDE = ("--server-side", "--force-conflicts", ARGO)
"""Flux applies with these options, too, but with its own field manager."""
WAYS = {"Argo CD": (ARGO,), "Flux, or Argo CD with ServerSideApply": SERVER_SIDE}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def documented_job() -> Object:
    """Returns a job whose author wrote an affinity term and the init containers, as in AWS's document."""
    role, job_name = "training.kubeflow.org/job-role", "training.kubeflow.org/job-name"
    other_jobs = {"key": job_name, "operator": "NotIn", "values": ["documented"]}
    selector = {"matchLabels": {role: "worker"}, "matchExpressions": [other_jobs]}
    term = {"labelSelector": selector, "topologyKey": nodes.SERVER_ID_4}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    init_containers = [
        {"name": name, "image": IMAGE} for name in ("wait-hostfilename", "ultraserver-init-container")
    ]
    return mpijob(
        4,
        name="documented",
        worker_spec={"affinity": affinity},
        launcher_spec={"initContainers": init_containers},
    )


PLAIN_JOBS = [mpijob(workers, name=f"workers-{workers}") for workers in (1, 2, 4, 16)] + [
    yaml.safe_load((REPOSITORY / "tests/data/seed-004/nccl-tests.yaml").read_text(encoding="utf-8"))
]
JOBS_WITH_OWN_LISTS = [
    documented_job(),
    with_own_lists("lists"),
    mpijob(4, name="selector", worker_spec={"nodeSelector": {nodes.MODE: "1_2_4"}}),
]
"""Jobs whose authors set lists or maps to which the webhook adds."""

NO_FIELDS: set[str] = set()
DIFFERENT = {
    "documented": ({"Worker.affinity"}, {"Worker.affinity"}),
    "lists": ({"Worker.affinity"}, {"Launcher.initContainers", "Worker.affinity"}),
    "selector": ({"Worker.nodeSelector"}, NO_FIELDS),
}
"""By job, the fields that differ in a server-side apply, which replaces atomic lists and maps, and in the
default comparison of Argo CD, which replaces all lists."""
SERVER_SIDE_DIFFERENCES, DEFAULT_DIFFERENCES = (
    {name: both[at] for name, both in DIFFERENT.items()} for at in (0, 1)
)


def suspended_job(job: Object) -> Object:
    return {**job, "spec": {**job["spec"], "runPolicy": {"suspend": True}}}


def is_started_or_suspended(job: Object) -> bool:
    """Returns whether the operator has started a job, or the job is suspended."""
    return "startTime" in job.get("status", {}) or get(job, ("spec", "runPolicy", "suspend")) is True


def sync(inside: Kubectl, files: list[Object], way: tuple[str, ...]) -> list[Object]:
    """Applies files. Returns the stored jobs when all are started or suspended."""
    inside.apply(list_object(*files), *way)
    inside.wait_for(lambda obj: all(map(is_started_or_suspended, obj["items"])), "mpijobs")
    return stored_jobs(inside, files)


def stored_jobs(inside: Kubectl, files: list[Object]) -> list[Object]:
    result = {job["metadata"]["name"]: job for job in inside.get_json("mpijobs")["items"]}
    return [result[file["metadata"]["name"]] for file in files]


def server_side_results(inside: Kubectl, files: list[Object]) -> list[Object]:
    """Returns the jobs that a forced server-side apply of the files would store, by a dry run."""
    return list(inside.apply(list_object(*files), *SERVER_SIDE, "--dry-run=server")["items"])


def default_results(live_jobs: list[Object], files: list[Object]) -> list[Object]:
    """Returns each stored job after Argo CD's default merge with its file."""
    return [kubectl_apply(live, file) for live, file in zip(live_jobs, files, strict=True)]


def differences(live_jobs: list[Object], results: list[Object]) -> dict[str, set[str]]:
    """Returns, by job, the pod specs' fields that differ. Asserts that nothing else in the spec differs."""
    result = {}
    for job, changed in zip(live_jobs, results, strict=True):
        pair = [copy.deepcopy({"spec": obj["spec"]}) for obj in (job, changed)]
        result[job["metadata"]["name"]] = set(_remove_pod_specs(pair))
        assert pair[0] == pair[1]
    return result


def _remove_pod_specs(pair: list[Object]) -> Iterator[str]:
    """Removes the fields of the pod specs of two jobs, and yields the fields that differ."""
    for role in ("Launcher", "Worker"):
        specs = [template(job, role)["spec"] for job in pair]
        for key in {*specs[0], *specs[1]}:
            values = [spec.pop(key, None) for spec in specs]
            if values[0] != values[1]:
                yield f"{role}.{key}"


def are_unchanged(inside: Kubectl, live_jobs: list[Object]) -> bool:
    """Returns whether no update has changed a spec, which would raise the generation."""
    return [job["metadata"]["generation"] for job in stored_jobs(inside, live_jobs)] == [1] * len(live_jobs)


@way
def test_plain_jobs_are_in_sync_and_a_second_sync_changes_nothing(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    live_jobs = sync(namespace, PLAIN_JOBS, way)
    assert all("affinity" in get(job, WORKER)["spec"] for job in live_jobs[1:4])
    for results in (server_side_results(namespace, PLAIN_JOBS), default_results(live_jobs, PLAIN_JOBS)):
        assert not any(differences(live_jobs, results).values())
    namespace.apply(list_object(*PLAIN_JOBS), *way)
    assert are_unchanged(namespace, live_jobs)


@way
def test_a_suspended_job_with_own_lists_differs_only_in_argo_cds_default_comparison(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    files = [suspended_job(job) for job in JOBS_WITH_OWN_LISTS]
    live_jobs = sync(namespace, files, way)
    assert differences(live_jobs, server_side_results(namespace, files)) == dict.fromkeys(
        DIFFERENT, NO_FIELDS
    )
    assert differences(live_jobs, default_results(live_jobs, files)) == DEFAULT_DIFFERENCES
    namespace.apply(list_object(*files), *way)
    assert are_unchanged(namespace, live_jobs)


@way
def test_a_running_job_with_own_lists_differs_and_is_unchanged_if_its_templates_are_ignored(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    live_jobs = sync(namespace, JOBS_WITH_OWN_LISTS, way)
    assert (
        differences(live_jobs, server_side_results(namespace, JOBS_WITH_OWN_LISTS)) == SERVER_SIDE_DIFFERENCES
    )
    assert differences(live_jobs, default_results(live_jobs, JOBS_WITH_OWN_LISTS)) == DEFAULT_DIFFERENCES
    # With RespectIgnoreDifferences, Argo CD applies the stored value of each ignored field.
    files_with_stored_templates = copy.deepcopy(JOBS_WITH_OWN_LISTS)
    for file, live in zip(files_with_stored_templates, live_jobs, strict=True):
        for path in (LAUNCHER, WORKER):
            get(file, path[:-1])["template"] = get(live, path)
    for _ in range(2):
        namespace.apply(list_object(*files_with_stored_templates), *way)
        assert are_unchanged(namespace, live_jobs)


def test_without_force_another_manager_conflicts_only_where_the_webhook_added_to_an_own_list(
    namespace: Kubectl,
) -> None:
    for file, conflict in (
        (PLAIN_JOBS[2], ""),
        (JOBS_WITH_OWN_LISTS[1], ".podAntiAffinity.requiredDuringScheduling"),
    ):
        sync(namespace, [file], SERVER_SIDE)
        result = namespace.run("apply", "--server-side", "-f", "-", stdin=to_json(file), check=False)
        assert bool(result.returncode) is bool(conflict)
        assert conflict in result.stderr
        assert result.stderr.count("\n- .") <= 1


@way
def test_an_installation_stays_in_sync_when_the_ca_bundles_and_replicas_are_written(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    registration, deployment = (
        next(obj for obj in chart.objects() if (obj["kind"], obj["metadata"]["name"]) == (kind, chart.NAME))
        for kind in ("MutatingWebhookConfiguration", "Deployment")
    )
    deployment["metadata"].pop("namespace")
    registration["metadata"]["name"] = namespace.namespace
    for hook in registration["webhooks"]:
        hook["namespaceSelector"] = {"matchLabels": {"asked": "nowhere"}}
    manifest = list_object(registration, deployment)
    namespace.apply(manifest, *way)
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace.namespace}"
    bundles = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": "Zm9v"}
        for number in range(len(registration["webhooks"]))
    ]
    try:
        namespace.api.send("PATCH", path, bundles, "application/json-patch+json")
        namespace.run("scale", "deployment", deployment["metadata"]["name"], "--replicas=5")
        for options in ((*SERVER_SIDE, "--dry-run=server"), way):
            configuration, scaled = namespace.apply(manifest, *options)["items"]
            assert {hook["clientConfig"]["caBundle"] for hook in configuration["webhooks"]} == {"Zm9v"}
            assert scaled["spec"]["replicas"] == 5
    finally:
        namespace.run("delete", "-f", "-", stdin=to_json(manifest))

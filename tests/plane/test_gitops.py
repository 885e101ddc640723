"""GitOps: what Argo CD and Flux see of a synced file, and what a second sync of it does (docs/gitops.md).

Flux, and Argo CD with ServerSideDiff, compare with a server-side apply by force as a dry run. By default Argo
CD merges file and stored object itself. They do not run here: their own code was run once against this
control plane (Argo CD 3.1.9, fluxcd/pkg/ssa 0.70.0), and here kubectl asks for what they ask for.
"""

import copy
from collections.abc import Iterator

import pytest
import yaml

from testbed import chart
from testbed.mpijob import IMAGE, LAUNCHER, WORKER, mpijob
from testbed.plane import nodes
from testbed.plane.jobs import template, text, together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import REPOSITORY
from tests.helpers import applied
from tests.plane.ways import with_own_lists
from webhook.objects.tree import get

pytestmark = pytest.mark.usefixtures("registered_webhook")

ARGO = "--field-manager=argocd-controller"
SERVER_SIDE = ("--server-side", "--force-conflicts", ARGO)
"""Flux applies in this way too, under another name."""
WAYS = {"Argo CD": (ARGO,), "Flux, or Argo CD with ServerSideApply": SERVER_SIDE}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def documented() -> Object:
    """Returns a job with a term and init containers by hand, as the UltraServer document writes them."""
    role, name = "training.kubeflow.org/job-role", "training.kubeflow.org/job-name"
    others = {"key": name, "operator": "NotIn", "values": ["documented"]}
    selector = {"matchLabels": {role: "worker"}, "matchExpressions": [others]}
    term = {"labelSelector": selector, "topologyKey": nodes.SERVER_ID_4}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    init = [{"name": each, "image": IMAGE} for each in ("wait-hostfilename", "ultraserver-init-container")]
    return mpijob(
        4, name="documented", worker_spec={"affinity": apart}, launcher_spec={"initContainers": init}
    )


SEEDS = [mpijob(workers, name=f"workers-{workers}") for workers in (1, 2, 4, 16)] + [
    yaml.safe_load((REPOSITORY / "tests/data/seed-004/nccl-tests.yaml").read_text(encoding="utf-8"))
]
OWN = [
    documented(),
    with_own_lists("lists"),
    mpijob(4, name="selector", worker_spec={"nodeSelector": {nodes.MODE: "1_2_4"}}),
]
"""Jobs that have themselves what the webhook adds to."""

NOTHING: set[str] = set()
DIFFERENT = {
    "documented": ({"Worker.affinity"}, {"Worker.affinity"}),
    "lists": ({"Worker.affinity"}, {"Launcher.initContainers", "Worker.affinity"}),
    "selector": ({"Worker.nodeSelector"}, NOTHING),
}
"""What is one value to a server-side apply, and to Argo CD's own merge, to which every list is."""
TAKEN_OUT, MERGED = ({name: both[at] for name, both in DIFFERENT.items()} for at in (0, 1))


def suspended(job: Object) -> Object:
    return {**job, "spec": {**job["spec"], "runPolicy": {"suspend": True}}}


def settled(job: Object) -> bool:
    """Returns whether a job runs for the webhook, or is suspended."""
    return "startTime" in job.get("status", {}) or get(job, ("spec", "runPolicy", "suspend")) is True


def synced(inside: Kubectl, files: list[Object], way: tuple[str, ...]) -> list[Object]:
    """Returns the stored jobs of files that were applied, as soon as the operator has started them."""
    inside.apply(together(*files), *way)
    inside.wait_for(lambda obj: all(map(settled, obj["items"])), "mpijobs")
    return stored(inside, files)


def stored(inside: Kubectl, files: list[Object]) -> list[Object]:
    result = {job["metadata"]["name"]: job for job in inside.get_json("mpijobs")["items"]}
    return [result[file["metadata"]["name"]] for file in files]


def foreseen(inside: Kubectl, files: list[Object]) -> list[Object]:
    """Returns what the API server says that a server-side apply of the files would make."""
    return list(inside.apply(together(*files), *SERVER_SIDE, "--dry-run=server")["items"])


def merged(lives: list[Object], files: list[Object]) -> list[Object]:
    """Returns the outcome in Argo CD's default comparison: the same file must not delete anything."""
    return [applied(live, file) for live, file in zip(lives, files, strict=True)]


def differences(lives: list[Object], others: list[Object]) -> dict[str, set[str]]:
    """Returns the fields of the pod specs that differ, by the jobs' names; no job differs elsewhere."""
    result = {}
    for job, other in zip(lives, others, strict=True):
        pair = [copy.deepcopy({"spec": each["spec"]}) for each in (job, other)]
        result[job["metadata"]["name"]] = set(_taken_from(pair))
        assert pair[0] == pair[1]
    return result


def _taken_from(pair: list[Object]) -> Iterator[str]:
    for role in ("Launcher", "Worker"):
        specs = [template(each, role)["spec"] for each in pair]
        for key in {*specs[0], *specs[1]}:
            values = [spec.pop(key, None) for spec in specs]
            if values[0] != values[1]:
                yield f"{role}.{key}"


def untouched(inside: Kubectl, lives: list[Object]) -> bool:
    """Returns whether no update changed a spec: that raises the generation."""
    return [job["metadata"]["generation"] for job in stored(inside, lives)] == [1] * len(lives)


@way
def test_jobs_of_the_seed_documents_are_in_sync_and_a_second_sync_changes_nothing(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    lives = synced(namespace, SEEDS, way)
    assert all("affinity" in get(job, WORKER)["spec"] for job in lives[1:4])
    for others in (foreseen(namespace, SEEDS), merged(lives, SEEDS)):
        assert not any(differences(lives, others).values())
    namespace.apply(together(*SEEDS), *way)
    assert untouched(namespace, lives)


@way
def test_of_a_suspended_job_with_own_lists_only_argo_cds_default_comparison_differs(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    files = [suspended(job) for job in OWN]
    lives = synced(namespace, files, way)
    assert differences(lives, foreseen(namespace, files)) == dict.fromkeys(DIFFERENT, NOTHING)
    assert differences(lives, merged(lives, files)) == MERGED
    namespace.apply(together(*files), *way)
    assert untouched(namespace, lives)


@way
def test_a_running_job_with_own_lists_differs_and_is_unchanged_if_its_templates_are_ignored(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    lives = synced(namespace, OWN, way)
    assert differences(lives, foreseen(namespace, OWN)) == TAKEN_OUT
    assert differences(lives, merged(lives, OWN)) == MERGED
    # RespectIgnoreDifferences: Argo CD applies the stored value of what it ignores.
    respectful = copy.deepcopy(OWN)
    for file, live in zip(respectful, lives, strict=True):
        for path in (LAUNCHER, WORKER):
            get(file, path[:-1])["template"] = get(live, path)
    for _ in range(2):
        namespace.apply(together(*respectful), *way)
        assert untouched(namespace, lives)


def test_without_force_another_manager_conflicts_only_where_the_webhook_added_to_an_own_list(
    namespace: Kubectl,
) -> None:
    for file, conflict in ((SEEDS[2], ""), (OWN[1], ".podAntiAffinity.requiredDuringScheduling")):
        synced(namespace, [file], SERVER_SIDE)
        done = namespace.run("apply", "--server-side", "-f", "-", stdin=text(file), check=False)
        assert bool(done.returncode) is bool(conflict)
        assert conflict in done.stderr
        assert done.stderr.count("\n- .") <= 1


@way
def test_an_installation_stays_in_sync_when_the_ca_bundles_and_replicas_are_written(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    registration, deployment = (
        next(
            each for each in chart.objects() if (each["kind"], each["metadata"]["name"]) == (kind, chart.NAME)
        )
        for kind in ("MutatingWebhookConfiguration", "Deployment")
    )
    deployment["metadata"].pop("namespace")
    registration["metadata"]["name"] = namespace.namespace
    for hook in registration["webhooks"]:
        hook["namespaceSelector"] = {"matchLabels": {"asked": "nowhere"}}
    both = together(registration, deployment)
    namespace.apply(both, *way)
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace.namespace}"
    bundles = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": "Zm9v"}
        for number in range(len(registration["webhooks"]))
    ]
    try:
        namespace.api.send("PATCH", path, bundles, "application/json-patch+json")
        namespace.run("scale", "deployment", deployment["metadata"]["name"], "--replicas=5")
        for again in ((*SERVER_SIDE, "--dry-run=server"), way):
            hooks, replicas = namespace.apply(both, *again)["items"]
            assert {hook["clientConfig"]["caBundle"] for hook in hooks["webhooks"]} == {"Zm9v"}
            assert replicas["spec"]["replicas"] == 5
    finally:
        namespace.run("delete", "-f", "-", stdin=text(both))

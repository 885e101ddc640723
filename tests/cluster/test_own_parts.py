"""What a person wrote stays, beside what the webhook adds; and who says so is left alone altogether."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs, nodes
from tests.cluster.jobs import template
from tests.helpers import IMAGE, mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object
    from webhook.engine.tree import Json

pytestmark = pytest.mark.usefixtures("registered_webhook")

ZONE = "topology.kubernetes.io/zone"
TERM = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
IN_ZONE = {"key": ZONE, "operator": "In", "values": ["ap-southeast-4a"]}
AFFINITY = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}]
    },
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]
        }
    },
}
KEY = keys.JOB.replace("/", "~1")
MINE = {"name": "mine", "image": "example.invalid/mine", "command": ["true"]}


def rich() -> Object:
    """A job that says something about everything that the webhook touches."""
    job = mpijob(
        4,
        worker_spec={
            "affinity": AFFINITY,
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "tolerations": [{"key": "reserved", "operator": "Exists"}],
            "initContainers": [MINE],
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            "imagePullSecrets": [{"name": "registry"}],
        },
        launcher_spec={
            "initContainers": [MINE],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    )
    for role in ("Launcher", "Worker"):
        template(job, role)["metadata"] = {"labels": {"team": "research"}, "annotations": {"note": "kept"}}
    return job


def written(template: Json, found: Json, path: str = "") -> None:
    """Asserts that everything in a template is found in the other one, lists from their beginning on."""
    if isinstance(template, dict):
        for key, value in template.items():
            assert key in found, f"{path}/{key}"
            written(value, found[key], f"{path}/{key}")
    elif isinstance(template, list):
        assert len(found) >= len(template), path
        for index, value in enumerate(template):
            written(value, found[index], f"{path}/{index}")
    else:
        assert found == template, path


def test_a_job_with_parts_of_its_own_keeps_them_all_beside_the_webhooks(namespace: Kubectl) -> None:
    plain = namespace.create(mpijob(4), "--dry-run=server")
    stored = namespace.create(rich())
    for role in ("Launcher", "Worker"):
        written(template(rich(), role), template(stored, role))
    worker, ours = template(stored, "Worker")["spec"], template(plain, "Worker")["spec"]
    assert worker["nodeSelector"] == {"kubernetes.io/arch": "amd64"} | ours["nodeSelector"]
    for kind in ("podAntiAffinity", "podAffinity"):
        mode = "requiredDuringSchedulingIgnoredDuringExecution"
        before = AFFINITY[kind].get(mode, [])
        assert worker["affinity"][kind][mode] == [*before, *ours["affinity"][kind][mode]]
    # Terms are ORed and expressions ANDed: ours has to stand beside theirs in the same term.
    (node_term,) = worker["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert node_term["matchExpressions"] == [IN_ZONE, {"key": nodes.SERVER_ID_4, "operator": "Exists"}]
    launcher, ours = template(stored, "Launcher")["spec"], template(plain, "Launcher")["spec"]
    assert launcher["initContainers"] == [MINE, *ours["initContainers"]]
    assert launcher["volumes"] == [{"name": "data", "emptyDir": {}}, *ours["volumes"]]


def test_a_job_label_that_a_person_set_is_replaced_and_they_are_told(namespace: Kubectl) -> None:
    job = mpijob(4)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: "default.somebody-elses", "team": "research"}}
    job["metadata"]["labels"] = {keys.JOB: "default.somebody-elses"}
    done = namespace.run("apply", "-f", "-", stdin=jobs.text(job))
    assert f"replaced yours: /spec/mpiReplicaSpecs/Worker/template/metadata/labels/{KEY}" in done.stderr
    stored = namespace.get_json("mpijob", "train")
    labels = template(stored, "Worker")["metadata"]["labels"]
    assert labels == {keys.JOB: f"{namespace.namespace}.train", "team": "research"}
    assert "somebody-elses" not in str(stored["spec"])


def test_a_job_that_is_opted_out_stays_as_it_was_written(
    namespace: Kubectl, plain_namespace: Kubectl
) -> None:
    without_webhook = plain_namespace.create(mpijob(4), "--dry-run=server")
    # "false" is seen by the API server already, which does not ask; the other word by the webhook.
    for word in ("false", "disabled"):
        for place in ("annotations", "labels"):
            job = mpijob(4)
            job["metadata"][place] = {keys.INJECT: word}
            assert namespace.create(job, "--dry-run=server")["spec"] == without_webhook["spec"]


def test_a_job_that_is_opted_out_cannot_pass_for_another_job(namespace: Kubectl) -> None:
    job = mpijob(4, name="intruder", annotations={keys.INJECT: "false"})
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: "default.victim", "team": "a"}}
    stored = namespace.apply(job)
    assert template(stored, "Worker")["metadata"]["labels"] == {"team": "a"}


def test_jobs_that_do_not_concern_ultraservers_stay_as_they_were_written(namespace: Kubectl) -> None:
    other_machines = {"nodeSelector": {nodes.INSTANCE_TYPE: "trn1.32xlarge"}}
    for job in (
        mpijob(4, resource=None),
        mpijob(4, resource="nvidia.com/gpu"),
        mpijob(4, worker_spec=other_machines),
    ):
        stored = namespace.apply(job, "--dry-run=server")
        for role in ("Launcher", "Worker"):
            assert template(stored, role) == template(job, role)


def test_a_job_that_opts_in_is_placed_whatever_it_asks_for(namespace: Kubectl) -> None:
    job = mpijob(4, resource=None, annotations={keys.INJECT: "true"})
    stored = namespace.apply(job, "--dry-run=server")
    assert template(stored, "Worker")["spec"]["nodeSelector"] == {nodes.INSTANCE_TYPE: nodes.TRN2U}


def test_a_hyperpod_instance_type_that_the_job_chose_is_kept(namespace: Kubectl) -> None:
    chosen = {nodes.INSTANCE_TYPE: "ml.trn2u.48xlarge"}
    stored = namespace.apply(mpijob(4, worker_spec={"nodeSelector": chosen}), "--dry-run=server")
    worker = template(stored, "Worker")["spec"]
    assert worker["nodeSelector"] == chosen
    assert "podAffinity" in worker["affinity"]


def test_a_container_that_has_the_webhooks_name_is_the_persons_and_they_are_told(namespace: Kubectl) -> None:
    own = {"name": "wait-hostfilename", "image": IMAGE, "command": ["sleep", "5"]}
    job = mpijob(4, launcher_spec={"initContainers": [copy.deepcopy(own)]})
    done = namespace.run("apply", "-f", "-", stdin=jobs.text(job))
    assert "kept yours" in done.stderr
    assert "wait-hostfilename" in done.stderr
    containers = template(namespace.get_json("mpijob", "train"), "Launcher")["spec"]["initContainers"]
    assert containers[0] == own
    assert [item["name"] for item in containers[1:]] == ["ultraserver-init-container"]

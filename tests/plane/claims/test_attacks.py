"""Somebody uses an editor's rights on claims against others' jobs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from testbed.experiment import hostile
from testbed.experiment.judge import Key
from testbed.experiment.stage import Stage, make_sick
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME, ROLE, clear, together
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.bound import wait_bound
from tests.plane.claims.conftest import Fleet
from tests.plane.claims.test_jobs import pod_with_claim

EVIL = "claims-evil"
CLAIMS = f"/apis/{nodes.DRA}/namespaces/{EVIL}/resourceclaims"
PODS = f"/api/v1/namespaces/{EVIL}/pods"
MERGE = "application/merge-patch+json"
NAME = nodes.template_name(4)
FREE = 3


@dataclass
class Tenant:
    """Who attacks, as an editor of a namespace, where three UltraServers are healthy.

    Attributes:
        kubectl: Theirs.
        stage: With the nodes for jobs that claim them.
        free: The nodes of the healthy UltraServers.
    """

    kubectl: Kubectl
    stage: Stage
    free: list[str]

    def waits(self, workers: int, template: str = NAME) -> Object:
        """A job of theirs whose workers are all there."""
        self.kubectl.create(mpijob(workers, name="theirs", claim=template))
        workers_of = ("-l", f"{JOB_NAME}=theirs,{ROLE}=worker")
        return self.kubectl.wait_for(lambda found: len(found["items"]) == workers, "pods", *workers_of)

    def finalizers(self, path: str, *names: str) -> None:
        """Puts finalizers on an object of theirs, or takes all away."""
        body = {"metadata": {"finalizers": list(names) or None}}
        status, answer = self.kubectl.api.send("PATCH", path, body, MERGE)
        assert status == 200, answer["message"]

    def claims(self, count: int) -> Object:
        """Their claims, when there are so many."""
        return self.kubectl.wait_for(lambda found: len(found["items"]) == count, "resourceclaims")


Attack = Callable[[Tenant], None]


def claim(name: str, **metadata: object) -> Object:
    """A claim for a node that nobody's Pod has made."""
    spec = nodes.claim_template(1)["spec"]["spec"]
    return {
        "apiVersion": nodes.DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def a_thousand_claims_without_a_pod(tenant: Tenant) -> None:
    """No Pod has them, so the scheduler allocates none."""
    tenant.kubectl.create(together(*(claim(f"c-{number}") for number in range(1000))))


def claims_that_are_never_freed(tenant: Tenant) -> None:
    """One of a Pod that ends for ever, and one that stays itself when its Pod has ended."""
    names = ["pod-stays", "claim-stays"]
    tenant.kubectl.create(together(*(pod_with_claim(*at) for at in zip(names, tenant.free, strict=False))))
    wait_bound(tenant.kubectl, names)
    tenant.finalizers(f"{PODS}/pod-stays", hostile.FOR_EVER)
    (kept,) = (each for each in tenant.claims(2)["items"] if each["metadata"]["name"].startswith("claim"))
    tenant.finalizers(f"{CLAIMS}/{kept['metadata']['name']}", hostile.FOR_EVER)
    tenant.kubectl.delete("pods", at_once=True)
    tenant.kubectl.wait_for(
        lambda found: "deletionTimestamp" in found["metadata"], "resourceclaim", kept["metadata"]["name"]
    )


def a_template_that_changes(tenant: Tenant) -> None:
    """A job waits with claims of one template, and of another the claims would be that are gone."""
    tenant.waits(16)
    tenant.claims(16)
    tenant.kubectl.delete("resourceclaimtemplate", NAME)
    other = nodes.claim_template(2, NAME, count=2)
    exactly = other["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    exactly["selectors"][0]["cel"]["expression"] = "device.driver.startsWith('neuron') || true"
    tenant.kubectl.create(other)
    tenant.kubectl.delete("resourceclaims")


def a_template_that_is_missing(tenant: Tenant) -> None:
    """A job of the webhook's names waits for a template; `why` says so."""
    tenant.kubectl.delete("resourceclaimtemplates")
    tenant.waits(4)
    tenant.kubectl.wait_for(
        lambda found: any(
            f"there is no ResourceClaimTemplate {NAME}" in one["message"] for one in found["items"]
        ),
        "events",
    )


@pytest.fixture
def tenant(fleet: Fleet, seed: int) -> Iterator[Tenant]:
    """Them, and three UltraServers without sick nodes."""
    stage = fleet.driver
    servers = sorted({labels[nodes.SERVER_ID_4] for labels in stage.labels.values()})
    free = [name for name, labels in stage.labels.items() if labels[nodes.SERVER_ID_4] in servers[:FREE]]
    make_sick(stage, 1, random.Random(seed))  # noqa: S311 - no secret
    for name in stage.sick & set(free):
        stage.cordon(name, cordoned=False)
    admin = stage.plane.kubectl
    inside = admin.in_namespace(EVIL)
    if not any(found["metadata"]["name"] == EVIL for found in admin.get_json("namespaces")["items"]):
        admin.create_namespace(EVIL)
        inside.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor")
        inside.run("create", "role", "jobs", "--verb=*", "--resource=mpijobs.kubeflow.org")
        inside.run("create", "rolebinding", "jobs", "--role=jobs", "--user=editor")
    inside.create(nodes.claim_template(4))
    inside.create(nodes.claim_template(1))
    made = Tenant(inside.acting_as("editor"), stage, free)
    yield made
    for path, kind in ((PODS, "pods"), (CLAIMS, "resourceclaims")):
        for found in inside.get_json(kind)["items"]:
            if hostile.FOR_EVER in found["metadata"].get("finalizers", ()):
                made.finalizers(f"{path}/{found['metadata']['name']}")
    clear(inside)
    inside.delete("resourceclaims,resourceclaimtemplates,events")
    inside.wait_for(lambda found: not found["items"], "resourceclaims")


def withstood(fleet: Fleet, key: Key) -> None:
    """Asserts that a job ends whole, and that the program has made no mistake."""
    fleet.driver.wait(lambda found: found[key].whole)
    said = fleet.program.log.read_text(encoding="utf-8")
    assert not [word for word in ("mistake", "Traceback", "not whole within") if word in said], said
    assert hostile.peak(fleet.program) < hostile.MEMORY


@pytest.mark.parametrize(
    "attack",
    [
        a_thousand_claims_without_a_pod,
        claims_that_are_never_freed,
        a_template_that_changes,
        a_template_that_is_missing,
    ],
    ids=lambda attack: attack.__name__,
)
def test_a_tenant_with_claims_keeps_no_job_of_others_from_its_nodes(
    attack: Attack, tenant: Tenant, fleet: Fleet
) -> None:
    attack(tenant)
    withstood(fleet, fleet.driver.apply("victim", 8))


def test_what_claims_of_another_namespace_say_of_a_pod_counts_for_nothing(
    tenant: Tenant, fleet: Fleet
) -> None:
    sick = tenant.free[::4]
    for name in sick:
        fleet.driver.cordon(name)
    key = fleet.driver.apply("victim", 8)
    pods = fleet.driver.follow(key, lambda found: len(found) == 9)
    forged = []
    for pod in pods:
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        owner |= {part: pod["metadata"][part] for part in ("name", "uid")}
        said = {"resource.kubernetes.io/pod-claim-name": "neurons"}
        name = pod["metadata"]["name"]
        forged += [claim(name, ownerReferences=[owner], annotations=said, finalizers=[hostile.FOR_EVER])]
        forged[-1]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    tenant.kubectl.create(together(*forged))
    tenant.claims(len(forged))
    for name in sick:
        fleet.driver.cordon(name, cordoned=False)
    withstood(fleet, key)

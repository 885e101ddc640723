"""Tests that a user who may create claims in one namespace cannot stop the jobs of other users."""

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from contract.keys import DRIVER
from testbed.experiment import hostile
from testbed.experiment.stage import make_sick
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import clear, list_object
from testbed.plane.kubectl import Kubectl
from tests.plane.bound import wait_bound
from tests.plane.claims.conftest import Fleet
from tests.plane.claims.pods import pod_with_claim

EVIL = "claims-evil"
TEMPLATE = nodes.template_name(4)
FREE_SERVERS = 3
PODS, CLAIMS = ("/api/v1", "pods"), (f"/apis/{nodes.DRA}", "resourceclaims")


class Tenant(NamedTuple):
    """The attacker, who has the role ``edit`` in a namespace, and the nodes of the only healthy UltraServers.

    Attributes:
        kubectl: Kubectl with the attacker's rights.
        admin: Kubectl of an administrator, for the same namespace.
        free_nodes: The nodes of the three healthy UltraServers.
    """

    kubectl: Kubectl
    admin: Kubectl
    free_nodes: list[str]

    def set_finalizers(self, root: str, kind: str, *finalizers: str) -> None:
        """Sets the finalizers of the attacker's objects of a kind, or removes them if none are passed."""
        body = {"metadata": {"finalizers": list(finalizers) or None}}
        for item in self.kubectl.get_json(kind)["items"]:
            path = f"{root}/namespaces/{EVIL}/{kind}/{item['metadata']['name']}"
            status, answer = self.kubectl.api.send("PATCH", path, body, "application/merge-patch+json")
            assert status in {200, 404}, answer["message"]


def create_a_thousand_claims_without_a_pod(tenant: Tenant) -> None:
    """Creates claims that the scheduler does not allocate, because no Pod uses them."""
    claim = nodes.claim_template(4) | {"kind": "ResourceClaim"}
    claim["spec"] = claim["spec"]["spec"]
    tenant.kubectl.create(list_object(*(claim | {"metadata": {"name": f"c-{n}"}} for n in range(1000))))


def keep_claims_of_deleted_pods(tenant: Tenant) -> None:
    """Deletes a Pod whose claim has a finalizer, and a Pod that has a finalizer itself."""
    for number, (name, kind) in enumerate((("claim-stays", CLAIMS), ("pod-stays", PODS))):
        tenant.kubectl.create(pod_with_claim(name, tenant.free_nodes[number]))
        wait_bound(tenant.kubectl, [name])
        tenant.set_finalizers(*kind, hostile.FOR_EVER)
        tenant.kubectl.delete("pod", name, at_once=True)
        tenant.kubectl.wait_for(
            lambda obj: all("deletionTimestamp" in item["metadata"] for item in obj["items"]), kind[1]
        )


def create_jobs_whose_claims_a_quota_forbids(tenant: Tenant) -> None:
    """Creates jobs whose claims exceed a quota, and waits until Events report the missing claims."""
    quota = {"hard": {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "0"}}
    tenant.admin.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": quota}
    )
    tenant.admin.wait_for(lambda obj: "hard" in obj["items"][0].get("status", {}), "resourcequotas")
    tenant.kubectl.create(
        list_object(*(mpijob(4, name=f"theirs-{n}", claim=TEMPLATE) for n in range(FREE_SERVERS)))
    )
    text = f"no claim was created from ResourceClaimTemplate {TEMPLATE} yet"
    tenant.kubectl.wait_for(lambda answer: str(answer).count(text) >= FREE_SERVERS, "events")


def create_claims_with_invalid_or_deep_parameters(tenant: Tenant) -> None:
    """Creates claims with parameters that are not UTF-8 or too deep. The API server keeps these bytes."""
    for name, value in (("bytes", b'"\xff"'), ("deep", b"[" * 5000 + b"]" * 5000)):
        claim = nodes.claim_template(4) | {"kind": "ResourceClaim", "metadata": {"name": name}}
        claim["spec"] = claim["spec"]["spec"]
        claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "x.y", "parameters": {"a": "HERE"}}}]
        raw = json.dumps(claim).encode().replace(b'"HERE"', value)
        with tempfile.NamedTemporaryFile() as file:
            file.write(raw)
            file.flush()
            path = f"{CLAIMS[0]}/namespaces/{EVIL}/{CLAIMS[1]}"
            tenant.kubectl.run("create", "--raw", path, "-f", file.name)


ATTACKS: tuple[Callable[[Tenant], None], ...] = (
    create_a_thousand_claims_without_a_pod,
    keep_claims_of_deleted_pods,
    create_jobs_whose_claims_a_quota_forbids,
    create_claims_with_invalid_or_deep_parameters,
)


@pytest.fixture
def tenant(fleet: Fleet, seed: int) -> Iterator[Tenant]:
    """The attacker, and three UltraServers without sick nodes. Every other UltraServer has a sick node."""
    stage, inside = fleet.driver, fleet.driver.plane.kubectl.in_namespace(EVIL)
    free_nodes = list(stage.labels)[: FREE_SERVERS * nodes.NODES_PER_ULTRASERVER]
    make_sick(stage, 1, random.Random(seed))  # noqa: S311 - no secret
    for name in stage.sick & set(free_nodes):
        stage.cordon(name, cordoned=False)
    inside.run("apply", "-f", str(nodes.CLAIMS))
    attacker = Tenant(inside.acting_as("editor"), inside, free_nodes)
    yield attacker
    attacker.set_finalizers(*PODS)
    clear(inside)
    inside.delete("resourceclaims,resourceclaimtemplates,resourcequotas,events")
    attacker.set_finalizers(*CLAIMS)
    inside.wait_for(lambda obj: not obj["items"], "resourceclaims")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_with_claims_does_not_stop_a_job_of_another_user(
    attack: Callable[[Tenant], None], tenant: Tenant, fleet: Fleet
) -> None:
    attack(tenant)
    key = fleet.driver.apply("victim", 8)
    fleet.driver.wait(lambda jobs: jobs[key].whole)
    log = fleet.program.log.read_text(encoding="utf-8")
    assert not [word for word in ("mistake", "Traceback", "without all its nodes") if word in log], log
    assert hostile.peak_memory(fleet.program) < hostile.MEMORY

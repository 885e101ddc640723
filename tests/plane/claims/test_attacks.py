"""A user uses an editor's rights on claims against others' jobs."""

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
from testbed.plane.jobs import clear, together
from testbed.plane.kubectl import Kubectl
from tests.plane.bound import wait_bound
from tests.plane.claims.conftest import Fleet
from tests.plane.claims.pods import pod_with_claim

EVIL = "claims-evil"
NAME = nodes.template_name(4)
FREE = 3
PODS, CLAIMS = ("/api/v1", "pods"), (f"/apis/{nodes.DRA}", "resourceclaims")


class Tenant(NamedTuple):
    """Who attacks, as an editor of a namespace, and the nodes of the three UltraServers that are healthy.

    Attributes:
        kubectl: Theirs.
        admin: That of the namespace's administrator.
        free: The nodes.
    """

    kubectl: Kubectl
    admin: Kubectl
    free: list[str]

    def for_ever(self, root: str, kind: str, *finalizers: str) -> None:
        """Puts finalizers on what they have of a kind, or takes all away."""
        body = {"metadata": {"finalizers": list(finalizers) or None}}
        for item in self.kubectl.get_json(kind)["items"]:
            path = f"{root}/namespaces/{EVIL}/{kind}/{item['metadata']['name']}"
            status, answer = self.kubectl.api.send("PATCH", path, body, "application/merge-patch+json")
            assert status in {200, 404}, answer["message"]


def a_thousand_claims_without_a_pod(tenant: Tenant) -> None:
    """No Pod has them, so the scheduler allocates none."""
    claim = nodes.claim_template(4) | {"kind": "ResourceClaim"}
    claim["spec"] = claim["spec"]["spec"]
    tenant.kubectl.create(together(*(claim | {"metadata": {"name": f"c-{n}"}} for n in range(1000))))


def claims_that_are_never_freed(tenant: Tenant) -> None:
    """One of a Pod that ends for ever, and one that stays itself when its Pod has ended."""
    for at, (name, what) in enumerate((("claim-stays", CLAIMS), ("pod-stays", PODS))):
        tenant.kubectl.create(pod_with_claim(name, tenant.free[at]))
        wait_bound(tenant.kubectl, [name])
        tenant.for_ever(*what, hostile.FOR_EVER)
        tenant.kubectl.delete("pod", name, at_once=True)
        tenant.kubectl.wait_for(
            lambda obj: all("deletionTimestamp" in each["metadata"] for each in obj["items"]), what[1]
        )


def claims_that_a_quota_forbids(tenant: Tenant) -> None:
    """Jobs wait whose claims no one makes, and an Event says so."""
    quota = {"hard": {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "0"}}
    tenant.admin.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": quota}
    )
    tenant.admin.wait_for(lambda obj: "hard" in obj["items"][0].get("status", {}), "resourcequotas")
    tenant.kubectl.create(together(*(mpijob(4, name=f"theirs-{n}", claim=NAME) for n in range(FREE))))
    text = f"no claim was created from ResourceClaimTemplate {NAME} yet"
    tenant.kubectl.wait_for(lambda answer: str(answer).count(text) >= FREE, "events")


def claims_that_are_no_text_or_too_deep(tenant: Tenant) -> None:
    """The API server gives the bytes of a driver's parameters as they came."""
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
    a_thousand_claims_without_a_pod,
    claims_that_are_never_freed,
    claims_that_a_quota_forbids,
    claims_that_are_no_text_or_too_deep,
)


@pytest.fixture
def tenant(fleet: Fleet, seed: int) -> Iterator[Tenant]:
    """Them, and three UltraServers without sick nodes."""
    stage, inside = fleet.driver, fleet.driver.plane.kubectl.in_namespace(EVIL)
    free = list(stage.labels)[: FREE * nodes.NODES_PER_ULTRASERVER]
    make_sick(stage, 1, random.Random(seed))  # noqa: S311 - no secret
    for name in stage.sick & set(free):
        stage.cordon(name, cordoned=False)
    inside.run("apply", "-f", str(nodes.CLAIMS))
    made = Tenant(inside.acting_as("editor"), inside, free)
    yield made
    made.for_ever(*PODS)
    clear(inside)
    inside.delete("resourceclaims,resourceclaimtemplates,resourcequotas,events")
    made.for_ever(*CLAIMS)
    inside.wait_for(lambda obj: not obj["items"], "resourceclaims")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_tenant_with_claims_keeps_no_job_of_others_from_its_nodes(
    attack: Callable[[Tenant], None], tenant: Tenant, fleet: Fleet
) -> None:
    attack(tenant)
    key = fleet.driver.apply("victim", 8)
    fleet.driver.wait(lambda jobs: jobs[key].whole)
    log = fleet.program.log.read_text(encoding="utf-8")
    assert not [word for word in ("mistake", "Traceback", "without all its nodes") if word in log], log
    assert hostile.peak(fleet.program) < hostile.MEMORY

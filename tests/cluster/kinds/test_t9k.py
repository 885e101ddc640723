"""T9k's MPIJob by a definition of our own: neither the real one nor the operator is public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.kinds import operators
from tests.helpers import requested
from tests.t9k import SHAPES, t9k_mpijob
from webhook.engine import evaluate
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl


def test_jobs_of_both_shapes_are_on_an_ultraserver_each(namespace: Kubectl, servers: dict[str, str]) -> None:
    used = []
    for shape in SHAPES:
        job = t9k_mpijob(shape, name=f"by-{shape.lower()}", scheduler={"t9kScheduler": {"queue": "default"}})
        stored = namespace.create(job)
        wanted = evaluate(load_default(), requested(job, namespace=str(namespace.namespace))).after
        assert stored["spec"] == wanted["spec"]
        found = operators.bound(namespace, operators.of_t9k(stored))
        used.append({servers[node] for node in found.values()})
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]

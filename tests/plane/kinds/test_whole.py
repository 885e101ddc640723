"""Whole-job admission of other kinds of job, by the kind's real controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contract import keys, place
from testbed.plane.plugin import eventually
from tests.plane.bound import wait_count
from tests.plane.kinds.jobs import leaderworkerset, mpijob_v1, pytorchjob

if TYPE_CHECKING:
    from testbed.plane.kubectl import Kubectl, Object

JOBS: dict[str, tuple[Object, int]] = {
    "LeaderWorkerSet": (leaderworkerset(2, 4), 8),
    "LeaderWorkerSet of groups of two UltraServers": (leaderworkerset(1, 8), 8),
    "PyTorchJob": (pytorchjob(7), 8),
    "MPIJob v1": (mpijob_v1(8), 8),
}
"""By kind: the job, and how many of its Pods take nodes."""


@pytest.mark.parametrize(("made", "workers"), JOBS.values(), ids=JOBS.keys())
def test_a_job_waits_until_all_of_it_has_a_place_and_is_opened_whole(
    made: Object, workers: int, whole_namespace: Kubectl, servers: dict[str, str]
) -> None:
    whole_namespace.create(made)
    # The launcher of an MPIJob asks for ephemeral storage, which no node here has: it waits for that only.
    pods = wait_count(whole_namespace, workers)
    whole_namespace.wait_for(
        lambda found: not any("schedulingGates" in pod["spec"] for pod in found["items"]), "pods"
    )
    units: dict[tuple[str, int], set[str]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        if (found := place.read(metadata)) is None:
            continue
        number = found.number(metadata)
        assert number is not None
        assert keys.OPENED in metadata["annotations"], "nobody pinned it"
        assert keys.BLOCK not in metadata["labels"]
        block = (place.job(metadata, found.group), number // found.size)
        units.setdefault(block, set()).add(servers[pod["spec"]["nodeName"]])
    assert [len(on) for on in units.values()] == [1] * (workers // 4)
    assert len(set.union(*units.values())) == len(units)
    eventually(whole_namespace, ["verify", "train"], lambda found: found["whole"])

"""Tests that a job of two workers resumes from its checkpoint on other nodes when a kubelet dies."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.keys import ON_NODE_FAILURE
from testbed.nodes.plane import RealPlane
from testbed.plane.jobs import template
from testbed.waiting import until
from tests.nodes.product.job import Job, mpijob

MAX_SECONDS = 120
"""Maximum number of seconds until the job computes again."""
TRAIN = """
at=/checkpoint/$OMPI_COMM_WORLD_RANK
step=$(cat $at 2>/dev/null || echo 0)
echo "$(hostname -i) $step" >> $at.starts
while sleep 0.2; do step=$((step + 1)); echo $step > $at.new; mv $at.new $at; done
"""


@pytest.fixture
def checkpoint(real_plane: RealPlane) -> Iterator[Path]:
    """A folder that all nodes share, like a network file system."""
    folder = real_plane.namespaces.folder / "checkpoint"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def starts(checkpoint: Path, rank: int) -> list[tuple[str, int]]:
    """Returns the address and the first step of each start of a rank."""
    file = checkpoint / f"{rank}.starts"
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return [(address, int(step)) for address, step in map(str.split, lines)]


def last_step(checkpoint: Path) -> int:
    """Returns the last step that rank 0 has saved; 0 if it has saved no step."""
    file = checkpoint / "0"
    return int(file.read_text(encoding="ascii")) if file.exists() else 0


def have_started(checkpoint: Path, times: int) -> bool:
    return all(len(starts(checkpoint, rank)) >= times for rank in range(2))


@pytest.mark.limit(400, "a node is not Ready after 20 s, has failed a minute later, and Pods start again")
def test_a_job_resumes_from_its_checkpoint_when_a_kubelet_dies(
    job: Job, real_plane: RealPlane, checkpoint: Path
) -> None:
    document = mpijob(launcher=("mpirun", "sh", "-c", TRAIN))
    document["metadata"]["annotations"] = {ON_NODE_FAILURE: "move"}
    specs = document["spec"]["mpiReplicaSpecs"]
    specs["Worker"]["replicas"] = 2
    worker = template(document, "Worker")["spec"]
    worker["volumes"] = [{"name": "checkpoint", "hostPath": {"path": str(checkpoint)}}]
    worker["containers"][0]["volumeMounts"] = [{"name": "checkpoint", "mountPath": "/checkpoint"}]
    job.kubectl.create(document)
    before = job.wait_until_placed()
    until(lambda: have_started(checkpoint, 1), "the first start of both ranks", seconds=240)
    until(lambda: last_step(checkpoint) > 20, "the checkpoint of 20 steps")
    dead = before["demo-worker-1"]
    real_plane.nodes[dead].kill("kubelet")
    killed = time.monotonic()
    try:
        until(lambda: have_started(checkpoint, 2), "the second start of both ranks", seconds=240)
        took = time.monotonic() - killed
        after = job.wait_until_placed()
        assert set(before.values()).isdisjoint(after.values())
        for rank in range(2):
            (first, zero), *_, (last, resumed) = starts(checkpoint, rank)
            assert (first != last, zero) == (True, 0)
            assert resumed > 20, "the rank did not resume from its checkpoint"
        assert took < MAX_SECONDS
    finally:
        job.kubectl.run("delete", "mpijob", "demo")
        real_plane.nodes[dead].start_kubelet()
        real_plane.kubectl.run("wait", "--for=condition=Ready", f"node/{dead}", "--timeout=90s")

"""The certificate of an installation: issued again, rotated, and from elsewhere."""

import base64
import contextlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.nodes import story
from testbed.plane.load import jobs_keep_coming
from testbed.waiting import until
from tests.docs.blocks import REPOSITORY
from tests.nodes.install.installation import INSTALL, NAMESPACE, OPERATIONS, TEAM, Installation

PROVIDED, BACK = "A certificate of your own", "Back to the program's own certificate"
LONGEST = 120.0
"""Seconds for a change: two settling times, and what a busy machine adds."""


def test_issuing_everything_again_ends_with_one_trusted_authority(installed: Installation) -> None:
    before = installed.bundles()
    installed.run(OPERATIONS, "Issue all certificates again")
    another(installed, before)
    installed.wait_places()
    assert "notAfter=" in installed.run(OPERATIONS, "The certificate")


@contextlib.contextmanager
def two_busy_loops() -> Iterator[None]:
    """Yields two processes next to it that do nothing but take time."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def another(installed: Installation, before: set[str]) -> set[str]:
    """Returns the caBundle, once there is one, and another one than before."""

    def changed() -> set[str]:
        now = installed.bundles()
        return now if len(now) == 1 and now != before else set()

    return until(changed, "another authority", seconds=LONGEST)


@pytest.mark.soak
def test_ten_rotations_and_an_eviction_of_the_certificate_program_cost_no_job_its_place(
    installed: Installation,
) -> None:
    before = [installed.bundles()]
    rotate = [sys.executable, "-m", "certs", "rotate", "--force=ca", "--force=leaf", "--wait=60"]
    rotate += [f"--kubeconfig={installed.control_plane.kubeconfig}", f"--namespace={NAMESPACE}"]
    rotate += [f"--{kind}=ultraserver-webhook" for kind in ("mutating", "validating")]
    (pod,) = installed.pods("certificates")
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    with jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        for number in range(10):
            if number == 5:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
                installed.own.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
            # Next to the program in its Pod, which takes part: two that do the same do no harm.
            subprocess.run(rotate, cwd=REPOSITORY, check=True, capture_output=True)
            before.append(another(installed, before[-1]))
        story.wait_for_rollout(installed.own, "ultraserver-webhook-certs")
    assert len(set().union(*before)) == 11
    assert load.lost == []


@pytest.mark.soak
def test_changes_of_who_makes_the_certificate_cost_no_job_its_place(installed: Installation) -> None:
    with two_busy_loops(), jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        for _ in range(3):
            own = new_certificate(installed)
            installed.run(INSTALL, PROVIDED)
            serves(installed, own)
            installed.run(INSTALL, BACK)
            serves_its_own(installed)
    assert load.lost == []


@pytest.mark.soak
def test_the_last_of_several_fast_changes_wins(installed: Installation, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    with two_busy_loops(), jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        for _ in range(3):
            own = new_certificate(installed)
            for heading in (PROVIDED, BACK):
                installed.run(INSTALL, heading)
                load.more(chance.randrange(48))
        installed.run(INSTALL, PROVIDED)
        serves(installed, own)
        installed.run(INSTALL, BACK)
        serves_its_own(installed)
    assert load.lost == []


def new_certificate(installed: Installation) -> Path:
    """Writes another certificate of another authority into the document's files, and returns it."""
    folder = installed.folder
    fresh = installed.folder / "fresh"
    host = f"--host=ultraserver-webhook.{NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(fresh), host]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        shutil.copy(fresh / name, folder)
    shutil.rmtree(fresh)
    return folder


def serves(installed: Installation, folder: Path) -> None:
    """Waits until the certificate of a folder is served."""
    leaf, authority = ((folder / name).read_bytes() for name in ("tls.crt", "ca.crt"))
    until(lambda: served(installed, leaf, authority), "the provided certificate", seconds=LONGEST)


def serves_its_own(installed: Installation) -> None:
    """Waits until the certificate that the program has made is served."""

    def holds() -> bool:
        secrets = [installed.own.get_json("secret", f"ultraserver-webhook-{kind}") for kind in ("tls", "ca")]
        return served(installed, *(base64.b64decode(secret["data"]["tls.crt"]) for secret in secrets))

    until(holds, "the program's own certificate", seconds=LONGEST)


def served(installed: Installation, leaf: bytes, authority: bytes) -> bool:
    """Returns whether every pod serves a leaf, and the API server trusts its authority and no other."""
    addresses = [pod["status"]["podIP"] for pod in installed.pods()]
    return (
        installed.bundles() == {base64.b64encode(authority).decode()}
        and len(addresses) == 2
        and installed.served(*addresses) == {leaf.decode()}
    )

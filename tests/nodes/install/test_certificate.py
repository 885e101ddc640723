"""Tests of an installation's certificate: issued again, rotated, and provided by the user."""

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
from testbed.plane.load import steady_load
from testbed.waiting import until
from tests.docs.blocks import REPOSITORY
from tests.nodes.install.installation import INSTALL, NAMESPACE, OPERATIONS, TEAM, Installation

PROVIDED, OWN = "A certificate of your own", "Back to the program's own certificate"
MAX_SECONDS = 120.0
"""Maximum number of seconds for a change: two settling times, and more for a busy machine."""


def test_issuing_all_certificates_again_leaves_one_trusted_authority(installed: Installation) -> None:
    before = installed.ca_bundles()
    installed.run(OPERATIONS, "Issue all certificates again")
    wait_for_new_bundle(installed, before)
    installed.wait_until_jobs_are_placed()
    assert "notAfter=" in installed.run(OPERATIONS, "The certificate")


@contextlib.contextmanager
def two_busy_loops() -> Iterator[None]:
    """Runs two processes that only use processor time, until the end of the ``with``."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def wait_for_new_bundle(installed: Installation, before: set[str]) -> set[str]:
    """Returns the caBundle, once there is only one and it has changed."""

    def changed() -> set[str]:
        now = installed.ca_bundles()
        return now if len(now) == 1 and now != before else set()

    return until(changed, "a changed caBundle", seconds=MAX_SECONDS)


@pytest.mark.soak
def test_ten_rotations_and_an_eviction_of_the_certificate_program_lose_no_create(
    installed: Installation,
) -> None:
    bundles = [installed.ca_bundles()]
    rotate = [sys.executable, "-m", "certs", "rotate", "--force=ca", "--force=leaf", "--wait=60"]
    rotate += [f"--kubeconfig={installed.control_plane.kubeconfig}", f"--namespace={NAMESPACE}"]
    rotate += [f"--{kind}=ultraserver-webhook" for kind in ("mutating", "validating")]
    (pod,) = installed.pods("certificates")
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    with steady_load(installed.control_plane.kubeconfig, TEAM) as load:
        for number in range(10):
            if number == 5:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
                installed.own.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
            # The certificate program in the Pod runs at the same time. Two programs must do no harm.
            subprocess.run(rotate, cwd=REPOSITORY, check=True, capture_output=True)
            bundles.append(wait_for_new_bundle(installed, bundles[-1]))
        story.wait_for_rollout(installed.own, "ultraserver-webhook-certs")
    assert len(set().union(*bundles)) == 11
    assert load.lost_creates == []


@pytest.mark.soak
def test_changes_between_a_provided_and_an_own_certificate_lose_no_create(installed: Installation) -> None:
    with two_busy_loops(), steady_load(installed.control_plane.kubeconfig, TEAM) as load:
        for _ in range(3):
            provided = new_certificate(installed)
            installed.run(INSTALL, PROVIDED)
            wait_until_served(installed, provided)
            installed.run(INSTALL, OWN)
            wait_until_own_is_served(installed)
    assert load.lost_creates == []


@pytest.mark.soak
def test_the_last_of_several_fast_certificate_changes_is_served(installed: Installation, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret
    with two_busy_loops(), steady_load(installed.control_plane.kubeconfig, TEAM) as load:
        for _ in range(3):
            provided = new_certificate(installed)
            for heading in (PROVIDED, OWN):
                installed.run(INSTALL, heading)
                load.wait_for_creates(rng.randrange(48))
        installed.run(INSTALL, PROVIDED)
        wait_until_served(installed, provided)
        installed.run(INSTALL, OWN)
        wait_until_own_is_served(installed)
    assert load.lost_creates == []


def new_certificate(installed: Installation) -> Path:
    """Creates a certificate of a new authority in the files of docs/install.md; returns their folder."""
    folder = installed.folder
    fresh = installed.folder / "fresh"
    host = f"--host=ultraserver-webhook.{NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(fresh), host]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        shutil.copy(fresh / name, folder)
    shutil.rmtree(fresh)
    return folder


def wait_until_served(installed: Installation, folder: Path) -> None:
    """Waits until every serving Pod serves the certificate of a folder."""
    leaf, authority = ((folder / name).read_bytes() for name in ("tls.crt", "ca.crt"))
    until(
        lambda: has_certificate(installed, leaf, authority), "the provided certificate", seconds=MAX_SECONDS
    )


def wait_until_own_is_served(installed: Installation) -> None:
    """Waits until every serving Pod serves the certificate of the certificate program."""

    def is_served() -> bool:
        secrets = [installed.own.get_json("secret", f"ultraserver-webhook-{kind}") for kind in ("tls", "ca")]
        return has_certificate(
            installed, *(base64.b64decode(secret["data"]["tls.crt"]) for secret in secrets)
        )

    until(is_served, "the program's own certificate", seconds=MAX_SECONDS)


def has_certificate(installed: Installation, leaf: bytes, authority: bytes) -> bool:
    """Returns whether every serving Pod serves a leaf, and the API server trusts only its authority."""
    addresses = [pod["status"]["podIP"] for pod in installed.pods()]
    return (
        installed.ca_bundles() == {base64.b64encode(authority).decode()}
        and len(addresses) == 2
        and installed.served_certificates(*addresses) == {leaf.decode()}
    )

"""Who makes the certificate changes, again and again, on a busy machine, while jobs keep coming."""

from __future__ import annotations

import base64
import contextlib
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.install.installation import NAMESPACE, TEAM
from tests.cluster.install.test_install import bundles
from tests.cluster.load import jobs_keep_coming
from tests.docs.blocks import REPOSITORY
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.install.installation import Installation

INSTALL = "docs/install.md"
HEADING, BACK = "A certificate of your own", "Back to the program's own certificate"
LONGEST = 120.0
"""Seconds for a change: two settling times, and what a busy machine adds."""


@pytest.fixture
def busy(installed: Installation) -> Iterator[Installation]:
    """Two loops beside it."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2)]
    yield installed
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.bench)])
def test_changes_of_who_makes_the_certificate_cost_no_job_its_place(busy: Installation, rounds: int) -> None:
    with jobs_keep_coming(busy.control_plane.kubeconfig, TEAM) as load:
        for _ in range(rounds):
            own = new_certificate(busy)
            busy.run(INSTALL, HEADING)
            until(lambda own=own: serves(busy, own / "tls.crt", own / "ca.crt"), LONGEST)
            busy.run(INSTALL, BACK)
            until(lambda: serves_its_own(busy), LONGEST)
    sys.stderr.write(f"{rounds} changes each way: {load}\n")
    assert len(load.admissions) > 10 * rounds
    assert load.lost == []


def test_whoever_was_named_last_wins_however_hastily_it_changes(busy: Installation) -> None:
    chance = random.Random(8)  # noqa: S311 - no secret
    with jobs_keep_coming(busy.control_plane.kubeconfig, TEAM) as load:
        for _ in range(3):
            own = new_certificate(busy)
            busy.run(INSTALL, HEADING)
            time.sleep(chance.uniform(0, 6))
            busy.run(INSTALL, BACK)
            time.sleep(chance.uniform(0, 6))
        busy.run(INSTALL, HEADING)
        until(lambda: serves(busy, own / "tls.crt", own / "ca.crt"), LONGEST)
        busy.run(INSTALL, BACK)
        until(lambda: serves_its_own(busy), LONGEST)
    assert load.lost == []


def new_certificate(installed: Installation) -> Path:
    """Another certificate of another authority, where the document wants it."""
    folder = installed.folder / "manifests" / "components" / "bring-your-own-certificate"
    for name in ("tls.crt", "tls.key", "ca.crt"):
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()
    host = f"--host=ultraserver-webhook.{NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder), host]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


def serves_its_own(installed: Installation) -> bool:
    files = {name: secret(installed, name) for name in ("tls", "ca")}
    return served(installed, files["tls"]["tls.crt"], files["ca"]["tls.crt"])


def serves(installed: Installation, leaf: Path, authority: Path) -> bool:
    return served(installed, leaf.read_bytes(), authority.read_bytes())


def served(installed: Installation, leaf: bytes, authority: bytes) -> bool:
    """Whether every pod serves a leaf, and the API server trusts its authority and no other."""
    addresses = [pod["status"]["podIP"] for pod in installed.pods()]
    return (
        bundles(installed) == {base64.b64encode(authority).decode()}
        and len(addresses) == 2
        and installed.served(*addresses) == {leaf.decode()}
    )


def secret(installed: Installation, kind: str) -> dict[str, bytes]:
    data = installed.own.get_json("secret", f"ultraserver-webhook-{kind}")["data"]
    return {name: base64.b64decode(text) for name, text in data.items()}

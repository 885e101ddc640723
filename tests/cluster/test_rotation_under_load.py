"""Authority and leaf are replaced ten times each while jobs are created: none may fail.

The API server, the webhook and the certificate program are real. A thread stands in for the kubelet: it
writes the Secret into the webhook's folder as a kubelet does, by renaming a link. The webhook fails closed,
so one call that does not verify is one refused job.
"""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import signed_by
from certs.inputs import Policy
from certs.rotate import Rotator, Target
from kube.client import connect
from tests.certs.installation import REPOSITORY, configuration, install
from tests.certs.pod import Background, Client, Mount
from tests.cluster.controlplane import answers_ok
from tests.cluster.load import jobs_keep_coming, places
from tests.cluster.process import free_ports
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.certs.installation import Installation
    from tests.cluster.controlplane import ControlPlane

ROUNDS = 10
NAME = "rotating"


def test_no_admission_fails_while_authority_and_leaf_are_replaced_ten_times(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    installed = install(control_plane, NAME, tmp_path)
    with webhook(control_plane, installed, tmp_path / "mounted") as port:
        asked(installed, port)
        # The API server learns of configurations a moment later.
        until(lambda: places(control_plane.kubeconfig, NAME))
        client = Client(installed, control_plane.kubeconfig, port)
        with (
            jobs_keep_coming(control_plane.kubeconfig, NAME, a_second=25) as load,
            Background(client.handshake, 0.1) as checks,
        ):
            authorities = {rotate(installed, client) for _ in range(ROUNDS)}
        sys.stderr.write(f"{load}; {checks.done} handshakes, {len(client.seen)} leaves\n")
        assert load.lost == []
        assert checks.failures == []
        assert len(authorities) == ROUNDS
        assert len(client.seen) > ROUNDS
        assert len(load.admissions) > 20 * ROUNDS
    for kind in ("mutating", "validating"):
        installed.kubectl.run("delete", f"{kind}webhookconfiguration", NAME)


@contextlib.contextmanager
def webhook(plane: ControlPlane, installed: Installation, folder: Path) -> Iterator[int]:
    """A webhook that serves from a mounted Secret, and the loop that keeps it; yields the webhook's port."""
    (port,) = free_ports(1)
    made = installed.certs("issue")
    assert made.returncode == 0, made.stderr
    mount = Mount(folder, installed)
    mount.refresh()
    serve = [sys.executable, "-m", "webhook", "serve", "--host=127.0.0.1", f"--port={port}"]
    serve += [f"--tls-cert={folder / 'tls.crt'}", f"--tls-key={folder / 'tls.key'}"]
    run = installed.command(
        "run",
        interval_seconds=0.3,
        settle_seconds=1,
        lease=f"{NAME}-certs",
        metrics_port=0,
        endpoint=f"127.0.0.1:{port}",
    )
    with Background(mount.refresh, 0.2) as kubelet:
        env = {**os.environ, "ULTRASERVER_WEBHOOK_SERVE_LOG_LEVEL": "warning"}
        server = plane.programs.start(NAME, serve, cwd=REPOSITORY, env=env)
        server.wait_ready(lambda: answers_ok(f"https://127.0.0.1:{port}/readyz", folder / "ca.crt"), 30)
        loop = plane.programs.start(f"{NAME}-certs", run, cwd=REPOSITORY)
        yield port
        plane.programs.stop(loop)
        plane.programs.stop(server)
    assert not kubelet.failures


def asked(installed: Installation, port: int) -> None:
    """Points the mutating configuration at the webhook, for the namespace of the same name."""
    here = {"matchLabels": {"kubernetes.io/metadata.name": NAME}}
    document = configuration("Mutating", NAME, f"https://127.0.0.1:{port}/mutate", here)
    # Without the caBundle, as a person's `kubectl apply` of the manifest: the loop fills it in again.
    installed.kubectl.run("delete", "mutatingwebhookconfiguration", NAME)
    installed.kubectl.create(document)
    until(lambda: not installed.problems(datetime.now(UTC)))


def rotate(installed: Installation, client: Client) -> bytes:
    """One whole round: the authority, then the leaf; a second rotator asks, the loop does most of it."""
    secrets = (f"{NAME}-{kind}" for kind in ("tls", "ca", "provided"))
    target = Target(NAME, NAME, *secrets, (("mutating", NAME), ("validating", NAME)))
    names = (f"{NAME}.{NAME}.svc", f"{NAME}.{NAME}.svc.cluster.local", f"{NAME}.{NAME}", NAME)
    rival = Rotator(
        connect(installed.kubeconfig), target, Policy(names, ("127.0.0.1",)), lambda: datetime.now(UTC)
    )
    old = rival.run(authority=True).stored.serving.leaf
    until(lambda: len(installed.stored().authority.bundle) == 1)
    stored = installed.stored()
    assert stored.authority.pair
    assert stored.serving.leaf
    assert stored.serving.leaf != old
    assert signed_by(stored.serving.leaf, stored.authority.pair.certificate)
    newest = rival.run(leaf=True).stored.serving.leaf
    assert newest
    assert newest != stored.serving.leaf
    until(lambda: newest.public_bytes(Encoding.DER) in client.seen)
    return stored.authority.pair.certificate_pem()

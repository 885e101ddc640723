"""Tests of the certificate program on a real API server, with exactly the rights of the manifests."""

import base64
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from certs import objects
from certs.authority import new_authority
from kube.api import ForbiddenError, Object
from kube.client import connect
from testbed.plane.controlplane import ControlPlane
from testbed.plane.process import free_ports
from testbed.waiting import PATIENCE, until
from tests.certs.installation import REPOSITORY, Installation, install

HOOKS = ("mutating", "validating")
_installation_numbers = count()


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    """A new installation of the certificate program, with its own name."""
    installation = install(control_plane, f"certs-{next(_installation_numbers)}", tmp_path)
    yield installation
    for kind in HOOKS:
        installation.kubectl.delete(f"{kind}webhookconfiguration", installation.name)


def test_the_program_cannot_create_a_token_of_another_service_account(installation: Installation) -> None:
    """The account may read three Secrets, so it must not be able to store a token in any of them."""
    account = connect(installation.kubeconfig)
    path, name = objects.secrets_path(installation.name), installation.name
    wrong_type = "kubernetes.io/service-account-token"
    of_default = {"kubernetes.io/service-account.name": "default"}

    def secret(name: str, kind: str) -> Object:
        metadata = {"name": name, "annotations": of_default if kind == wrong_type else {}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind}

    def refused() -> bool:
        try:
            account.create(f"{path}?dryRun=All", secret(f"{name}-other", "Opaque"))
        except ForbiddenError as error:
            return "and no other" in str(error)
        return False

    until(refused, "the API server to apply the policy")
    for secret_name in (*(f"{name}-{kind}" for kind in ("provided", "tls", "ca")), "other"):
        with pytest.raises(ForbiddenError, match="the certificate program may create"):
            account.create(path, secret(secret_name, wrong_type))
    # Each command has the rights that it needs. tests/certs/test_commands.py tests the output.
    for command in ("issue", "rotate", "status"):
        completed = installation.certs(command)
        assert completed.returncode == 0, completed.stderr
    assert not installation.problems(datetime.now(UTC))


def test_two_replicas_restore_deleted_secrets_and_changed_ca_bundles(
    installation: Installation, control_plane: ControlPlane
) -> None:
    (port,) = free_ports(1)
    command = installation.command("run", interval_seconds=0.2, settle_seconds=1, metrics_host="127.0.0.1")
    replica = control_plane.programs.start(
        f"{installation.name}-run", [*command, f"--metrics-port={port}"], cwd=REPOSITORY
    )
    rival = control_plane.programs.start(
        f"{installation.name}-rival", [*command, "--metrics-port=0"], cwd=REPOSITORY
    )
    wait_until_repaired(installation, {})
    for kind in ("tls", "ca"):
        before = versions(installation)
        installation.kubectl.delete("secret", f"{installation.name}-{kind}")
        wait_until_repaired(installation, {kind: before[kind]})
    for bundle in ("", base64.b64encode(other_ca_certificate()).decode()):
        operations = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        path = objects.webhook_configuration_path("mutating", installation.name)
        broken = installation.admin.patch(path, operations)
        wait_until_repaired(installation, {"mutating": broken["metadata"]["resourceVersion"]})
    until(lambda: len(installation.stored().authority.bundle) == 1, "the removal of the older authorities")
    metrics = fetch_metrics(port)
    assert 'ultraserver_certs_expiry_timestamp_seconds{certificate="leaf"}' in metrics
    for program in (replica, rival):
        control_plane.programs.stop(program)
        assert "stopped" in program.tail()


def versions(installation: Installation) -> dict[str, str]:
    """Returns the resourceVersion of each webhook configuration and Secret, empty if it is missing."""
    name = installation.name
    result = {kind: installation.admin.get(objects.webhook_configuration_path(kind, name)) for kind in HOOKS}
    result |= {kind: installation.secret(kind) for kind in ("tls", "ca")}
    return {kind: obj["metadata"]["resourceVersion"] if obj else "" for kind, obj in result.items()}


def wait_until_repaired(installation: Installation, broken: dict[str, str]) -> None:
    """Waits until the installation has no problem, and no object has its version in ``broken`` any more."""

    def is_repaired() -> bool:
        now = versions(installation)
        return (
            all(now.values())
            and not any(now[kind] == version for kind, version in broken.items())
            and not installation.problems(datetime.now(UTC))
            and installation.stored().authority.pair is not None
        )

    until(is_repaired, f"the repair of {', '.join(broken) or 'everything'}")


def other_ca_certificate() -> bytes:
    """Returns the CA certificate of another installation, as PEM."""
    return new_authority(datetime.now(UTC), timedelta(days=1)).certificate_pem()


def fetch_metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
        text: str = response.read().decode()
    return text

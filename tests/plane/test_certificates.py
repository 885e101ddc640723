"""The certificate program against a real API server, with exactly the rights that its page grants."""

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
_numbers = count()


@pytest.fixture
def installed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    """The program's surroundings under a name of their own."""
    made = install(control_plane, f"certs-{next(_numbers)}", tmp_path)
    yield made
    for kind in HOOKS:
        made.kubectl.delete(f"{kind}webhookconfiguration", made.name)


def test_the_account_can_make_no_token_of_another_account(installed: Installation) -> None:
    """It may read the three Secrets of these names, so what it could make under one of them it would have."""
    account = connect(installed.kubeconfig)
    path, name = objects.secrets_path(installed.name), installed.name
    minting = "kubernetes.io/service-account-token"
    of = {"kubernetes.io/service-account.name": "default"}

    def secret(name: str, kind: str) -> Object:
        metadata = {"name": name, "annotations": of if kind == minting else {}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind}

    def refused() -> bool:
        try:
            account.create(f"{path}?dryRun=All", secret(f"{name}-other", "Opaque"))
        except ForbiddenError as error:
            return "and no other" in str(error)
        return False

    until(refused, "the policy to be looked at")
    for wanted in (*(f"{name}-{kind}" for kind in ("provided", "tls", "ca")), "other"):
        with pytest.raises(ForbiddenError, match="the certificate program may create"):
            account.create(path, secret(wanted, minting))
    # Each command has the rights that it needs; tests/certs/test_commands.py has what they say.
    for command in ("issue", "rotate", "status"):
        done = installed.certs(command)
        assert done.returncode == 0, done.stderr
    assert not installed.problems(datetime.now(UTC))


def test_two_replicas_repair_what_strangers_break(
    installed: Installation, control_plane: ControlPlane
) -> None:
    (port,) = free_ports(1)
    command = installed.command("run", interval_seconds=0.2, settle_seconds=1, metrics_host="127.0.0.1")
    loop = control_plane.programs.start(
        f"{installed.name}-run", [*command, f"--metrics-port={port}"], cwd=REPOSITORY
    )
    rival = control_plane.programs.start(
        f"{installed.name}-rival", [*command, "--metrics-port=0"], cwd=REPOSITORY
    )
    wait_whole(installed, {})
    for kind in ("tls", "ca"):
        lost = versions(installed)
        installed.kubectl.delete("secret", f"{installed.name}-{kind}")
        wait_whole(installed, {kind: lost[kind]})
    for wrong in ("", base64.b64encode(installed_elsewhere()).decode()):
        operations = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": wrong}]
        path = objects.webhook_configuration_path("mutating", installed.name)
        broken = installed.admin.patch(path, operations)
        wait_whole(installed, {"mutating": broken["metadata"]["resourceVersion"]})
    until(lambda: len(installed.stored().authority.bundle) == 1, "the end of the older authorities")
    metrics = fetch(port)
    assert 'ultraserver_certs_expiry_timestamp_seconds{certificate="leaf"}' in metrics
    for program in (loop, rival):
        control_plane.programs.stop(program)
        assert "stopped" in program.tail()


def versions(installed: Installation) -> dict[str, str]:
    """Returns the versions of all that is stored, by what it is."""
    name = installed.name
    result = {kind: installed.admin.get(objects.webhook_configuration_path(kind, name)) for kind in HOOKS}
    result |= {kind: installed.secret(kind) for kind in ("tls", "ca")}
    return {kind: each["metadata"]["resourceVersion"] if each else "" for kind, each in result.items()}


def wait_whole(installed: Installation, broken: dict[str, str]) -> None:
    """Waits until all is well and what was broken has been written since."""

    def mended() -> bool:
        now = versions(installed)
        return (
            all(now.values())
            and not any(now[kind] == version for kind, version in broken.items())
            and not installed.problems(datetime.now(UTC))
            and installed.stored().authority.pair is not None
        )

    until(mended, f"the repair of {', '.join(broken) or 'everything'}")


def installed_elsewhere() -> bytes:
    """Returns the authority of some other installation, as PEM."""
    return new_authority(datetime.now(UTC), timedelta(days=1)).certificate_pem()


def fetch(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
        text: str = response.read().decode()
    return text

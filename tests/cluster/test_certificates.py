"""The certificate program against a real API server, with exactly the rights that its page grants."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from certs.authority import new_authority
from certs.checks import unusable
from certs.observed import read_serving
from tests.certs.installation import REPOSITORY, install
from tests.cluster.process import free_ports
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.certs.installation import Installation
    from tests.cluster.controlplane import ControlPlane

ROUNDS = 20
_numbers = count()


@pytest.fixture
def installed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    """The program's surroundings under a name of their own."""
    made = install(control_plane, f"certs-{next(_numbers)}", tmp_path)
    yield made
    names = [f"{kind}webhookconfiguration/{made.name}" for kind in ("mutating", "validating")]
    made.kubectl.run("delete", *names)


def test_issue_makes_everything_once_and_status_says_so(installed: Installation) -> None:
    before = installed.certs("status")
    assert before.returncode == 1
    assert "wrong: there is no leaf to serve: it does not exist" in before.stderr
    first = installed.certs("issue")
    assert first.returncode == 0, first.stderr
    assert [line.split(":")[0] for line in first.stdout.splitlines()] == [
        "new authority",
        "patch caBundle",
        "issue leaf",
        "keep",
    ]
    assert installed.certs("issue").stdout == "keep: all is well\n"
    assert not installed.problems(datetime.now(UTC))
    assert (installed.secret() or {})["type"] == "kubernetes.io/tls"
    after = installed.certs("status")
    assert after.returncode == 0, after.stderr
    assert f"mutating   {installed.name} has the bundle" in after.stdout


def test_a_right_that_lacks_is_named_and_nothing_half_made_is_served(installed: Installation) -> None:
    installed.kubectl.run("delete", "clusterrolebinding", f"{installed.name}-certs")
    failed = installed.certs("issue")
    assert failed.returncode == 1
    assert "403" in failed.stderr
    assert "cannot get resource" in failed.stderr
    assert installed.secret() is None


def test_what_has_ended_is_wrong_and_replaced_at_once(installed: Installation) -> None:
    seconds = 1 / 86400
    short = {"leaf_days": 2 * seconds, "ca_days": 2 * seconds, "settle_seconds": 0}
    assert installed.certs("issue", **short).returncode == 0
    old = installed.stored()
    time.sleep(2.1)
    assert installed.problems(datetime.now(UTC))
    done = installed.certs("issue")
    assert done.stdout.startswith("new authority: the authority is good from"), done.stderr
    assert not installed.problems(datetime.now(UTC))
    assert installed.stored().authority.bundle.isdisjoint(old.authority.bundle)


def test_the_loop_repairs_what_strangers_break(installed: Installation, control_plane: ControlPlane) -> None:
    (port,) = free_ports(1)
    command = installed.command(
        "run",
        interval_seconds=0.2,
        settle_seconds=1,
        metrics_port=port,
        metrics_host="127.0.0.1",
        lease=f"{installed.name}-certs",
    )
    loop = control_plane.programs.start(f"{installed.name}-run", command, cwd=REPOSITORY)
    until(lambda: installed.secret() and not installed.problems(datetime.now(UTC)))
    for kind in ("tls", "ca"):
        installed.kubectl.run("delete", "secret", f"{installed.name}-{kind}")
        until(lambda: not installed.problems(datetime.now(UTC)))
        until(lambda: installed.stored().authority.pair is not None)
    for wrong in ("", base64.b64encode(installed_elsewhere()).decode()):
        operations = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": wrong}]
        installed.kubectl.run(
            *("patch", "mutatingwebhookconfiguration", installed.name, "--type=json"),
            *("-p", json.dumps(operations)),
        )
        assert installed.problems(datetime.now(UTC))
        until(lambda: not installed.problems(datetime.now(UTC)))
    until(lambda: len(installed.stored().authority.bundle) == 1)
    metrics = fetch(port)
    assert 'ultraserver_certs_expiry_timestamp_seconds{certificate="leaf"}' in metrics
    assert "ultraserver_certs_leader 1.0" in metrics
    assert holder(installed)
    control_plane.programs.stop(loop)
    assert "stopped" in loop.tail()
    assert holder(installed) == ""


def test_two_competing_rotators_never_leave_a_broken_pair(installed: Installation) -> None:
    assert installed.certs("issue").returncode == 0
    command = [sys.executable, "-m", "tests.certs.competitor", *installed.options(settle_seconds=0)]
    rivals = [
        subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    conflicts = looks = 0
    try:
        for number in range(ROUNDS):
            before = installed.stored()
            forced = ("ca", "leaf", "ca leaf", "")[number % 4]
            if not forced:
                # Both Secrets, so that the rivals meet where there is nothing to compare versions with.
                installed.kubectl.run("delete", "secret", f"{installed.name}-tls", f"{installed.name}-ca")
            for rival in rivals:
                tell(rival, forced)
            for _ in range(6):
                looks += look(installed)
            conflicts += sum(answer(rival)["conflicts"] for rival in rivals)
            assert not installed.problems(datetime.now(UTC))
            assert installed.stored().serving.leaf != before.serving.leaf
        # Old authorities go a second after the last leaf was made: certificates count whole ones.
        time.sleep(1.1)
        for rival in rivals:
            tell(rival, "")
        for rival in rivals:
            answer(rival)
        assert len(installed.stored().authority.bundle) == 1
        assert not installed.problems(datetime.now(UTC))
    finally:
        for rival in rivals:
            rival.communicate(timeout=PATIENCE)
    assert [rival.returncode for rival in rivals] == [0, 0]
    assert conflicts, "they never met, so this has shown nothing"
    assert looks >= ROUNDS


def tell(rival: subprocess.Popen[str], line: str) -> None:
    assert rival.stdin
    rival.stdin.write(f"{line}\n")
    rival.stdin.flush()


def answer(rival: subprocess.Popen[str]) -> dict[str, Any]:
    assert rival.stdout
    line = rival.stdout.readline()
    assert line, f"a rival ended with {rival.wait()}"
    found: dict[str, Any] = json.loads(line)
    return found


def look(installed: Installation) -> bool:
    """One look while rotators are at work: the leaf has its key, and every caBundle verifies it.

    What is read before and after the caBundles must be the same leaf, else it is no judgement on them.
    """
    before = read_serving(installed.secret())
    hooks = installed.stored().hooks
    after = read_serving(installed.secret())
    now = datetime.now(UTC)
    for seen in (before, after):
        if seen.raw is not None:
            assert not unusable(seen, seen.bundle, now)
    if before.leaf is None or before.leaf != after.leaf:
        return False
    for hook in hooks:
        for bundle in hook.bundles:
            assert not unusable(after, bundle, now)
    return True


def holder(installed: Installation) -> str:
    """Who holds the Lease."""
    spec = installed.kubectl.get_json("lease", f"{installed.name}-certs")["spec"]
    return str(spec.get("holderIdentity", ""))


def installed_elsewhere() -> bytes:
    """The authority of some other installation, as PEM."""
    return new_authority(datetime.now(UTC), timedelta(days=1)).certificate_pem()


def fetch(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
        text: str = response.read().decode()
    return text

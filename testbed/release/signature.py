"""The signature of a release's checksums, by a maintainer's key: ``ssh-keygen -Y``.

It is on every machine that has git or kubectl, and the key may be one of an agent or of a device.
"""

import subprocess
from pathlib import Path

from testbed.release.source import REPOSITORY, ReleaseError

SIGNERS = REPOSITORY / "allowed_signers"
"""The keys that may sign releases: who checks a release has them from here, not from the release."""
IDENTITY, NAMESPACE = "release", "ultraserver-webhook"


def sign(sums: Path, key: Path) -> None:
    """Signs the checksums; ssh-keygen asks for the key's passphrase where it has one.

    Args:
        sums: the file with the checksums.
        key: the file of the key; the public half where an agent holds the other.
    """
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
    if subprocess.run(command, check=False).returncode:
        raise ReleaseError(f"{key} does not sign, see above")


def refused(sums: Path, signers: Path = SIGNERS) -> str:
    """Returns why the signature of the checksums is not valid; empty if it is by one of the signers."""
    verify = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", IDENTITY]
    command = [*verify, "-f", str(signers), "-s", f"{sums}.sig"]
    done = subprocess.run(command, check=False, input=sums.read_bytes(), capture_output=True)
    return f"{signers}: {(done.stdout + done.stderr).decode().strip()}" if done.returncode else ""

"""Signs a release's checksums with a maintainer's SSH key, and checks the signature: ``ssh-keygen -Y``.

ssh-keygen is installed on most machines with git, and the key may be in an agent or a device.
"""

import subprocess
from pathlib import Path

from testbed.release.source import REPOSITORY, ReleaseError

SIGNERS = REPOSITORY / "allowed_signers"
"""The keys that may sign releases. A user who checks a release gets them from here, not from the release."""
IDENTITY, NAMESPACE = "release", "ultraserver-webhook"


def sign(sums: Path, key: Path) -> None:
    """Signs the checksums. ssh-keygen asks for the passphrase of the key if it has one.

    Args:
        sums: The file with the checksums.
        key: The file of the key; that of the public half if an agent has the private half.
    """
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
    if subprocess.run(command, check=False).returncode:
        raise ReleaseError(f"{key} does not sign, see above")


def why_refused(sums: Path, signers: Path = SIGNERS) -> str:
    """Returns why the signature of the checksums is not valid; empty if one of the signers has signed."""
    verify = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", IDENTITY]
    command = [*verify, "-f", str(signers), "-s", f"{sums}.sig"]
    result = subprocess.run(command, check=False, input=sums.read_bytes(), capture_output=True)
    return f"{signers}: {(result.stdout + result.stderr).decode().strip()}" if result.returncode else ""

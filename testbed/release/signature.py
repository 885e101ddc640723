"""Signs a release's checksums with a maintainer's SSH key, and checks the signature.

``ssh-keygen -Y`` is on most machines that have git, and its keys may be in an agent or on a device.
"""

import subprocess
from pathlib import Path

from testbed.release.source import REPOSITORY, ReleaseError

SIGNERS = REPOSITORY / "allowed_signers"
"""The keys that may sign releases. A user who checks a release must not use keys from the release itself."""
IDENTITY, NAMESPACE = "release", "ultraserver-webhook"


def sign(sums: Path, key: Path) -> None:
    """Signs the checksums. ssh-keygen prompts for the passphrase of the key if it has a passphrase.

    Args:
        sums: The file with the checksums.
        key: The file of the private key, or of the public key if an agent has the private key.

    Raises:
        ReleaseError: The key cannot sign.
    """
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
    if subprocess.run(command, check=False).returncode:
        raise ReleaseError(f"ssh-keygen cannot sign with {key}, see above")


def why_refused(sums: Path, signers: Path = SIGNERS) -> str:
    """Returns why the signature of the checksums is not valid; empty if one of the signers has signed."""
    verify = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", IDENTITY]
    command = [*verify, "-f", str(signers), "-s", f"{sums}.sig"]
    result = subprocess.run(command, check=False, input=sums.read_bytes(), capture_output=True)
    return f"{signers}: {(result.stdout + result.stderr).decode().strip()}" if result.returncode else ""

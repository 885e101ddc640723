"""Finds the archive of the small Debian on which images are built, and a Debian mirror."""

import hashlib
import subprocess
from pathlib import Path

from testbed.plane.process import ClusterError

SUITE = "trixie"
"""The release of Debian that has the Python of the Dockerfile."""
INCLUDE = "ca-certificates,python3,python3-venv"
"""The packages that debootstrap adds to the smallest Debian."""


def archive(cache: Path) -> Path:
    """Returns the archive of the small Debian, which may not exist yet."""
    return cache / f"debian-{hashlib.sha256(f'{SUITE} {INCLUDE}'.encode()).hexdigest()[:16]}.tar"


def mirror() -> str:
    """Returns the Debian mirror of this machine's apt.

    Raises:
        ClusterError: apt has no mirror.
    """
    if mirrors := _mirrors():
        return mirrors[0]
    # apt lists mirrors only if it has package lists, which Debian images often lack.
    result = subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True, text=True)
    if mirrors := _mirrors():
        return mirrors[0]
    raise ClusterError(f"apt has no Debian mirror after apt-get update:\n{result.stderr}")


def _mirrors() -> list[str]:
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Created-By: Packages"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    # apt also lists targets of security updates, whose addresses do not end in /debian.
    return [line for line in result.stdout.splitlines() if line.rstrip("/").endswith("/debian")]

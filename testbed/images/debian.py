"""The small Debian that images are built on: which one, and where it comes from."""

import hashlib
import subprocess
from pathlib import Path

from testbed.plane.process import ClusterError

SUITE = "trixie"
"""The release of Debian whose Python is the one that the Dockerfile names."""
INCLUDE = "ca-certificates,python3,python3-venv"


def archive(cache: Path) -> Path:
    """Returns where it is kept, or will be."""
    return cache / f"debian-{hashlib.sha256(f'{SUITE} {INCLUDE}'.encode()).hexdigest()[:16]}.tar"


def mirror() -> str:
    """Returns where this machine's apt gets Debian from.

    Raises:
        ClusterError: apt has no mirror.
    """
    if mirrors := _mirrors():
        return mirrors[0]
    # apt tells by its lists, which images of Debian often come without.
    done = subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True, text=True)
    if mirrors := _mirrors():
        return mirrors[0]
    raise ClusterError(f"apt does not say where it gets Debian from, after apt-get update:\n{done.stderr}")


def _mirrors() -> list[str]:
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Created-By: Packages"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    # In addition to the release there are its updates, and security at another address.
    return [line for line in done.stdout.splitlines() if line.rstrip("/").endswith("/debian")]

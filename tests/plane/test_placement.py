"""What is stored of plain jobs is what the preview says."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from testbed.mpijob import mpijob
from testbed.plane import jobs
from testbed.plane.jobs import template
from testbed.plane.webhook import REPOSITORY

if TYPE_CHECKING:
    from testbed.plane.kubectl import Kubectl


@pytest.mark.usefixtures("registered_webhook")
def test_the_preview_says_what_the_cluster_does(namespace: Kubectl) -> None:
    plain = jobs.together(*(mpijob(workers, name=f"plain-{workers}") for workers in (1, 2, 3, 4, 6, 8, 16)))
    stored = {job["metadata"]["name"]: job for job in namespace.create(plain, "--dry-run=server")["items"]}
    command = [sys.executable, "-m", "webhook", "preview", "-n", str(namespace.namespace), "-o", "yaml"]
    text = jobs.text(plain)
    done = subprocess.run(command, cwd=REPOSITORY, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    shown = {job["metadata"]["name"]: job for job in yaml.safe_load_all(done.stdout)}
    assert shown.keys() == stored.keys()
    for name, job in shown.items():
        for role in ("Launcher", "Worker"):
            assert template(job, role) == template(stored[name], role)

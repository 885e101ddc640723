"""Tests on Kubernetes 1.33, which does not serve the claims API. Programs of a later version emulate it."""

from pathlib import Path
from typing import ClassVar

import pytest

from placement.messages import WITHOUT_CLAIMS
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import staged
from testbed.kits import build
from testbed.plane.controlplane import ControlPlane


class OlderPlane(ControlPlane):
    """A control plane that emulates Kubernetes 1.33."""

    flags: ClassVar = {
        name: {"emulated-version": "1.33"}
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    }


@pytest.mark.skipif(build.OTHER == "1.37", reason="Kubernetes 1.37 cannot emulate a version before 1.34")
def test_without_the_claims_api_jobs_are_placed_by_requests_and_the_log_reports_it(
    tools: Path, tmp_path: Path
) -> None:
    assert tools
    with staged(tmp_path, "base", 2, plane=OlderPlane) as stage:
        program = stage.start_program()
        stage.apply("train", 8)
        stage.wait(all_whole)
        log = program.log.read_text(encoding="utf-8")
    assert f"resourceclaims is not served: {WITHOUT_CLAIMS}" in log

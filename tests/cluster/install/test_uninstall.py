"""The last of this folder: the other ways to a certificate, and taking everything away."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cluster.install.installation import MUTATING, NAMESPACE, VALIDATING, until
from tests.docs.blocks import REPOSITORY

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

INSTALL = "docs/install.md"
KINDS = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,networkpolicies,pdb,hpa"


def test_a_certificate_of_ones_own_takes_over_from_the_certificate_program(installed: Installation) -> None:
    folder = installed.folder / "manifests" / "components" / "bring-your-own-certificate"
    host = f"--host=ultraserver-webhook.{NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder), host]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    installed.run(INSTALL, "A certificate from elsewhere")
    until(installed.places)
    until(lambda: not installed.stand_in.pods("certificates"))
    left = installed.own.get_json("deployments,serviceaccounts,roles,rolebindings,networkpolicies")["items"]
    assert not [item for item in left if item["metadata"]["name"] == "ultraserver-webhook-certs"]


def test_uninstalling_leaves_nothing_behind_and_jobs_pass(installed: Installation) -> None:
    installed.run(INSTALL, "Uninstall")
    assert installed.dry_run() == (False, "")
    until(lambda: installed.kubectl.run("get", "namespace", NAMESPACE, check=False).returncode)
    everything = installed.kubectl.run(
        *("get", f"{KINDS},clusterroles,clusterrolebindings,priorityclasses,crds", "--all-namespaces"),
        *("-o", "name", "--show-kind"),
    ).stdout
    assert "ultraserver" not in everything
    for name in (MUTATING, VALIDATING):
        assert installed.kubectl.run("get", *name, check=False).returncode

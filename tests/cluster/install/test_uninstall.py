"""The last of this folder: taking everything away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.install.installation import MUTATING, NAMESPACE, VALIDATING
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

INSTALL = "docs/install.md"
KINDS = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,networkpolicies,pdb,hpa"


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

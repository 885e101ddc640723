"""Tests the removal of an installation, in the last file: a later test would install the product again."""

from testbed.plane.kubectl import Object
from tests.nodes.install.installation import INSTALL, MUTATING, NAMESPACE, VALIDATING, Installation

NAMESPACED_KINDS = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,networkpolicies,pdb,hpa"
CLUSTER_KINDS = "clusterroles,clusterrolebindings,priorityclasses,crds"


def test_uninstalling_removes_all_objects_and_jobs_are_created_unchanged(installed: Installation) -> None:
    def is_gone(obj: Object) -> bool:
        return NAMESPACE not in [item["metadata"]["name"] for item in obj["items"]]

    installed.run(INSTALL, "Uninstall")
    assert installed.dry_run() == (False, "")
    installed.kubectl.wait_for(is_gone, "namespaces")
    command = ("get", f"{NAMESPACED_KINDS},{CLUSTER_KINDS}", "--all-namespaces", "-o", "name", "--show-kind")
    assert "ultraserver" not in installed.kubectl.run(*command).stdout
    for name in (MUTATING, VALIDATING):
        assert installed.kubectl.run("get", *name, check=False).returncode

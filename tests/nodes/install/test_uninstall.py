"""Taking everything away. Whichever test comes next installs it again; so it is in the last file."""

from testbed.plane.kubectl import Object
from tests.nodes.install.installation import INSTALL, MUTATING, NAMESPACE, VALIDATING, Installation

KINDS = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,networkpolicies,pdb,hpa"
WIDE = "clusterroles,clusterrolebindings,priorityclasses,crds"


def test_uninstalling_leaves_nothing_behind_and_jobs_pass(installed: Installation) -> None:
    def removed_paths(obj: Object) -> bool:
        return NAMESPACE not in [each["metadata"]["name"] for each in obj["items"]]

    installed.run(INSTALL, "Uninstall")
    assert installed.dry_run() == (False, "")
    installed.kubectl.wait_for(removed_paths, "namespaces")
    shown = ("get", f"{KINDS},{WIDE}", "--all-namespaces", "-o", "name", "--show-kind")
    assert "ultraserver" not in installed.kubectl.run(*shown).stdout
    for name in (MUTATING, VALIDATING):
        assert installed.kubectl.run("get", *name, check=False).returncode

"""Going out by stages, up to another version and back, while jobs keep coming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.install.installation import TEAM
from tests.cluster.load import jobs_keep_coming
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

INSTALL, OPERATIONS = "docs/install.md", "docs/operations.md"


def images(installed: Installation) -> set[str]:
    pods = installed.own.get_json("pods", "-l", "app.kubernetes.io/component=serving")["items"]
    return {
        pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    }


def test_another_version_goes_out_and_back_and_every_job_is_placed(installed: Installation) -> None:
    file = installed.folder / "manifests" / "base" / "kustomization.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace("newTag: 0.1.0", "newTag: 0.1.1"), encoding="utf-8")
    try:
        with jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
            assert "+        image: ultraserver-webhook:0.1.1" in installed.run(INSTALL, "Upgrade")
            assert images(installed) == {"ultraserver-webhook:0.1.1"}
            installed.run(INSTALL, "Roll back")
            assert images(installed) == {"ultraserver-webhook:0.1.0"}
    finally:
        file.write_text(before, encoding="utf-8")
    assert len(load.admissions) > 20
    assert load.lost == []
    installed.run(OPERATIONS, "Switch the table on again")


def test_one_namespace_first_then_everybody_then_closed(installed: Installation) -> None:
    other = installed.kubectl.create_namespace("team-b")
    installed.run(OPERATIONS, "One namespace")
    until(lambda: installed.dry_run(other) == (False, ""))
    assert installed.places()
    installed.run(OPERATIONS, "All namespaces")
    until(lambda: installed.dry_run(other) == (True, ""))
    installed.run(OPERATIONS, "Fail closed")
    until(installed.places)
    installed.run(OPERATIONS, "Restore")
    until(installed.places)

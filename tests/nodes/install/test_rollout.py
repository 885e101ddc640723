"""Going out by stages, up to another version and back, while jobs keep coming."""

from collections.abc import Iterator

import pytest

from testbed.images import layout, product
from testbed.nodes import story
from testbed.plane.load import jobs_keep_coming
from tests.nodes.install.installation import INSTALL, OPERATIONS, TEAM, Installation

NOW, OTHER = product.version(), "0.0.1"


@pytest.fixture
def next_version(installed: Installation) -> Iterator[Installation]:
    """An installation whose manifests name another version, which is this one under another name."""
    for name in product.TARGETS.values():
        image = f"{layout.IN_CONTAINERD}/{name}"
        story.tag(installed.control_plane, f"{image}:{NOW}", f"{image}:{OTHER}")
    file = installed.folder / "manifests" / "chart" / "Chart.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace(f"appVersion: {NOW}", f"appVersion: {OTHER}"), encoding="utf-8")
    yield installed
    file.write_text(before, encoding="utf-8")
    installed.reset()


def test_another_version_goes_out_and_back(next_version: Installation) -> None:
    installed = next_version
    with jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        load.more(1)
        assert f"+          image: ultraserver-webhook:{OTHER}" in installed.run(INSTALL, "Upgrade")
        assert story.serving_images(installed.own) == {f"ultraserver-webhook:{OTHER}"}
        installed.run(INSTALL, "Roll back")
        assert story.serving_images(installed.own) == {f"ultraserver-webhook:{NOW}"}
        load.more(1)
    assert load.lost == []


def test_the_rollout_goes_from_one_namespace_to_all_and_then_fails_closed(installed: Installation) -> None:
    installed.kubectl.create_namespace("team-b")
    installed.run(OPERATIONS, "One namespace")
    installed.wait_dry_run(placed=False, message="", namespace="team-b")
    assert installed.places()
    installed.run(OPERATIONS, "All namespaces")
    installed.wait_dry_run(placed=True, message="", namespace="team-b")
    installed.run(OPERATIONS, "Fail closed")
    installed.wait_places()
    installed.reset()
    installed.wait_places()

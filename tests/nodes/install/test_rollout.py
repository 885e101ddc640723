"""Tests of a rollout in stages, and of an upgrade and a rollback while jobs are created."""

from collections.abc import Iterator

import pytest

from testbed.images import layout, product
from testbed.nodes import story
from testbed.plane.load import steady_load
from tests.nodes.install.installation import INSTALL, OPERATIONS, TEAM, Installation

THIS_VERSION, OTHER_VERSION = product.version(), "0.0.1"


@pytest.fixture
def next_version(installed: Installation) -> Iterator[Installation]:
    """An installation whose manifests name another version, which has the same images."""
    for name in product.TARGETS.values():
        image = f"{layout.IN_CONTAINERD}/{name}"
        story.tag(installed.control_plane, f"{image}:{THIS_VERSION}", f"{image}:{OTHER_VERSION}")
    file = installed.folder / "manifests" / "chart" / "Chart.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(
        before.replace(f"appVersion: {THIS_VERSION}", f"appVersion: {OTHER_VERSION}"), encoding="utf-8"
    )
    yield installed
    file.write_text(before, encoding="utf-8")
    installed.reset()


def test_an_upgrade_and_a_rollback_lose_no_create(next_version: Installation) -> None:
    installed = next_version
    with steady_load(installed.control_plane.kubeconfig, TEAM) as load:
        load.wait_for_creates(1)
        assert f"+          image: ultraserver-webhook:{OTHER_VERSION}" in installed.run(INSTALL, "Upgrade")
        assert story.serving_images(installed.own) == {f"ultraserver-webhook:{OTHER_VERSION}"}
        installed.run(INSTALL, "Roll back")
        assert story.serving_images(installed.own) == {f"ultraserver-webhook:{THIS_VERSION}"}
        load.wait_for_creates(1)
    assert load.lost_creates == []


def test_the_rollout_goes_from_one_namespace_to_all_and_then_fails_closed(installed: Installation) -> None:
    installed.kubectl.create_namespace("team-b")
    installed.run(OPERATIONS, "One namespace")
    installed.wait_dry_run(placed=False, message="", namespace="team-b")
    assert installed.places_jobs()
    installed.run(OPERATIONS, "All namespaces")
    installed.wait_dry_run(placed=True, message="", namespace="team-b")
    installed.run(OPERATIONS, "Fail closed")
    installed.wait_until_jobs_are_placed()
    installed.reset()
    installed.wait_until_jobs_are_placed()

"""The guide in docs/kinds.md: a kind that is added by its YAML alone, with the kind's real controller."""

from __future__ import annotations

import yaml

from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import second_webhook
from tests.docs.blocks import blocks_of
from tests.plane.bound import wait_bound


def test_the_kind_of_the_guide_has_its_pods_on_one_ultraserver(
    plane: ControlPlane, servers: dict[str, str]
) -> None:
    yamls = [block for block in blocks_of("docs/kinds.md") if block.language == "yaml"]
    texts = {block.file or "registration": block.text for block in yamls}
    assert set(texts) == {"statefulset.yaml", "registration", "server.yaml"}
    assert texts["statefulset.yaml"].partition("workloads:\n")[2].count("\n") <= 10
    registration, server = (yaml.safe_load(texts[name]) for name in ("registration", "server.yaml"))
    with second_webhook(plane, "guide", texts["statefulset.yaml"], [registration], server) as inside:
        inside.create(server)
        try:
            on = wait_bound(inside, [f"server-{index}" for index in range(4)])
            assert len(set(on.values())) == 4
            assert len({servers[node] for node in on.values()}) == 1
        finally:
            # Before its Pods, or it would make them again.
            inside.delete("statefulsets")

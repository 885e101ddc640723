"""The guide in docs/kinds.md: a kind that is added by its YAML alone, with the kind's real controller."""

import yaml

from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import second_webhook
from tests.docs.blocks import blocks_of
from tests.plane.bound import wait_bound
from tests.plane.manifests.objects import webhooks


def test_the_kind_of_the_guide_has_its_pods_on_one_ultraserver(
    plane: ControlPlane, servers: dict[str, str]
) -> None:
    yamls = [block for block in blocks_of("docs/kinds.md") if block.language == "yaml"]
    texts = {block.file or "values": block.text for block in yamls}
    assert set(texts) == {"statefulset.yaml", "values", "server.yaml", "waits.yaml"}
    assert texts["statefulset.yaml"].partition("workloads:\n")[2].count("\n") <= 10
    values, server = (yaml.safe_load(texts[name]) for name in ("values", "server.yaml"))
    hooks = webhooks(chart.objects(values))
    registered = hooks["kinds.ultraserver-webhook.io"]["rules"]
    assert not {"kinds-jobs.ultraserver-webhook.io", "kinds-updates.ultraserver-webhook.io"} & set(hooks)
    with second_webhook(plane, "guide", texts["statefulset.yaml"], registered, server) as inside:
        inside.create(server)
        try:
            on = wait_bound(inside, [f"server-{index}" for index in range(4)])
            assert len(set(on.values())) == 4
            assert len({servers[node] for node in on.values()}) == 1
        finally:
            # Before its Pods, or it would make them again.
            inside.delete("statefulsets")

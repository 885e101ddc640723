"""The two ways in which kubectl applies a file, and a job with lists that each way merges differently."""

import pytest

from testbed.mpijob import mpijob
from testbed.plane.jobs import template
from testbed.plane.kubectl import Object

WAYS = {"client-side": (), "server-side": ("--server-side",)}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def templates(stored: Object) -> list[Object]:
    return [template(stored, role) for role in ("Launcher", "Worker")]


def with_own_lists(name: str = "train") -> Object:
    """Returns a job whose author has items in the lists to which the webhook adds."""
    noisy = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    return mpijob(
        4,
        name=name,
        worker_spec={
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [noisy]}}
        },
        launcher_spec={"initContainers": [{"name": "mine", "image": "example.invalid/mine"}]},
    )

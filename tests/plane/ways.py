"""The ways in which people apply a file, and a job that shows what each does to lists."""

import pytest

from testbed.mpijob import mpijob
from testbed.plane.jobs import template
from testbed.plane.kubectl import Object

WAYS = {"client-side": (), "server-side": ("--server-side",)}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def templates(stored: Object) -> list[Object]:
    return [template(stored, role) for role in ("Launcher", "Worker")]


def with_own_lists(name: str = "train") -> Object:
    """Returns a job that has something of its own in the lists that the webhook adds to."""
    noisy = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    return mpijob(
        4,
        name=name,
        worker_spec={
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [noisy]}}
        },
        launcher_spec={"initContainers": [{"name": "mine", "image": "example.invalid/mine"}]},
    )

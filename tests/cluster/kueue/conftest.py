"""One control plane with Kueue, its queues and a few UltraServers for the tests of this folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs import second_webhook
from tests.cluster.kueue import program
from tests.cluster.placement.stage import staged, table
from tests.cluster.tools import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.placement.stage import Stage

ULTRASERVERS = 6
KUEUE_FIRST, WEBHOOK_FIRST = "kueue-is-asked-first", "a-webhook-is-asked-first"
"""Namespaces with a queue that is their default. The API server asks webhooks in the order of their names."""


@pytest.fixture(scope="package")
def kueue_tools(tools: Path) -> Path:
    """The folder of Kueue's program."""
    assert tools
    found = build.KUEUE.directory()
    if lacking := build.KUEUE.missing(found):
        reason = f"{', '.join(lacking)} is not built: make cluster-tools"
        if os.environ.get("REQUIRE_CLUSTER") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="package")
def whole_stage(kueue_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage; `stage` clears it after each test."""
    assert kueue_tools
    folder = tmp_path_factory.mktemp("kueue")
    with staged(folder, "kueue", ULTRASERVERS) as made:
        made.plane.kubectl.create_namespace(KUEUE_FIRST)
        with second_webhook(made.plane, WEBHOOK_FIRST, table("kueue")):
            for namespace in (KUEUE_FIRST, WEBHOOK_FIRST):
                for name in (program.LOCAL_QUEUE, "default"):
                    program.queue(made.plane, namespace, name)
            yield made


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """The stage with nothing on it."""
    yield whole_stage
    whole_stage.clear()
    whole_stage.queue = program.LOCAL_QUEUE

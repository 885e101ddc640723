"""One control plane with Kueue, its queues and a few UltraServers for the tests of this folder."""

from collections.abc import Iterator

import pytest

from testbed.experiment.stage import Stage, staged, table
from testbed.plane import kueue as program
from testbed.plane.jobs import second_webhook

ULTRASERVERS = 6
KUEUE_FIRST, WEBHOOK_FIRST = "kueue-is-asked-first", "a-webhook-is-asked-first"
"""Namespaces with a queue that is their default. The API server asks webhooks in the order of their names."""


@pytest.fixture(scope="package")
def whole_stage(kueue_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage; `stage` clears it after each test."""
    assert kueue_tools is None
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

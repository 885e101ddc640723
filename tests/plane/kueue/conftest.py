"""Fixtures: a control plane with Kueue, its queues and six UltraServers, for the tests of this folder."""

from collections.abc import Iterator

import pytest

from testbed.experiment.stage import Stage, staged, table
from testbed.plane import kueue as program
from testbed.plane.jobs import second_webhook

ULTRASERVERS = 6
KUEUE_FIRST, WEBHOOK_FIRST = "kueue-is-called-first", "a-webhook-is-called-first"
"""Namespaces with a default queue. The API server calls webhooks in the order of their configurations' names.
The second namespace has its own webhook, whose configuration has the namespace's name."""


@pytest.fixture(scope="package")
def package_stage(kueue_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage of all tests. The fixture `stage` clears it after each test."""
    assert kueue_tools is None
    folder = tmp_path_factory.mktemp("kueue")
    with staged(folder, "kueue", ULTRASERVERS) as new_stage:
        new_stage.plane.kubectl.create_namespace(KUEUE_FIRST)
        with second_webhook(new_stage.plane, WEBHOOK_FIRST, table("kueue")):
            for namespace in (KUEUE_FIRST, WEBHOOK_FIRST):
                for name in (program.LOCAL_QUEUE, "default"):
                    program.queue(new_stage.plane, namespace, name)
            yield new_stage


@pytest.fixture
def stage(package_stage: Stage) -> Iterator[Stage]:
    """The stage without jobs and sick nodes."""
    yield package_stage
    package_stage.clear()
    package_stage.queue = program.LOCAL_QUEUE

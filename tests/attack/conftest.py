"""A server that is shared by attacks, which must not harm it."""

from collections.abc import Iterator

import pytest

from tests.attack.subject import Subject


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """The server of all tests of a process. At the end it must be healthy, with no traceback in its log."""
    with Subject(tmp_path_factory.mktemp("subject"), "--log-level", "warning") as server:
        yield server
        assert server.probe("/livez") == 200, server.log()[-3000:]
        assert "Traceback" not in server.log(), server.log()[-5000:]


@pytest.fixture
def subject(shared: Subject) -> Iterator[Subject]:
    """The shared server, whose worker processes must not change during a test."""
    yield shared
    assert shared.worker_ids() == shared.workers, shared.log()[-3000:]

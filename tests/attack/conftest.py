"""One server for the attacks that must not hurt it."""

from collections.abc import Iterator

import pytest

from tests.attack.subject import Subject


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """The server of all tests of one process; all of them together must leave it as it was."""
    with Subject(tmp_path_factory.mktemp("subject"), "--log-level", "warning") as running:
        yield running
        assert running.probe("/livez") == 200, running.log()[-3000:]
        assert "Traceback" not in running.log(), running.log()[-5000:]


@pytest.fixture
def subject(shared: Subject) -> Iterator[Subject]:
    """The same server; the same processes serve before and after each test."""
    yield shared
    assert shared.worker_ids() == shared.workers, shared.log()[-3000:]

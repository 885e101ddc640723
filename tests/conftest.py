"""How hard Hypothesis tries, and how pytest-xdist shares out the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

CLUSTER = "tests/cluster/"

# These machines are small and noisy, so no example has a deadline.
settings.register_profile("default", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=4000)
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Sends all tests of the control plane to one worker, so that it is started once; the others go anywhere.

    The mark ``xdist_group`` would say the same, but xdist 3.8 sets it in a way that pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - the hook is called by xdist only

    class OneControlPlane(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return CLUSTER if nodeid.startswith(CLUSTER) else nodeid

    return OneControlPlane(config, log) if config.getoption("dist") == "load" else None

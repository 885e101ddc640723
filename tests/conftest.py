"""What all tests share: tiers, how hard Hypothesis tries, and which tests one process runs together."""

from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

pytest_plugins = ["tests.tiers", "tests.needs"]
# Asserts in what tests share say what they saw, as those in tests do.
SHARED = [f"tests.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*")]
pytest.register_assert_rewrite("testbed", *SHARED)

# These machines are small and noisy, so no example has a deadline; and chance is left to the soak.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=4000, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Sends tests that belong together to one process, those that take longest first.

    The mark ``xdist_group`` would say the same, but xdist 3.8 sets it in a way that pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - the hook is called by xdist only

    from tests.tiers import scope_of  # noqa: PLC0415 - a plugin, which pytest imports first

    class InScopes(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return InScopes(config, log) if config.getoption("dist") == "load" else None

"""Configuration of all tests: the plugins, the settings of Hypothesis, and the scheduling by pytest-xdist."""

from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

pytest_plugins = ["tests.tiers", "tests.needs"]
# pytest shows the compared values of asserts in these modules, too, not only in test modules.
SHARED_MODULES = [f"tests.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*")]
pytest.register_assert_rewrite("testbed", *SHARED_MODULES)

# Test machines are small and noisy, so no example has a deadline. Only the soak uses random examples.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=4000, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Returns a scheduler that runs all tests of a scope in one process.

    The mark ``xdist_group`` would do this, but xdist 3.8 sets the mark in a way that pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - the hook is called by xdist only

    from tests.tiers import scope_of  # noqa: PLC0415 - a plugin, which pytest imports first

    class ScopeScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ScopeScheduling(config, log) if config.getoption("dist") == "load" else None

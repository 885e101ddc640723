"""Benchmarks skip where tests of the script do."""

from tests.initscript.conftest import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]

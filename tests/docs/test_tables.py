"""The tables of the README say what the packaged rule table says."""

import pytest

from tests.docs.blocks import text_of
from tests.docs.tables import RULES, SHAPES, tables


@pytest.mark.parametrize("head", [SHAPES, RULES], ids=["shapes", "rules"])
def test_the_table_of_the_readme_is_that_of_the_packaged_rule_table(head: tuple[str, ...]) -> None:
    assert tables()[head] in text_of("README.md"), "python -m tests.docs writes the tables anew"

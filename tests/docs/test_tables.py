"""The README and the reference say what the packaged rule table says."""

import pytest

from tests.docs.blocks import text_of
from tests.docs.tables import SHAPES, WRITTEN


@pytest.mark.parametrize("document", WRITTEN)
def test_a_document_says_what_the_packaged_rule_table_says(document: str) -> None:
    assert WRITTEN[document](text_of(document)) == text_of(document), "python -m tests.docs writes it"


def test_the_readme_has_the_shapes() -> None:
    assert f"| {' | '.join(SHAPES)} |" in text_of("README.md")

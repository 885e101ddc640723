"""The README and the reference say what the packaged rule table says."""

import re

import pytest

from common.tablefiles import packaged
from contract.keys import PREFIX
from tests.docs.blocks import text_of
from tests.docs.tables import SHAPES, WRITTEN


@pytest.mark.parametrize("document", WRITTEN)
def test_a_document_agrees_with_the_packaged_rule_table(document: str) -> None:
    assert WRITTEN[document](text_of(document)) == text_of(document), "python -m tests.docs writes it"


def test_the_reference_has_every_label_and_annotation_of_the_packaged_table() -> None:
    named = re.findall(
        r"ultraserver-webhook\.io(?:/|~1)([a-z-]+)\b", "".join(text.decode() for text in packaged().values())
    )
    assert "hostfile" in named
    listed = text_of("docs/reference.md").partition("## Labels")[2]
    assert [name for name in set(named) if f"| `{PREFIX}{name}` |" not in listed] == []


def test_the_readme_has_the_shapes() -> None:
    assert f"| {' | '.join(SHAPES)} |" in text_of("README.md")

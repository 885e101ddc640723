"""The YAML of the documents: rule tables load, everything else is read as kubectl would read it."""

import pytest

from tests.docs.blocks import Block, blocks_of, documents
from webhook.documents import read_documents
from webhook.rules.load import load_text

EXAMPLES = [block for document in documents() for block in blocks_of(document) if block.language == "yaml"]
TABLES = [block for block in EXAMPLES if "kind: RuleTable" in block.text and "broken" not in block.file]


def test_there_are_examples() -> None:
    assert TABLES


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_yaml_is_read(block: Block) -> None:
    assert read_documents(block.text, block.where)


@pytest.mark.parametrize("block", TABLES, ids=lambda block: block.where)
def test_rule_tables_load(block: Block) -> None:
    assert load_text(block.text, block.where).rules

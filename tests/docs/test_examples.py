"""The YAML of the documents: rule tables load, everything else is read as kubectl would read it."""

import pytest

from tests.docs.blocks import REPOSITORY, Block, blocks_of, documents
from tests.helpers import load_text
from webhook.documents import read_documents
from webhook.engine.opening import kind_of
from webhook.engine.outcome import Kind
from webhook.preview.run import preview
from webhook.rules.load import load_default

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


def test_each_shape_and_each_kind_has_an_example() -> None:
    files = sorted((REPOSITORY / "examples").glob("*.yaml"))
    text = [each for file in files for each in read_documents(file.read_bytes(), file.name)]
    shown = [each for each in preview(load_default(), text) if each.item["workload"]]
    assert {each.item["outcome"] for each in shown} == {Kind.CHANGED}
    assert {each.item["job"]["shape"] for each in shown} == {row.name for row in load_default().shapes}
    kinds = {kind_of(each.seen.object).rpartition("/")[2] for each in shown}
    assert kinds == {"MPIJob", "Job", "JobSet", "LeaderWorkerSet", "PyTorchJob"}

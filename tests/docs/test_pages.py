"""Tests of the documents: links, decision records, examples, support matrices, generated parts."""

import ast
import json
import re

import pytest
import yaml

from common.tablefiles import packaged_texts
from contract.keys import PREFIX
from testbed import chart
from tests.docs.blocks import (
    REPOSITORY,
    Block,
    anchors,
    blocks_of,
    documents,
    read_blocks,
    text_of,
    without_blocks,
)
from tests.docs.tables import GENERATORS, SHAPES
from tests.helpers import load_text
from webhook.documents import read_documents
from webhook.engine.outcome import OutcomeKind
from webhook.engine.reading import kind_of
from webhook.preview.run import preview
from webhook.rows.placeholders import (
    OF_FAULT,
    OF_JOB,
    OF_POD,
    OF_REQUEST,
    OF_ROLE,
    OF_UNITS,
    ROLE_MAPS,
    SCRIPTS,
)
from webhook.rules.load import load_default

_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("document", documents())
def test_links_resolve(document: str) -> None:
    text = without_blocks(document)
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (REPOSITORY / document).parent / file if file else REPOSITORY / document
        assert path.exists(), f"{document}: {target} does not exist"
        if anchor:
            name = str(path.resolve().relative_to(REPOSITORY))
            assert anchor in anchors(name), f"{document}: {target}: no such heading"


@pytest.mark.parametrize(("folder", "pages"), [("docs", "[!R]*.md"), ("docs/adr", "[0-9]*.md")])
def test_every_page_is_in_the_index(folder: str, pages: str) -> None:
    index = text_of(f"{folder}/README.md")
    for path in (REPOSITORY / folder).glob(pages):
        assert f"]({path.name})" in index, f"{folder}/README.md does not link {path.name}"


RECORDS = sorted(path.name for path in (REPOSITORY / "docs/adr").glob("[0-9]*.md"))
STATUS = re.compile(
    r"^Status: (accepted|proposed|superseded by \[\d{4}\]\(\S+\)), \d{4}-\d\d-\d\d\b", re.MULTILINE
)
TOP_FOLDERS = {path.name for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")}
PATH = re.compile(r"`((?:\w[\w.-]*/)+[\w.-]*|[\w-]+\.(?:py|md|sh|tpl))`(?! \(removed\))")
"""A file with a folder or a known extension, in backquotes, without the note ``(removed)``."""


@pytest.mark.parametrize("record", RECORDS)
def test_a_decision_record_has_its_number_a_status_and_a_date(record: str) -> None:
    lines = text_of(f"docs/adr/{record}").splitlines()
    assert lines[0].startswith(f"# {record[:4]}: ")
    assert STATUS.match(lines[2]), lines[2]


@pytest.mark.parametrize("record", RECORDS)
def test_a_decision_record_names_only_existing_files(record: str) -> None:
    for path in PATH.findall(without_blocks(f"docs/adr/{record}")):
        if "/" not in path or path.partition("/")[0] in TOP_FOLDERS:
            assert (REPOSITORY / path).exists(), f"{record}: {path} does not exist; write (removed) after it"


def test_every_number_has_a_decision_record_or_a_row_in_the_index() -> None:
    index = re.findall(r"^\| (\d{4}) \|", text_of("docs/adr/README.md"), re.MULTILINE)
    numbers = sorted([*index, *(record[:4] for record in RECORDS)])
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


BEHAVIOURS = ["one UltraServer", "several UltraServers", "its own controller", "updates", "waits whole"]
KIND_ROW = re.compile(r"^\| `([^`]+/[A-Za-z]+)` \| ([^|`]+) \| ([^|]+) \|$", re.MULTILINE)
CONVERTED_KINDS = {"trainer.kubeflow.org/v1alpha1/TrainJob"}
"""Kinds that are not in the rule table, because their controllers create jobs of other kinds."""
MATRICES = text_of("tests/SUPPORT.md")
KIND_ROWS = KIND_ROW.findall(MATRICES)
NODE_ROW = re.compile(r"^\| ([^|]+) \| (`tests/[^`]+`|untestable: [^|]+) \|$", re.MULTILINE)
NODE_ROWS = [("nodes of every sort", *row) for row in NODE_ROW.findall(MATRICES)]


def test_every_kind_of_the_packaged_table_has_every_behaviour_once() -> None:
    kinds = {kind for workload in load_default().workloads for kind in workload.kinds if kind != "v1/Pod"}
    expected = [(kind, behaviour) for kind in kinds | CONVERTED_KINDS for behaviour in BEHAVIOURS]
    assert sorted((kind, behaviour) for kind, behaviour, _ in KIND_ROWS) == sorted(expected)


def test_the_matrix_of_nodes_has_rows() -> None:
    assert len(NODE_ROWS) > 10


@pytest.mark.parametrize(("kind", "behaviour", "cell"), [*KIND_ROWS, *NODE_ROWS])
def test_a_row_names_an_existing_test_or_the_reason_why_there_is_none(
    kind: str, behaviour: str, cell: str
) -> None:
    match = re.fullmatch(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", cell)
    if not match:
        assert re.match("untestable: .{10,}", cell), (kind, behaviour)
        return
    module = ast.parse((REPOSITORY / match[1]).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == match[2]]
    assert len(functions) == 1
    decorators = [ast.unparse(mark) for mark in functions[0].decorator_list]
    assert not any("skip" in mark or "xfail" in mark for mark in decorators)


TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_every_test_that_the_pages_about_attacks_name_exists() -> None:
    pages = [text_of(page) for page in ("docs/threat-model.md", "tests/attack/README.md")]
    names = {name for page in pages for name in re.findall(r"`(test_\w+)`", page)}
    assert len(names) > 15
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")]
    existing = {name for source in sources for name in TEST.findall(source)}
    assert names <= existing, names - existing


def test_the_schema_of_the_chart_has_every_value_and_no_other() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert {*schema["properties"]} == {*values, "global"}


def test_the_install_page_lists_every_file_of_recommended_values() -> None:
    sentence = (
        text_of("docs/install.md").partition("file for each of these sets of values:")[2].partition(".")[0]
    )
    assert set(re.findall(r"`([a-z-]+)`", sentence)) == {*chart.RECOMMENDED, "pods"}


NAMED = {"field.NAME", "value.NAME"}
"""Placeholders whose names are from the rule table."""


def test_the_rule_table_page_lists_every_placeholder() -> None:
    text = (REPOSITORY / "docs" / "rule-table.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| placeholder \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    placeholders = {
        name for row in table.splitlines() for name in re.findall(r"\$\(([^)]+)\)", row.split("|")[1])
    }
    of_role = {f"ROLE.{name}" for name in (*OF_ROLE, *ROLE_MAPS)}
    assert placeholders == {*OF_JOB, *OF_POD, *OF_REQUEST, *OF_FAULT, *SCRIPTS, *OF_UNITS, *NAMED, *of_role}


@pytest.mark.parametrize("document", GENERATORS)
def test_a_document_agrees_with_the_packaged_rule_table(document: str) -> None:
    assert GENERATORS[document](text_of(document)) == text_of(document), "python -m tests.docs writes it"


def test_the_reference_has_every_label_and_annotation_of_the_packaged_table() -> None:
    keys = re.findall(
        r"ultraserver-webhook\.io(?:/|~1)([a-z-]+)\b",
        "".join(text.decode() for text in packaged_texts().values()),
    )
    assert "hostfile" in keys
    section = text_of("docs/reference.md").partition("## Labels")[2]
    assert [name for name in set(keys) if f"| `{PREFIX}{name}` |" not in section] == []


def test_each_key_in_the_reference_has_a_type_a_default_and_an_example() -> None:
    section = text_of("docs/reference.md").partition("## Keys of a table")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if len(row) != 5 or not all(cell.strip(" `") for cell in row)] == []


def test_the_glossary_has_every_word_that_contributors_must_not_write() -> None:
    table = text_of("CONTRIBUTING.md").partition("| write | not |\n")[2].partition("\n\n")[0]
    glossary = re.findall(r"^\| .* \| (.*) \|$", text_of("docs/glossary.md"), re.MULTILINE)
    words = [word for row in table.splitlines()[1:] for word in row.split("|")[2].strip().split(", ")]
    assert len(words) > 20
    assert [word for word in words if not any(word.strip("`") in cell for cell in glossary)] == []


def test_the_readme_has_the_shapes() -> None:
    assert f"| {' | '.join(SHAPES)} |" in text_of("README.md")


EXAMPLES = [block for document in documents() for block in blocks_of(document) if block.language == "yaml"]
TABLES = [block for block in EXAMPLES if "kind: RuleTable" in block.text and "broken" not in block.file]


def test_there_are_examples() -> None:
    assert TABLES


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_yaml_in_a_document_can_be_read(block: Block) -> None:
    assert read_documents(block.text, block.where)


FILES = [
    block
    for document in documents()
    for block in read_blocks(document)
    if block.file and block.language != "console"
]


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.where)
def test_a_file_in_a_document_has_its_name_in_its_first_line(block: Block) -> None:
    """GitHub does not show the info string, which also has the name."""
    assert block.text.startswith(f"# {block.file}\n")


@pytest.mark.parametrize("block", TABLES, ids=lambda block: block.where)
def test_rule_tables_in_documents_load(block: Block) -> None:
    assert load_text(block.text, block.where).rules


def test_each_shape_and_each_kind_has_an_example() -> None:
    files = sorted((REPOSITORY / "examples").glob("*.yaml"))
    objects = [document for file in files for document in read_documents(file.read_bytes(), file.name)]
    previews = [result for result in preview(load_default(), objects) if result.report["workload"]]
    assert {result.report["outcome"] for result in previews} == {OutcomeKind.CHANGED}
    assert {result.report["job"]["shape"] for result in previews} == {
        row.name for row in load_default().shapes
    }
    kinds = {kind_of(result.run.object).rpartition("/")[2] for result in previews}
    assert kinds == {"MPIJob", "Job", "JobSet", "LeaderWorkerSet", "PyTorchJob"}

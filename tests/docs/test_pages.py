"""The pages of the documents: length, links, records, examples, matrices and what is generated of them."""

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
from tests.docs.tables import SHAPES, WRITTEN
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

WORDS = 20_000
README_LINES = 130
PAGES = [name for name in documents() if re.fullmatch(r"docs/[^/]+\.md", name)]


def test_the_documents_have_at_most_so_many_words() -> None:
    """Counts README and pages without code blocks, tables and decisions."""
    words = {
        name: sum(
            bool(re.search(r"\w", word))
            for line in without_blocks(name).splitlines()
            if not line.startswith("|")
            for word in line.split()
        )
        for name in ("README.md", *PAGES)
    }
    assert len(words) > 20
    assert sum(words.values()) <= WORDS, words


def test_the_readme_has_at_most_so_many_lines() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_a_first_sentence_with_its_question(page: str) -> None:
    title, _, rest = without_blocks(page).partition("\n\n")
    assert re.fullmatch(r"# [^\n]+", title)
    assert not re.search(r"^# ", rest, re.MULTILINE), "one title"
    sentence = re.match(r"[^#|*!\n].*?[.:?](?=\s)", rest.partition("\n\n")[0] + "\n", re.DOTALL)
    assert sentence, f"{page} begins with {rest[:60]!r}, not with a sentence"
    assert 4 < len(sentence[0].split()) <= 40, sentence[0]


def test_titles_differ() -> None:
    titles = [text_of(page).partition("\n")[0] for page in PAGES]
    assert len(set(titles)) == len(titles)


_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("document", documents())
def test_links_resolve(document: str) -> None:
    text = without_blocks(document)
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (REPOSITORY / document).parent / file if file else REPOSITORY / document
        assert there.exists(), f"{document}: {target} is not there"
        if anchor:
            name = str(there.resolve().relative_to(REPOSITORY))
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
TOP = {path.name for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")}
PATH = re.compile(r"`((?:\w[\w.-]*/)+[\w.-]*|[\w-]+\.(?:py|md|sh|tpl))`(?! \(removed\))")
"""A path in code: in a folder, or a file with an extension of ours."""


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_has_its_number_a_status_and_a_date(record: str) -> None:
    lines = text_of(f"docs/adr/{record}").splitlines()
    assert lines[0].startswith(f"# {record[:4]}: ")
    assert STATUS.match(lines[2]), lines[2]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_names_only_files_that_are_there(record: str) -> None:
    for path in PATH.findall(without_blocks(f"docs/adr/{record}")):
        if "/" not in path or path.partition("/")[0] in TOP:
            assert (REPOSITORY / path).exists(), f"{record}: {path} is not there; write (removed) behind it"


def test_every_number_has_a_record_or_a_successor() -> None:
    elsewhere = re.findall(r"^\| (\d{4}) \|", text_of("docs/adr/README.md"), re.MULTILINE)
    numbers = sorted([*elsewhere, *(record[:4] for record in RECORDS)])
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


WHAT = ["one UltraServer", "several UltraServers", "its own controller", "updates", "waits whole"]
ROW = re.compile(r"^\| `([^`]+/[A-Za-z]+)` \| ([^|`]+) \| ([^|]+) \|$", re.MULTILINE)
MADE_INTO_ANOTHER = {"trainer.kubeflow.org/v1alpha1/TrainJob"}
"""Kinds without a row of their own: what they are made into is sent."""
MATRICES = text_of("tests/SUPPORT.md")
ROWS = ROW.findall(MATRICES)
HELD = re.compile(r"^\| ([^|]+) \| (`tests/[^`]+`|cannot be: [^|]+|not yet: [^|]+) \|$", re.MULTILINE)
OTHERS = [("nodes of every sort", *row) for row in HELD.findall(MATRICES)]


def test_every_kind_of_the_packaged_table_has_every_row_once() -> None:
    kinds = {kind for workload in load_default().workloads for kind in workload.kinds if kind != "v1/Pod"}
    expected = [(kind, what) for kind in kinds | MADE_INTO_ANOTHER for what in WHAT]
    assert sorted((kind, what) for kind, what, _ in ROWS) == sorted(expected)


def test_each_sort_of_node_has_a_matrix() -> None:
    assert len(OTHERS) > 10


@pytest.mark.parametrize(("kind", "what", "held"), [*ROWS, *OTHERS])
def test_a_row_names_an_existing_test_or_gives_the_reason_for_none(kind: str, what: str, held: str) -> None:
    named = re.fullmatch(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", held)
    if not named:
        assert re.match("cannot be: .{10,}", held), (kind, what)
        return
    module = ast.parse((REPOSITORY / named[1]).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == named[2]]
    assert len(functions) == 1
    skipped = [ast.unparse(mark) for mark in functions[0].decorator_list]
    assert not any("skip" in mark or "xfail" in mark for mark in skipped)


TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_every_test_that_the_pages_about_attacks_name_is_there() -> None:
    pages = [text_of(page) for page in ("docs/threat-model.md", "tests/attack/README.md")]
    named = {name for page in pages for name in re.findall(r"`(test_\w+)`", page)}
    assert len(named) > 15
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in TEST.findall(source)}
    assert named <= there, named - there


def test_the_schema_of_the_chart_has_every_value_and_no_other() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert {*schema["properties"]} == {*values, "global"}


def test_the_document_names_every_file_of_recommended_values() -> None:
    listed = (
        text_of("docs/install.md").partition("file for each of these sets of values:")[2].partition(".")[0]
    )
    assert set(re.findall(r"`([a-z-]+)`", listed)) == {*chart.RECOMMENDED, "pods"}


NAMED = {"field.NAME", "value.NAME"}
"""Placeholders whose names a table gives."""


def test_the_document_lists_every_placeholder() -> None:
    text = (REPOSITORY / "docs" / "rule-table.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| placeholder \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    listed = {name for row in table.splitlines() for name in re.findall(r"\$\(([^)]+)\)", row.split("|")[1])}
    of_role = {f"ROLE.{name}" for name in (*OF_ROLE, *ROLE_MAPS)}
    assert listed == {*OF_JOB, *OF_POD, *OF_REQUEST, *OF_FAULT, *SCRIPTS, *OF_UNITS, *NAMED, *of_role}


@pytest.mark.parametrize("document", WRITTEN)
def test_a_document_agrees_with_the_packaged_rule_table(document: str) -> None:
    assert WRITTEN[document](text_of(document)) == text_of(document), "python -m tests.docs writes it"


def test_the_reference_has_every_label_and_annotation_of_the_packaged_table() -> None:
    named = re.findall(
        r"ultraserver-webhook\.io(?:/|~1)([a-z-]+)\b",
        "".join(text.decode() for text in packaged_texts().values()),
    )
    assert "hostfile" in named
    listed = text_of("docs/reference.md").partition("## Labels")[2]
    assert [name for name in set(named) if f"| `{PREFIX}{name}` |" not in listed] == []


def test_the_readme_has_the_shapes() -> None:
    assert f"| {' | '.join(SHAPES)} |" in text_of("README.md")


EXAMPLES = [block for document in documents() for block in blocks_of(document) if block.language == "yaml"]
TABLES = [block for block in EXAMPLES if "kind: RuleTable" in block.text and "broken" not in block.file]


def test_there_are_examples() -> None:
    assert TABLES


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_yaml_is_read(block: Block) -> None:
    assert read_documents(block.text, block.where)


FILES = [
    block
    for document in documents()
    for block in read_blocks(document)
    if block.file and block.language != "console"
]


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.where)
def test_a_file_has_its_name_in_its_first_line_because_github_does_not_show_the_info_string(
    block: Block,
) -> None:
    assert block.text.startswith(f"# {block.file}\n")


@pytest.mark.parametrize("block", TABLES, ids=lambda block: block.where)
def test_rule_tables_load(block: Block) -> None:
    assert load_text(block.text, block.where).rules


def test_each_shape_and_each_kind_has_an_example() -> None:
    files = sorted((REPOSITORY / "examples").glob("*.yaml"))
    text = [each for file in files for each in read_documents(file.read_bytes(), file.name)]
    shown = [each for each in preview(load_default(), text) if each.report["workload"]]
    assert {each.report["outcome"] for each in shown} == {OutcomeKind.CHANGED}
    assert {each.report["job"]["shape"] for each in shown} == {row.name for row in load_default().shapes}
    kinds = {kind_of(each.run.object).rpartition("/")[2] for each in shown}
    assert kinds == {"MPIJob", "Job", "JobSet", "LeaderWorkerSet", "PyTorchJob"}

"""Decision records: each has a status and a date, and names only files that are there."""

import re

import pytest

from tests.docs.blocks import REPOSITORY, text_of, without_blocks

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

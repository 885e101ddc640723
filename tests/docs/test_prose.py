"""The prose linter finds the words that the style page replaces, where people read them, and nowhere else."""

import pytest

from tests.docs.prose import complaints, register

CHECKS = register()


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("page.md", "Ask\nwhoever runs it.", "page.md:2:1: 'whoever'"),
        ("page.md", "It runs. Of these, two end.", "page.md:1:8: '. Of'"),
        ("code.py", 'x = 1  # beside "it"', "code.py:1:10: 'beside'"),
        ("code.py", 'def f():\n    """Of this."""', 'code.py:2:5: \'"""Of\''),
        ("code.py", 'f"it is told {x}"', "code.py:1:6: 'is told'"),
    ],
)
def test_a_word_is_reported_in_prose_only(name: str, text: str, where: str) -> None:
    assert [line.rsplit(": ", 1)[0] for line in complaints(name, text, CHECKS)] == [where]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "```\nwhoever\n```\n`whoever` is a word."),
        ("code.py", "whoever = beside"),
        ("page.md", "One of these. A set Of names."),
    ],
)
def test_code_is_no_prose(name: str, text: str) -> None:
    assert list(complaints(name, text, CHECKS)) == []

"""Tests that the prose linter reports the patterns of ``style.yaml`` in prose, and not in code."""

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
        ("code.py", '"""Most bytes of it."""', 'code.py:1:1: \'"""Most b\''),
        ("page.md", "It is no job.", "page.md:1:4: 'is no'"),
        ("page.md", "A job ends for another.", "page.md:1:7: 'ends for another'"),
        ("page.md", "The loop does a pass.", "page.md:1:10: 'does a pass'"),
        ("page.md", "Returns so many bytes.", "page.md:1:9: 'so many'"),
        ("page.md", "known are a, b", "page.md:1:1: 'known are'"),
        ("page.md", "The not Ready are few.", "page.md:1:5: 'not Ready are'"),
        ("page.md", "A field says why.", "page.md:1:9: 'says'"),
        ("page.md", "Words that say why.", "page.md:1:7: 'that say'"),
        ("page.md", "The line tells it.", "page.md:1:10: 'tells'"),
        ("rule.yaml", "alert: WebhookNobodyLeads", "rule.yaml:1:15: 'Nobody'"),
    ],
)
def test_a_pattern_in_prose_is_reported_with_its_place(name: str, text: str, where: str) -> None:
    assert [line.rsplit(": ", 1)[0] for line in complaints(name, text, CHECKS)] == [where]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "```\nwhoever\n```\n`whoever` is a word."),
        ("code.py", "whoever = beside"),
        ("page.md", "One of these. A set Of names."),
        (
            "page.md",
            "There is no job. It is no longer here. So many that it waits. What is not ready are Pods.",
        ),
        ("code.py", "# Most jobs wait. Least privilege."),
        ("code.py", "# The user said no, and cannot tell why."),
    ],
)
def test_code_and_allowed_phrases_are_not_reported(name: str, text: str) -> None:
    assert list(complaints(name, text, CHECKS)) == []

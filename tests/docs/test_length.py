"""README and docs stay short enough to be read."""

import re

from tests.docs.blocks import documents, text_of, without_blocks

WORDS = 20_000
README_LINES = 130


def test_the_documents_have_at_most_so_many_words() -> None:
    """Of README and docs but for decisions, without what stands in code blocks and tables' lines."""
    words = {
        name: sum(bool(re.search(r"\w", word)) for word in without_blocks(name).split())
        for name in documents()
        if name == "README.md" or re.fullmatch(r"docs/[^/]+\.md", name)
    }
    assert len(words) > 20
    assert sum(words.values()) <= WORDS, words


def test_the_readme_has_at_most_so_many_lines() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES

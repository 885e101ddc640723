"""README and docs stay short enough to be read, and each page begins with the question that it answers."""

import re

import pytest

from tests.docs.blocks import documents, text_of, without_blocks

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

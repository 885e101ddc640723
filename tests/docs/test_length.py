"""Tests of the length of all pages, of the README and of the changelog, and of the question of each page."""

import re

import pytest

from tests.docs.blocks import documents, text_of, without_blocks

WORDS = 20_000
README_LINES = 130
ENTRIES = 10
"""Maximum number of entries of a release in the changelog."""
ENTRY_LINES = 2
LINE = 140
PAGES = [name for name in documents() if re.fullmatch(r"docs/[^/]+\.md", name)]


def test_the_documents_are_not_too_long() -> None:
    """Counts the words of README and docs, except for code blocks, tables and decision records."""
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


def test_the_readme_is_not_too_long() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_begins_with_a_sentence_of_moderate_length(page: str) -> None:
    title, _, rest = without_blocks(page).partition("\n\n")
    assert re.fullmatch(r"# [^\n]+", title)
    assert not re.search(r"^# ", rest, re.MULTILINE), "one title"
    sentence = re.match(r"[^#|*!\n].*?[.:?](?=\s)", rest.partition("\n\n")[0] + "\n", re.DOTALL)
    assert sentence, f"{page} begins with {rest[:60]!r}, not with a sentence"
    assert 4 < len(sentence[0].split()) <= 40, sentence[0]


def test_titles_differ() -> None:
    titles = [text_of(page).partition("\n")[0] for page in PAGES]
    assert len(set(titles)) == len(titles)


def test_a_page_answers_one_question() -> None:
    """The table of pages has a question for each link."""
    rows = re.findall(r"^\| (\[.*) \| (.*) \|$", text_of("docs/README.md"), re.MULTILINE)
    assert len(rows) >= len(PAGES) - 1
    too_many = {links: answers for links, answers in rows if answers.count("?") != links.count("](")}
    assert too_many == {}
    assert [answers for _, answers in rows if not answers.endswith("?")] == []


@pytest.mark.parametrize("release", text_of("CHANGELOG.md").split("\n## [")[1:], ids=lambda text: text[:5])
def test_a_release_has_few_short_entries_with_links(release: str) -> None:
    entries = re.findall(r"^- .*(?:\n  .*)*", release, re.MULTILINE)
    assert 1 <= len(entries) <= ENTRIES
    assert [entry for entry in entries if entry.count("\n") >= ENTRY_LINES or "](" not in entry] == []
    assert max(map(len, release.splitlines())) <= LINE

"""Links between documents, and from documents to files, lead somewhere."""

import re

import pytest

from tests.docs.blocks import REPOSITORY, anchors, documents, text_of, without_blocks

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

"""Links between documents, and from documents to files, lead somewhere."""

import re

import pytest

from tests.docs.blocks import FENCED, REPOSITORY, anchors, documents, text_of

_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("document", documents())
def test_links_resolve(document: str) -> None:
    text = FENCED.sub("", text_of(document))
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (REPOSITORY / document).parent / file if file else REPOSITORY / document
        assert there.exists(), f"{document}: {target} is not there"
        if anchor:
            name = str(there.resolve().relative_to(REPOSITORY))
            assert anchor in anchors(name), f"{document}: {target}: no such heading"


def test_every_record_is_in_the_index() -> None:
    index = text_of("docs/adr/README.md")
    for path in (REPOSITORY / "docs" / "adr").glob("[0-9]*.md"):
        assert f"]({path.name})" in index, f"docs/adr/README.md does not link {path.name}"

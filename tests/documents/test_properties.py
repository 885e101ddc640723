"""Properties of reading and writing documents, over generated values and over noise."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import KUBECTL, paths, values
from webhook.documents import DocumentError, dump_yaml, read_documents
from webhook.objects.tree import Json

WORD = re.compile(r"(?:^|\n  )v: ([^\n]*)\n?\Z")
WORDS = st.sampled_from([found[1] for case in KUBECTL if (found := WORD.search(case["text"]))])
TEXT = st.text() | WORDS
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-(2**52), 2**52).filter(lambda number: not number.is_integer())
    | TEXT
    | st.lists(st.sampled_from(["a", " ", "\n", "\t", "#", ":", "-", "é", "'", '"', "\\"])).map("".join)
)
# Small, for many of them say more than large ones, and making them is what takes the time.
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)


@given(value=st.dictionaries(TEXT, VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_what_is_written_reads_back_the_same(value: Json) -> None:
    (back,) = values(dump_yaml(value))
    assert json.dumps(back) == json.dumps(value)
    # As most programs write JSON; YAML has neither all of its characters nor halves of surrogate pairs.
    text = json.dumps(value)
    if not re.search(r"\x7f|\\ud[89a-f]", text):
        assert values(text) == [value]


_FLOW = (
    "{",
    "}",
    "[",
    "]",
    ", ",
    ": ",
    ":",
    "'",
    '"',
    "{a: 1}",
    '{"a": 1}',
    "\\",
    "\\x",
    "\\U",
    "\\/",
    "FFFFFFFF",
)
_BLOCK = ("- ", "-", "? ", "|\n", ">+\n", "#", "\n", "\n  ", "\n---\n", "...\n", "\r\n", " ", "\t", "%")
_NODES = ("a", "<<", "<<: *x", "&x ", "*x", "!!str ", "!!int ", "!", "NaN", "1e999", "é")
_ODD = ("\x85", "\u2028", "\ufeff", "\ud800", "\x00")
SNIPPETS = st.sampled_from(_FLOW + _BLOCK + _NODES + _ODD)
ANY = st.text() | st.lists(SNIPPETS).map("".join) | st.lists(SNIPPETS).map("".join).map("{".__add__)


@given(text=ANY | st.binary())
def test_nothing_but_a_document_error_comes_out(text: str | bytes) -> None:
    try:
        documents = read_documents(text)
    except DocumentError as error:
        documents = []
        assert min(error.line, error.column) >= 1  # noqa: PT017 - most texts raise nothing
    for document in documents:
        assert document.line_of(()) == document.line
        assert json.loads(json.dumps(document.value, allow_nan=False)) == document.value
        last = text.count("\n" if isinstance(text, str) else b"\n") + 1
        assert all(document.line <= document.line_of(path) <= last for path in paths(document.value))

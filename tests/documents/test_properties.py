"""Tests of properties of reading and writing documents, with generated values and random texts."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import KUBECTL_CASES, paths, values
from webhook.documents import DocumentError, dump_yaml, read_documents
from webhook.objects.tree import Json

WORD = re.compile(r"(?:^|\n  )v: ([^\n]*)\n?\Z")
WORDS = st.sampled_from([match[1] for case in KUBECTL_CASES if (match := WORD.search(case["text"]))])
TEXT = st.text() | WORDS
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-(2**52), 2**52).filter(lambda number: not number.is_integer())
    | TEXT
    | st.lists(st.sampled_from(["a", " ", "\n", "\t", "#", ":", "-", "é", "'", '"', "\\"])).map("".join)
)
# The values are small, because many small values find more errors than a few large values.
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)


@given(value=st.dictionaries(TEXT, VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_a_value_that_is_written_and_read_is_unchanged(value: Json) -> None:
    (result,) = values(dump_yaml(value))
    assert json.dumps(result) == json.dumps(value)
    # JSON as most programs write it, without characters and half surrogate pairs that YAML does not allow.
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
_UNUSUAL = ("\x85", "\u2028", "\ufeff", "\ud800", "\x00")
SNIPPETS = st.sampled_from(_FLOW + _BLOCK + _NODES + _UNUSUAL)
ANY_TEXT = st.text() | st.lists(SNIPPETS).map("".join) | st.lists(SNIPPETS).map("".join).map("{".__add__)


@given(text=ANY_TEXT | st.binary())
def test_reading_any_text_raises_no_error_except_document_error(text: str | bytes) -> None:
    try:
        documents = read_documents(text)
    except DocumentError as error:
        documents = []
        assert min(error.line, error.column) >= 1  # noqa: PT017 - most texts raise nothing
    for document in documents:
        assert document.line_of(()) == document.line
        assert json.loads(json.dumps(document.value, allow_nan=False)) == document.value
        last_line = text.count("\n" if isinstance(text, str) else b"\n") + 1
        assert all(document.line <= document.line_of(path) <= last_line for path in paths(document.value))

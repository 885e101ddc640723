"""Writes what the documents say about the packaged rule table, after it has changed."""

from tests.docs.blocks import REPOSITORY
from tests.docs.tables import WRITTEN

for document, made in WRITTEN.items():
    path = REPOSITORY / document
    path.write_text(made(path.read_text(encoding="utf-8") if path.exists() else ""), encoding="utf-8")

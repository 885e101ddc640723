"""Writes the generated parts of the documents again, after the rule table or the chart has changed."""

from tests.docs.blocks import REPOSITORY
from tests.docs.tables import GENERATORS

for document, generate in GENERATORS.items():
    path = REPOSITORY / document
    path.write_text(generate(path.read_text(encoding="utf-8") if path.exists() else ""), encoding="utf-8")

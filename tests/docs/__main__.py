"""Writes the tables of the README anew, after the packaged rule table has changed."""

from tests.docs.blocks import REPOSITORY, text_of
from tests.docs.tables import updated

(REPOSITORY / "README.md").write_text(updated(text_of("README.md")), encoding="utf-8")

"""Reads YAML and JSON as kubectl does, with the line of every value; refuses ambiguous texts (ADR 0016)."""

from webhook.documents.dump import dump_yaml
from webhook.documents.reader import Document, DocumentError, expand_lists, read_documents

__all__ = ["Document", "DocumentError", "dump_yaml", "expand_lists", "read_documents"]

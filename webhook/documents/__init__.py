"""Reads YAML and JSON as kubectl does, or refuses them (ADR 0016); with the line of every value."""

from webhook.documents.dump import dump_yaml
from webhook.documents.reader import Document, DocumentError, expand_lists, read_documents

__all__ = ["Document", "DocumentError", "dump_yaml", "expand_lists", "read_documents"]

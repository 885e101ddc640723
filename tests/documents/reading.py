"""Helpers of the tests of documents: recorded results of kubectl, and the paths of a value."""

import json
from collections.abc import Iterator
from pathlib import Path

from webhook.documents import read_documents
from webhook.objects.tree import Json


def _load_cases(path: str) -> Json:
    return json.loads((Path(__file__).parent / path).read_text(encoding="utf-8"))


LIBRARY_CASES = _load_cases("kubectl_yaml_cases.json")
PROGRAM_CASES = [
    {"text": case["yaml"], "documents": case.get("documents", [case.get("json")]), **case}
    for case in _load_cases("../plane/kubectl_yaml_cases.json")["cases"]
    # Other cases differ: kubectl also refuses values that are not objects, and adds a missing namespace.
    if case.get("error", "").startswith("error parsing") or "namespace: default" in case["yaml"]
]
KUBECTL_CASES = LIBRARY_CASES + PROGRAM_CASES
"""Texts with the results of kubectl. The docstring of ``test_documents.py`` explains the two files."""


def values(text: str | bytes) -> list[Json]:
    return [document.value for document in read_documents(text)]


def paths(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the path of each part of a value."""
    yield path
    for part in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from paths(value[part], (*path, part))

"""What the tests of reading share: recorded cases, and every path of a value."""

import json
from collections.abc import Iterator
from pathlib import Path

from webhook.documents import read_documents
from webhook.objects.tree import Json


def _recorded(path: str) -> Json:
    return json.loads((Path(__file__).parent / path).read_text(encoding="utf-8"))


OF_ITS_CODE = _recorded("kubectl_yaml_cases.json")
OF_THE_PROGRAM = [
    {"text": case["yaml"], "documents": case.get("documents", [case.get("json")]), **case}
    for case in _recorded("../plane/kubectl_yaml_cases.json")["cases"]
    # The program also refuses what is not an object, and adds the namespace to an object without one.
    if case.get("error", "").startswith("error parsing") or "namespace: default" in case["yaml"]
]
KUBECTL = OF_ITS_CODE + OF_THE_PROGRAM
"""Texts and what kubectl made of them, see ``test_documents.py``; each text is in one of the two files."""


def values(text: str | bytes) -> list[Json]:
    return [document.value for document in read_documents(text)]


def paths(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the path of everything in a value."""
    yield path
    for part in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from paths(value[part], (*path, part))

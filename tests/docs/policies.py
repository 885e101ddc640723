"""Compares the messages of admission policies with the reference, whose texts are in messages.yaml."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

KIND = "ValidatingAdmissionPolicy"
_JOIN = re.compile(r"'\s*\+\s*'")


def differences(objects: Iterable[Object], rows: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[str]:
    """Yields each policy or validation without a row, and each row that no validation of its policy has.

    Args:
        objects: The objects of installations.
        rows: The rows of the reference by the name of the policy. A row has a message and a remedy.
    """
    texts = defaultdict[str, list[str]](list)
    for policy in objects:
        if policy["kind"] == KIND:
            texts[policy["metadata"]["name"]] += map(_text, policy["spec"]["validations"])
    messages = {name: [message for message, _ in rows.get(name, ())] for name in {*texts, *rows}}
    for name, parts in messages.items():
        yield from (f"{name}: {text}" for text in texts[name] if not any(_has(text, row) for row in parts))
        yield from (f"{name}: {row}" for row in parts if not any(_has(text, row) for text in texts[name]))


def _text(validation: Object) -> str:
    """Returns the message of a validation. Texts that an expression joins become one text."""
    expression = str(validation.get("messageExpression", ""))
    return _JOIN.sub("", expression) or str(validation["message"])


def _has(text: str, row: str) -> bool:
    """Returns whether a message has all parts of a row of the reference.

    A part ends at ``…``, and after the name of a field, because an expression chooses what follows.
    """
    return all(part.strip() in text for part in re.split(r"…|(?<=\]) ", row))

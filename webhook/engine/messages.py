"""The messages of an evaluation: each has a text for people and a code for programs.

The code of a message that a row writes is the name of the row. `CODES` has all other codes, and
docs/reference.md lists both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

from common.texts import cut

MOST_MESSAGES: Final = 40
"""Most warnings, or denials, of one evaluation."""

CODES: Final[Mapping[str, tuple[str, str, str]]] = {
    "invalid-job": (
        "denial",
        "A field that the webhook needs has a value that it cannot use.",
        "Correct the field.",
    ),
    "value-kept": (
        "warning",
        "The job sets a field that a rule would set. The job's value stays.",
        "Remove the field if you want the rule's value.",
    ),
    "value-replaced": (
        "warning",
        "The job sets a field that a rule sets. The rule's value replaces the job's.",
        "Remove the field, or opt the job out.",
    ),
    "value-refused": (
        "denial",
        "The job sets a field that a rule sets, and the rule allows no other value.",
        "Remove the field, or opt the job out.",
    ),
    "not-added": (
        "warning",
        "A rule cannot add a part of its fragment.",
        "Change the list that the message names.",
    ),
    "too-many-terms": (
        "denial",
        "The node affinity has more terms than the webhook extends.",
        "Write the same requirements in fewer terms.",
    ),
    "own-key": (
        "warning",
        "The job sets a label or annotation that only the webhook may set.",
        "Remove it from the file.",
    ),
    "record-ignored": (
        "warning",
        "The record of additions names more than the webhook can have added.",
        "Remove the record, and what it names, from the file.",
    ),
    "size-kept": (
        "warning",
        "A job made by generateName cannot be resized while it is suspended.",
        "Delete the job and create it in the new size.",
    ),
    "copies-kept": (
        "warning",
        "Added containers keep the fields that they copied when the job was created.",
        "Delete the job and create it again.",
    ),
    "launcher-kept": (
        "warning",
        "An operator changes only the scheduling of a Job that exists.",
        "Delete the Job that the message names; its operator recreates it.",
    ),
    "not-mutated": (
        "warning or denial",
        "The object was created or sent while the webhook was not reachable.",
        "Apply the object again when the webhook runs.",
    ),
    "other-table": (
        "warning",
        "Another replica changed the object by another version of the rule table.",
        "Do nothing: replicas reload the table one after the other.",
    ),
    "invalid-table": ("denial", "The rule table is not valid.", "Run `ultraserver-webhook rules lint`."),
    "invalid-field": (
        "warning",
        "The API server would refuse the value, or the file is a template.",
        "Correct the field, or render the template.",
    ),
    "more": ("warning", "There are more messages.", "Correct the first ones."),
}
"""By code, for messages that no row writes: the severity, the meaning, and what the user can do."""


class Message(str):
    """A text with its code.

    Attributes:
        code: A key of `CODES`, or the name of the row that writes the message.
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Self:
        """Creates a message."""
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        """Returns the arguments of a copy in another process."""
        return self.code, str(self)


def coded(code: str, texts: Iterable[str]) -> Iterator[Message]:
    """Yields a message of the code for each text."""
    return (Message(code, text) for text in texts)


def bounded(messages: Collection[Message]) -> tuple[Message, ...]:
    """Returns messages, each once and of limited length and number; the last one counts the others."""
    if not messages:
        return ()
    different = tuple(dict.fromkeys(Message(message.code, cut(message)) for message in messages))
    if len(different) <= MOST_MESSAGES:
        return different
    left = len(different) - MOST_MESSAGES + 1
    return (*different[: MOST_MESSAGES - 1], Message("more", f"and {left} more"))

"""Defines the messages of an evaluation. A message has a text for people and a code for programs.

If the text comes from a row of the table, the code is the name of the row. `TEXTS` has all other codes.
docs/reference.md lists all codes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

from common.texts import cut

MOST_MESSAGES: Final = 40
"""Maximum number of messages in each field of an outcome, such as `warnings`."""

TEXTS: Final[Mapping[str, str]] = {
    "invalid-job": "{}",
    "value-kept": "kept your value: {}",
    "value-replaced": "replaced your value: {}",
    "value-refused": "{}; remove your value, or opt out",
    "not-added": "{}",
    "too-many-terms": "{}",
    "own-key": "{} your value: {} is {}, and only the webhook may set it: remove it",
    "record-ignored": (
        "annotation {} is ignored, because it lists fields that the webhook never adds: remove it"
    ),
    "size-kept": (
        "a job with generateName keeps the affinity terms of its first size; "
        "delete it, and create it with the new size"
    ),
    "copies-kept": (
        "containers added to {} keep values copied when the job was created: to change them, recreate the job"
    ),
    "launcher-kept": (
        "{0} was created for the old size: kubectl delete job {0}, and its operator recreates it"
    ),
    "not-mutated": (
        "the object was {} without the changes of ultraserver-webhook: {} again when the webhook runs ({})"
    ),
    "other-table": "the object was mutated by rule table {}, but this replica has {}",
    "invalid-table": "{}",
    "invalid-field": "{}",
    "more": "and {} more",
}
"""The text by code, for messages whose text does not come from a row.

If the text is `{}`, the function that finds the problem creates the whole text.
"""


class Message(str):
    """A text with a code.

    Attributes:
        code: A key of `TEXTS`, or the name of the row from which the text comes.
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Self:
        """Creates a message."""
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        """Returns the arguments with which pickle creates a copy, for another process."""
        return self.code, str(self)


def message(code: str, *values: object) -> Message:
    """Returns the message with a code of `TEXTS`, and with the values in its text."""
    return Message(code, TEXTS[code].format(*values))


def messages_of(code: str, values: Iterable[str]) -> Iterator[Message]:
    """Yields one message with the code for each value."""
    return (message(code, value) for value in values)


def limit_messages(messages: Collection[Message]) -> tuple[Message, ...]:
    """Returns distinct messages, limited in length and number. The last message counts omitted messages."""
    if not messages:
        return ()
    unique_messages = tuple(dict.fromkeys(Message(message.code, cut(message)) for message in messages))
    if len(unique_messages) <= MOST_MESSAGES:
        return unique_messages
    omitted_count = len(unique_messages) - MOST_MESSAGES + 1
    return (*unique_messages[: MOST_MESSAGES - 1], message("more", omitted_count))

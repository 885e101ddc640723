"""The messages of an evaluation: each has a text for people and a code for programs.

The code of a message that a row writes is the name of the row. `CODES` has all other codes, and
docs/reference.md lists both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

from common.texts import cut

MOST_MESSAGES: Final = 40
"""Most warnings, or denials, of one evaluation."""

CODES: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "invalid-job": (
        "denial",
        "{}",
        "A field that the webhook needs has a value that it cannot use.",
        "Correct the field.",
    ),
    "value-kept": (
        "warning",
        "kept yours: {}",
        "The job sets a field that a rule would set. The job's value stays.",
        "Remove the field if you want the rule's value.",
    ),
    "value-replaced": (
        "warning",
        "replaced yours: {}",
        "The job sets a field that a rule sets. The rule's value replaces the job's.",
        "Remove the field, or opt the job out.",
    ),
    "value-refused": (
        "denial",
        "{}; remove yours, or opt out",
        "The job sets a field that a rule sets, and the rule allows no other value.",
        "Remove the field, or opt the job out.",
    ),
    "not-added": (
        "warning",
        "{}",
        "A rule cannot add a part of its fragment.",
        "Change the list that the message names.",
    ),
    "too-many-terms": (
        "denial",
        "{}",
        "The node affinity has more terms than the webhook extends.",
        "Write the same requirements in fewer terms.",
    ),
    "own-key": (
        "warning",
        "{} yours: {} is the webhook's own, not {}",
        "The job sets a label or annotation that only the webhook may set.",
        "Remove it from the file.",
    ),
    "record-ignored": (
        "warning",
        "a record that names more than the webhook can have added is ignored: remove it from the file: {}",
        "The record of additions names more than the webhook can have added.",
        "Remove the record, and what it names, from the file.",
    ),
    "size-kept": (
        "warning",
        "a job with generateName keeps the terms of its first size; delete it and create it in the new one",
        "A job made by generateName cannot be resized while it is suspended.",
        "Delete the job and create it in the new size.",
    ),
    "copies-kept": (
        "warning",
        "containers added to {} keep what they copied when it was created; to change that, recreate the job",
        "Added containers keep the fields that they copied when the job was created.",
        "Delete the job and create it again.",
    ),
    "launcher-kept": (
        "warning",
        "{0} was created for the old size: kubectl delete job {0}, and its operator recreates it",
        "An operator changes only the scheduling of a Job that exists.",
        "Delete the Job that the message names; its operator recreates it.",
    ),
    "not-mutated": (
        "warning or denial",
        "{} without the changes of ultraserver-webhook: {} again when the webhook runs ({})",
        "The object was created or sent while the webhook was not reachable.",
        "Apply the object again when the webhook runs.",
    ),
    "other-table": (
        "warning",
        "mutated by rule table {}, this replica has {}",
        "Another replica changed the object by another version of the rule table.",
        "Do nothing: replicas reload the table one after the other.",
    ),
    "invalid-table": (
        "denial",
        "{}",
        "The rule table is not valid.",
        "Run `ultraserver-webhook rules lint`.",
    ),
    "invalid-field": (
        "warning",
        "{}",
        "The API server would refuse the value, or the file is a template.",
        "Correct the field, or render the template.",
    ),
    "more": ("warning", "and {} more", "There are more messages.", "Correct the first ones."),
}
"""By code, for messages that no row writes: severity, text, meaning, and what the user can do.

The text `{}` stands for one that is written where the error is found, such as an error of a document.
"""


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


def message(code: str, *values: object) -> Message:
    """Returns the message of a code of `CODES`, whose text quotes the values."""
    return Message(code, CODES[code][1].format(*values))


def coded(code: str, values: Iterable[str]) -> Iterator[Message]:
    """Yields the message of the code for each value."""
    return (message(code, value) for value in values)


def bounded(messages: Collection[Message]) -> tuple[Message, ...]:
    """Returns messages, each once and of limited length and number; the last one counts the others."""
    if not messages:
        return ()
    different = tuple(dict.fromkeys(Message(each.code, cut(each)) for each in messages))
    if len(different) <= MOST_MESSAGES:
        return different
    left = len(different) - MOST_MESSAGES + 1
    return (*different[: MOST_MESSAGES - 1], message("more", left))

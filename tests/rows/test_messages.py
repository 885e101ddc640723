"""The texts about rows; other tests compare places of problems, and the facts that a text has."""

from tests import texts
from webhook.rows import messages

CONSTANTS = {
    "NOT_UNIQUE": "has a value twice",
    "NO_SINGLE_DEVICE": "one device is valid on every instance type: add 1",
    "NO_SUCH_SHAPE": "unreachable: no shape of the table has these values",
    "NO_DEVICE_COUNTS": "unreachable: the table has no deviceCounts",
    "reserved_role": "{!r} cannot be a role: placeholders and match use this word for something else",
    "takes_no_values": "operator {} takes no values",
    "needs_values": "operator {} needs values",
}
"""The texts without values, and the templates."""


def test_every_text_is_compared() -> None:
    """Protects this module from a new function that it does not know."""
    assert texts.functions(messages) == set()


def test_the_texts_without_values_and_the_templates() -> None:
    assert texts.written(messages) == CONSTANTS

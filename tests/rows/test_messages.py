"""Tests of the texts of messages about rows. Other tests check the places of problems."""

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
"""The constants, and the templates that messages are formatted from."""


def test_no_function_returns_texts() -> None:
    """Fails if the product has a function that returns texts, because this module tests only constants."""
    assert texts.functions(messages) == set()


def test_the_constants_and_templates_have_these_texts() -> None:
    assert texts.constants(messages) == CONSTANTS

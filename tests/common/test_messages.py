"""Tests of the exact texts about files and paths that cannot be used."""

from common import messages
from tests import texts

CONSTANTS = {
    "LINK_LEADS_OUT": "a link that leads out of its folder",
    "NOT_REGULAR": "not a regular file",
    "not_a_pointer": "a JSON pointer starts with '/': {!r}",
    "invalid_table": "a file of the rule table is invalid: {}: {}",
}
"""The texts without parameters, and the templates."""


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS

"""Tests of the exact texts about values of objects and about paths. Other tests fill in these texts."""

from tests import texts
from webhook.objects import messages

CONSTANTS = {
    "wrong_type": "{} must be {}, not {}",
    "wrong_order": "move {!r} before {} in {}",
    "cannot_amend": "{} has no {!r} to amend",
    "name_taken": "{} cannot have {!r}, a name that is taken in {}",
    "many_terms": (
        "{} terms are more than {}, so no requirement can be added: combine them, for example into "
        "one expression with operator In, or opt out: {}"
    ),
    "by_position": (
        "{} selects nothing: {} is the position of a list element, and a path cannot select by "
        "position; select by a key, as in {}[name=workers]"
    ),
    "no_selection": (
        "{!r} selects no list element; write LIST[KEY=VALUE], as in jobs[name=workers], with ~1 for "
        "each / in VALUE, or LIST[*] for all elements"
    ),
}
"""The texts without parameters, and the templates."""


def test_no_function_composes_a_text() -> None:
    """Fails if a new function composes a text, because this file has no test for it."""
    assert texts.functions(messages) == set()


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS

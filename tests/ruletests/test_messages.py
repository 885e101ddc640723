"""Tests of the exact texts about unusable cases. Other tests compare only the facts in a text."""

from tests import texts
from webhook.ruletests import messages

CONSTANTS = {
    "NO_CASES": "the folder has no YAML file with a list of cases",
    "SEVERAL_DOCUMENTS": "a file of cases must be one YAML document, which is a list",
    "UNUSED_FILE": "is not a list of cases, and no case uses it: remove it",
    "UNKNOWN_KEY": "unknown key: remove it",
    "NO_OBJECT": "must be an object, or the path of its file",
    "NOTHING_EXPECTED": "is empty: add the expected outcome",
    "IS_HIDDEN": "is hidden, and cases in hidden files are not read: rename it",
    "is_link": "is a link to {}: remove it, so that a file can be written",
    "same_name": "{!r} is also the name of {}: rename one case",
    "other_operation": "must be {}, because only an UPDATE has an oldObject",
    "other_namespace": "must be {!r}, the namespace of the object",
}
"""The texts without parameters, and the templates."""


def test_no_function_composes_a_text() -> None:
    """Fails if a new function composes a text, because this file has no test for it."""
    assert texts.functions(messages) == set()


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS

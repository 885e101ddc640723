"""The texts about unusable cases; other tests compare places of problems, and the facts that a text has."""

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
"""The texts without values, and the templates."""


def test_every_text_is_compared() -> None:
    """Protects this module from a new function that it does not know."""
    assert texts.functions(messages) == set()


def test_the_texts_without_values_and_the_templates() -> None:
    assert texts.written(messages) == CONSTANTS

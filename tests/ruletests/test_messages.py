"""Tests of the exact texts about unusable and failed cases. Other tests compare only the facts in a text."""

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
    "is_outside": "{} is outside of {}: copy it into this folder",
    "no_file": "there is no file {} in {}{}",
    "not_one_object": "{} is not a file with one object",
    "other_outcome": "expected {}, got {}: {}",
    "KNOWN_KIND": "a kind of the table",
    "other_enforced": "expected {} without shadow mode, got {}: {}",
    "FOR_OTHER_OBJECTS": "it is for other objects",
    "no_rule": "the table has no rule {!r}{}",
    "no_packaged_rule": "the packaged table, which is tested without -f, has no rule {!r}{}",
    "no_message": "expected {!r}, but the messages are: {}",
    "NO_SNAPSHOT": "the case has no snapshot yet: write it with --update, and check it",
}
"""The texts without parameters, and the templates."""


def test_the_summary_is_the_only_function_and_has_these_texts() -> None:
    """Fails if a new function composes a text, because this file has no test for it."""
    assert texts.functions(messages) == {"summary"}
    assert messages.summary(1, 0) == "1 case, 0 failed"
    assert messages.summary(2, 1) == "2 cases, 1 failed"


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS

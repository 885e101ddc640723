"""Tests of the exact texts about placement annotations and numbers."""

from contract import messages
from tests import texts

CONSTANTS = {
    "unreadable": "annotation ultraserver-webhook.io/place cannot be read: {}",
    "wrong_words": "it is {!r}: write known words KEY=VALUE, each once",
    "wrong_placer": "placer is {!r}: it must be one of {}",
    "NO_UNIT": "unit is missing: it must be the node label whose value the nodes of a unit share",
    "wrong_count": "{} is {!r}: it must be a whole number from 1",
    "wrong_length": "index has {} summands: it must have 1 to {}",
    "wrong_summand": (
        "index has the summand {!r}: it must be 'name', 'labels/KEY' or 'env/NAME'; '*NUMBER' may follow"
    ),
    "wrong_group": "group is {!r}: it must be 'labels/KEY'",
    "NO_NUMBER": "there is no number at the end of the pod's name",
    "wrong_number": "{} {} is {!r}: it must be the pod's number, from 0",
}
"""The texts without parameters, and the templates."""


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS

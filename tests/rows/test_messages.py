"""Tests of the texts of messages about rows. Other tests check the places of problems."""

from contract.placement import Placer
from tests import texts
from webhook.rows import messages

CONSTANTS = {
    "NOT_UNIQUE": "has a value twice",
    "NO_SINGLE_DEVICE": "one device is valid on every instance type: add 1",
    "reserved_role": "{!r} cannot be a role: placeholders and match use this word for something else",
    "takes_no_values": "operator {} takes no values",
    "needs_values": "operator {} needs values",
    "not_a_time": "{!r} is not a string: write it as '2026-12-31T18:00:00Z'",
    "too_early": "{} is long past: a policy ends in {} at the earliest",
    "not_ascending": "is {!r}: the second number must be the larger",
    "nested_value": "a value cannot contain the placeholder of another value, $({})",
    "other_peer": "is {!r}: it must be $(job.name), or have no placeholder",
    "NO_SUCH_SHAPE": "unreachable: no shape of the table has these values",
    "NO_DEVICE_COUNTS": "unreachable: the table has no deviceCounts",
    "no_such_family": "unreachable: no family of the table has such a name; the table has {}",
    "no_such_field": "no workload of the rule ({}) has a field {!r}",
    "unknown_label": "the webhook knows only the label {}, not {}",
    "other_family": "its machines are {}, not {}",
    "no_shape": "a {} has no shape",
    "other_shape": "shape {} has {} {}, not {}",
    "other_placer": "it is placed by {}, not by {}",
    "other_devices": "the way in which its workers get devices is {}, not {}",
    "requests_none": "the {} asks for none of {}",
    "no_image": "the {} has no image that is {}",
    "NO_INSTANCE_TYPE": "no instance type",
    "other_instance_type": "the {} names {}, not {}",
    "not_excluded": "the {} does not exclude nodes with the rule's values of {}",
    "valid_count": "the {} requests no number of devices that deviceCounts excludes",
    "other_workers": "it has {} workers, not {}",
    "no_field": "a {} has no field {}",
    "other_value": "{} is {}, not {}",
    "of_owner": "{} of the {}",
}
"""The constants, and the templates that messages are formatted from."""


TABLES = {
    "PLACERS": {
        Placer.SCHEDULER: "the scheduler",
        Placer.WHOLE_JOB: "whole-job admission",
        "": "no placer",
    },
    "NUMBERED": {
        True: "every pod has a number of its own",
        False: "not every pod has a number of its own",
    },
}
"""The dictionaries of texts."""


def test_no_function_returns_texts() -> None:
    """Fails if the product has a function that returns texts, because this module tests only constants."""
    assert texts.functions(messages) == set()


def test_the_dictionaries_have_these_texts() -> None:
    assert {
        name: value for name, value in vars(messages).items() if isinstance(value, dict) and name.isupper()
    } == TABLES


def test_the_constants_and_templates_have_these_texts() -> None:
    assert texts.constants(messages) == CONSTANTS

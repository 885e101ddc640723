"""Every handler answers a review whose object has something else than a map where one is expected."""

import copy
from typing import Any

import pytest

from tests.helpers import mpijob, requested
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import Review, encode
from webhook.engine.tree import put
from webhook.rules.load import load_default

TABLE = load_default()
ODD: list[Any] = [
    None,
    True,
    5,
    1.5,
    "text",
    [],
    ["name"],
    [{}],
    {},
    {"name": []},
    {"generateName": 5, "name": "a"},
]
PLACES = [("metadata",), ("data",), ("kind",), ("metadata", "name"), ("metadata", "managedFields"), ("spec",)]


@pytest.mark.parametrize("handler", [handlers.mutate, handlers.verify, handlers.require, handlers.rule_table])
@pytest.mark.parametrize("place", PLACES, ids="/".join)
def test_no_value_at_any_place_is_an_internal_error(handler: Handler, place: tuple[str, ...]) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
    for start in (mpijob(4), mpijob(4, generate_name="g-"), config_map):
        for value in ODD:
            obj = put(copy.deepcopy(start), place, value)
            outcome = handler(TABLE, Review("uid", requested(obj), "CREATE", str(obj.get("kind")), ""))
            assert encode("uid", outcome)

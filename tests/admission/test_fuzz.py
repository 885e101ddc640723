"""Tests that ``/mutate`` answers every body, and that its patches apply.

``tests/attack/test_fuzz.py`` tests objects that are more like real objects.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import Client

from testbed.mpijob import mpijob
from tests.admission.anything import PLACES, VALUES, with_value
from tests.admission.reviews import review, send
from tests.attack.cases import Case
from tests.attack.check import check
from tests.helpers import request_for
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import Review, encode
from webhook.rules.load import load_default

FEWER_EXAMPLES = settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


TYPES: list[Any] = [None, 7, "x", [None], {"x": 7}]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)))
def test_a_value_of_every_type_at_every_place_is_answered_and_the_patch_applies(
    place: tuple[str | int, ...],
) -> None:
    for value in TYPES:
        check(Case("odd", with_value(mpijob(), place, value)))


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require, handlers.rule_table])
@pytest.mark.parametrize("place", ["metadata", "data", "kind", "spec"])
def test_no_value_in_a_config_map_is_an_internal_error(handler: Handler, place: str) -> None:
    for value in [*TYPES, True, [], {}, {"name": []}]:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", place: value}
        outcome = handler(load_default(), Review("uid", request_for(obj), "CREATE", str(obj["kind"]), ""))
        assert encode("uid", outcome)


@FEWER_EXAMPLES
@given(VALUES)
def test_an_mpijob_of_arbitrary_content_is_answered(value: Any) -> None:
    obj = {**(value if isinstance(value, dict) else {"spec": value}), "kind": "MPIJob"}
    check(Case("odd", {**obj, "apiVersion": "kubeflow.org/v2beta1"}))


@FEWER_EXAMPLES
@given(VALUES)
def test_arbitrary_json_is_never_an_internal_error(client: Client, value: Any) -> None:
    assert send(client, value).status_code == 400


@FEWER_EXAMPLES
@given(
    st.sampled_from(["uid", "operation", "object", "namespace", "userInfo", "subResource", "name", "kind"]),
    VALUES,
)
def test_a_review_with_an_arbitrary_value_in_its_request_is_never_an_internal_error(
    client: Client, key: str, value: Any
) -> None:
    assert send(client, review(mpijob(), **{key: value})).status_code in {200, 400}


@FEWER_EXAMPLES
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_answered_with_400(client: Client, body: bytes) -> None:
    assert send(client, body).status_code == 400


@pytest.mark.parametrize(
    "name", ["a" * 400, "ä/b~c", "\u2028", "0", "-", "name.with.dots", "UPPER", "a\nb", " "]
)
def test_a_name_of_any_letters_is_answered_and_the_patch_applies(name: str) -> None:
    check(Case("odd", mpijob(name=name)))
    check(Case("odd", mpijob(generate_name=name)))

"""Whatever is sent, /mutate answers, and what it answers applies: arbitrary bodies, arbitrary objects."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admission.anything import PLACES, VALUES, launcher_pods, mpijobs, placed, records
from tests.admission.reviews import patched, review, send, well_formed
from tests.helpers import WORKER, mpijob
from webhook.engine import keys

SLOW_MACHINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def _holds(client: FlaskClient, obj: Any, **request: Any) -> None:
    """Answered well, the patch applies, and what comes out needs no further one."""
    answer = send(client, review(obj, **request))
    assert answer.status_code == 200, answer.get_data(as_text=True)
    inner = well_formed(answer)
    once = patched(obj, inner)
    if not inner["allowed"]:
        return
    again = send(client, review(once, **request))
    assert again.status_code == 200
    assert "patch" not in well_formed(again)


TYPES: list[Any] = [
    None,
    True,
    7,
    1.5,
    "x",
    [],
    [None],
    ["x"],
    [[]],
    {},
    {"x": 7},
    [{"name": {}}],
    {"x": {"x": []}},
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)))
def test_a_value_of_every_type_at_every_place_is_answered_and_the_patch_applies(
    client: FlaskClient, place: tuple[str | int, ...]
) -> None:
    once = patched(mpijob(), well_formed(send(client, review(mpijob()))))
    for value in TYPES:
        _holds(client, placed(mpijob(), place, value))
        _holds(client, placed(once, place, value))


@SLOW_MACHINE
@given(mpijobs())
def test_an_mpijob_with_anything_anywhere_is_answered_and_its_patch_applies(
    client: FlaskClient,
    obj: Any,
) -> None:
    if isinstance(obj, dict):
        _holds(client, obj)


@SLOW_MACHINE
@given(launcher_pods())
def test_a_launchers_pod_with_anything_anywhere_is_answered_and_its_patch_applies(
    client: FlaskClient,
    obj: Any,
) -> None:
    if isinstance(obj, dict):
        _holds(client, obj)


@SLOW_MACHINE
@given(mpijobs(), records())
def test_a_forged_record_is_answered_and_its_patch_applies(client: FlaskClient, obj: Any, text: str) -> None:
    _holds(client, placed(obj, (*WORKER, "metadata", "annotations", keys.ADDED), text))


@SLOW_MACHINE
@given(VALUES)
def test_an_mpijob_of_arbitrary_content_is_answered(client: FlaskClient, value: Any) -> None:
    obj = {**(value if isinstance(value, dict) else {"spec": value}), "kind": "MPIJob"}
    _holds(client, {**obj, "apiVersion": "kubeflow.org/v2beta1"})


@SLOW_MACHINE
@given(st.data())
def test_a_mutated_job_with_anything_anywhere_is_answered(client: FlaskClient, data: st.DataObject) -> None:
    obj = mpijob(data.draw(st.sampled_from([2, 4, 8])))
    once = patched(obj, well_formed(send(client, review(obj))))
    place = data.draw(st.sampled_from([path for path in PLACES if path[0] in once]))
    _holds(
        client,
        placed(once, place, data.draw(VALUES)),
        namespace=data.draw(st.sampled_from(["a", "default"])),
    )


@SLOW_MACHINE
@given(VALUES)
def test_arbitrary_json_is_never_an_internal_error(client: FlaskClient, value: Any) -> None:
    assert send(client, value).status_code == 400


@SLOW_MACHINE
@given(
    st.sampled_from(["uid", "operation", "object", "namespace", "userInfo", "subResource", "name", "kind"]),
    VALUES,
)
def test_a_review_with_anything_in_its_request_is_never_an_internal_error(
    client: FlaskClient,
    key: str,
    value: Any,
) -> None:
    assert send(client, review(mpijob(), **{key: value})).status_code in {200, 400}


@SLOW_MACHINE
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_400(client: FlaskClient, body: bytes) -> None:
    assert send(client, body).status_code == 400


@pytest.mark.parametrize(
    "name", ["a" * 400, "ä/b~c", "\u2028", "0", "-", "name.with.dots", "UPPER", "a\nb", " "]
)
def test_a_name_of_any_letters_is_answered_and_the_patch_applies(client: FlaskClient, name: str) -> None:
    _holds(client, mpijob(name=name))
    _holds(client, mpijob(generate_name=name))

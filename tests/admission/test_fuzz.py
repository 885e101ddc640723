"""Whatever is sent, /mutate answers, and what it answers applies: arbitrary bodies, arbitrary objects."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admission.reviews import patched, review, send, well_formed
from tests.helpers import LAUNCHER, WORKER, mpijob
from webhook.engine import keys
from webhook.engine.tree import get

SLOW_MACHINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

WORDS = st.sampled_from(
    [
        "",
        "name",
        "true",
        "false",
        "4",
        "2",
        "train",
        "trn2u.48xlarge",
        "wait-hostfilename",
        "~1",
        "[x]",
        "-",
        "spec",
        "metadata",
        "labels",
        "containers",
        "image",
        "value",
        keys.INJECT,
        keys.JOB,
        keys.ADDED,
    ]
)
TEXTS = WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TEMPLATE_PLACES: list[tuple[str | int, ...]] = [
    (),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "labels"),
    ("metadata", "labels", keys.JOB),
    ("metadata", "annotations"),
    ("metadata", "annotations", keys.ADDED),
    ("spec",),
    ("spec", "nodeSelector"),
    ("spec", "nodeSelector", "node.kubernetes.io/instance-type"),
    ("spec", "affinity"),
    ("spec", "affinity", "podAffinity"),
    ("spec", "affinity", "podAffinity", REQUIRED),
    ("spec", "affinity", "podAffinity", PREFERRED),
    ("spec", "affinity", "podAntiAffinity"),
    ("spec", "affinity", "podAntiAffinity", REQUIRED),
    ("spec", "affinity", "nodeAffinity"),
    ("spec", "affinity", "nodeAffinity", REQUIRED),
    ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"),
    ("spec", "containers"),
    ("spec", "containers", 0),
    ("spec", "containers", 0, "name"),
    ("spec", "containers", 0, "image"),
    ("spec", "containers", 0, "env"),
    ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "resources", "limits"),
    ("spec", "containers", 0, "resources", "limits", "aws.amazon.com/neuron"),
    ("spec", "initContainers"),
    ("spec", "volumes"),
]
PLACES: list[tuple[str | int, ...]] = [
    *(role + place for role in (WORKER, LAUNCHER) for place in TEMPLATE_PLACES),
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "generateName"),
    ("metadata", "namespace"),
    ("metadata", "labels"),
    ("metadata", "labels", keys.INJECT),
    ("metadata", "annotations"),
    ("metadata", "annotations", keys.INJECT),
    ("metadata", "annotations", keys.NODE_CONFIG),
    ("metadata", "managedFields"),
    ("spec",),
    ("spec", "sshAuthMountPath"),
    ("spec", "mpiReplicaSpecs"),
    ("spec", "mpiReplicaSpecs", "Worker"),
    ("spec", "mpiReplicaSpecs", "Launcher"),
    ("spec", "mpiReplicaSpecs", "Worker", "replicas"),
]


def _placed(node: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        items = node if isinstance(node, list) and node else [{}]
        return [_placed(items[0], rest, value), *items[1:]]
    fields = node if isinstance(node, dict) else {}
    return {**fields, key: _placed(fields.get(key), rest, value)}


@st.composite
def mpijobs(draw: st.DrawFn) -> Any:
    """An MPIJob with something of any kind in one to four places that the webhook may look at."""
    job: Any = mpijob(
        draw(st.sampled_from([1, 2, 3, 4, 8])), generate_name=draw(st.sampled_from([None, "g-"]))
    )
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4, unique=True)):
        job = _placed(
            job, place, draw(VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(TEXTS, VALUES))
        )
    return job


@st.composite
def records(draw: st.DrawFn) -> str:
    """The text of a record as somebody may forge it, lone surrogates too."""
    value = draw(
        st.fixed_dictionaries(
            {
                "added": st.dictionaries(
                    TEXTS.map("/".__add__), TEXTS | st.lists(TEXTS, max_size=3), max_size=3
                )
            },
            optional={"table": VALUES, "uid": st.text(max_size=3)},
        )
    )
    return json.dumps(value)


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


@SLOW_MACHINE
@given(mpijobs())
def test_an_mpijob_with_anything_anywhere_is_answered_and_its_patch_applies(
    client: FlaskClient,
    obj: Any,
) -> None:
    if isinstance(obj, dict):
        _holds(client, obj)


@SLOW_MACHINE
@given(mpijobs(), records())
def test_a_forged_record_is_answered_and_its_patch_applies(client: FlaskClient, obj: Any, text: str) -> None:
    _holds(client, _placed(obj, (*WORKER, "metadata", "annotations", keys.ADDED), text))


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
    place = data.draw(st.sampled_from([path for path in PLACES if get(once, path[:1]) is not None]))
    _holds(
        client,
        _placed(once, place, data.draw(VALUES)),
        namespace=data.draw(st.sampled_from(["a", "default"])),
    )


@SLOW_MACHINE
@given(VALUES)
def test_arbitrary_json_is_never_a_mistake_of_ours(client: FlaskClient, value: Any) -> None:
    assert send(client, value).status_code == 400


@SLOW_MACHINE
@given(
    st.sampled_from(["uid", "operation", "object", "namespace", "userInfo", "subResource", "name", "kind"]),
    VALUES,
)
def test_a_review_with_anything_in_its_request_is_never_a_mistake_of_ours(
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

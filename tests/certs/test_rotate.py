"""Tests of passes with an API server in memory: the stored objects, the order of the steps, and conflicts."""

import base64
from itertools import count

import pytest

from certs.decide import Action
from certs.inputs import why_refused
from certs.rotate import PassResult
from kube.api import ApiError
from tests.certs.fake import (
    CA_SECRET,
    MUTATING,
    SECRET,
    SETTLE,
    WANTED,
    Clock,
    actions,
    api_after_first_pass,
    assert_leaf_verifies,
    configuration,
    create_api,
    rotator,
    run_until_complete,
)


def test_serving_pods_get_no_authority_key() -> None:
    api, _ = api_after_first_pass()
    serving, authority = api.objects[SECRET], api.objects[CA_SECRET]
    assert serving["type"] == authority["type"] == "kubernetes.io/tls"
    assert set(serving["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert authority["data"]["tls.key"] not in serving["data"].values()


def test_an_authority_is_replaced_in_steps_that_never_break_a_call() -> None:
    api, clock = api_after_first_pass()
    old = rotator(api, clock).read()
    first = rotator(api, clock).run(replace_authority=True)
    assert actions(first) == [Action.NEW_AUTHORITY, Action.TRUST, Action.PUBLISH, Action.NOTE]
    assert first.stored.serving.pair == old.serving.pair
    assert first.stored.bundle > old.bundle
    assert_leaf_verifies(first.stored, clock)
    assert run_until_complete(api, clock) == [Action.ISSUE, Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    last = rotator(api, clock).read()
    assert len(last.bundle) == 1
    assert last.bundle.isdisjoint(old.bundle)


def test_two_simultaneous_requests_replace_a_certificate_once() -> None:
    for option in ("replace_authority", "replace_leaf"):
        api, clock = api_after_first_pass()
        winner = rotator(api, clock)
        options = {option: True}
        outcomes: list[PassResult] = []
        api.before_write = lambda winner=winner, options=options, outcomes=outcomes: outcomes.append(
            winner.run(**options)
        )
        loser = rotator(api, clock).run(**options)
        assert loser.conflicts == 1
        assert outcomes[0].steps
        assert not loser.steps
        assert loser.stored.authority.bundle == outcomes[0].stored.authority.bundle
        assert loser.stored.serving.certificate == outcomes[0].stored.serving.certificate


def test_a_requested_replacement_is_done_after_a_conflict() -> None:
    api, clock = api_after_first_pass()
    changed = {**api.objects[CA_SECRET], "immutable": False}
    api.before_write = lambda: api.put(CA_SECRET, changed)
    outcome = rotator(api, clock).run(replace_authority=True)
    assert (outcome.conflicts, actions(outcome)[0]) == (1, Action.NEW_AUTHORITY)


def test_a_caBundle_that_loses_the_new_authority_restarts_the_settling_time() -> None:  # noqa: N802
    api, clock = api_after_first_pass()
    rotator(api, clock).run(replace_authority=True)
    clock.forward(WANTED.settle)
    api.put(MUTATING, configuration("mutating", "m"))
    outcome = rotator(api, clock).run()
    assert actions(outcome) == [Action.FORGET, Action.TRUST, Action.NOTE]
    assert outcome.last.until == clock() + WANTED.settle
    # A still newer authority must restart the settling time, too.
    steps = actions(rotator(api, clock).run(replace_authority=True))
    assert steps == [Action.NEW_AUTHORITY, Action.TRUST, Action.PUBLISH, Action.NOTE]


def test_two_simultaneous_first_passes_create_one_authority() -> None:
    api, clock = create_api(), Clock()
    api.before_write = lambda: rotator(api, clock).run()
    outcome = rotator(api, clock).run()
    assert (outcome.conflicts, actions(outcome)) == (1, [])
    assert_leaf_verifies(outcome.stored, clock)


def test_a_late_patch_does_not_undo_a_newer_bundle() -> None:
    api, clock = api_after_first_pass()
    api.put(MUTATING, configuration("mutating", "m"))  # so that there is something to patch
    api.before_write = lambda: rotator(api, clock).run(replace_authority=True)
    outcome = rotator(api, clock).run()
    assert outcome.conflicts == 1
    assert len(outcome.stored.authority.bundle) == 2
    assert all(
        bundle == outcome.stored.authority.bundle for hook in outcome.stored.hooks for bundle in hook.bundles
    )


def test_a_leaf_of_the_old_authority_is_not_stored_after_a_simultaneous_rotation() -> None:
    api, clock = api_after_first_pass()

    def rotate_completely() -> None:
        rotator(api, clock).run(replace_authority=True)
        for _ in range(2):
            clock.forward(SETTLE)
            rotator(api, clock).run()

    api.before_write = rotate_completely
    outcome = rotator(api, clock).run(replace_leaf=True)
    assert outcome.conflicts == 1
    assert len(outcome.stored.authority.bundle) == 1
    assert_leaf_verifies(outcome.stored, clock)


def test_fields_that_other_programs_add_to_the_secrets_stay() -> None:
    api, clock = api_after_first_pass()
    for path in (SECRET, CA_SECRET):
        api.objects[path]["metadata"] |= {"ownerReferences": [{"uid": "1"}], "annotations": {"a": "b"}}
        api.objects[path]["data"]["extra"] = "eA=="
    rotator(api, clock).run(replace_authority=True)
    clock.forward(SETTLE)
    rotator(api, clock).run()
    for path in (SECRET, CA_SECRET):
        assert api.objects[path]["metadata"]["ownerReferences"] == [{"uid": "1"}]
        assert api.objects[path]["metadata"]["annotations"]["a"] == "b"
        assert api.objects[path]["data"]["extra"] == "eA=="


def test_a_program_that_undoes_every_write_is_reported_as_an_error() -> None:
    api, clock = api_after_first_pass()

    def undo() -> None:
        api.before_write = undo
        api.put(SECRET, {"metadata": {"name": "tls", "annotations": {"n": str(next(numbers))}}, "data": {}})

    numbers = count()

    api.before_write = undo
    undo()
    with pytest.raises(ApiError, match="does another program write"):
        rotator(api, clock).run()


# ---- Lost or overwritten objects ---------------------------------------------------------------------------


def test_if_both_secrets_are_lost_the_caBundle_still_trusts_the_served_leaf() -> None:  # noqa: N802
    api, clock = api_after_first_pass()
    served = rotator(api, clock).read().serving
    del api.objects[SECRET], api.objects[CA_SECRET]
    outcome = rotator(api, clock).run()
    assert_leaf_verifies(outcome.stored, clock)
    assert all(
        not why_refused(served, bundle, clock()) for hook in outcome.stored.hooks for bundle in hook.bundles
    )
    clock.forward(SETTLE)
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1


def test_only_the_webhook_that_differs_is_patched() -> None:
    api, clock = api_after_first_pass()
    hook = api.get(MUTATING) or {}
    good = hook["webhooks"][0]["clientConfig"]["caBundle"]
    del hook["webhooks"][1]["clientConfig"]["caBundle"]
    # The same certificates in another text, which another program may have written.
    text = base64.b64decode(good) + b"\n# a comment\n"
    hook["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(text).decode()
    api.put(MUTATING, hook)
    rotator(api, clock).run()
    ca_bundles = [entry["clientConfig"]["caBundle"] for entry in api.objects[MUTATING]["webhooks"]]
    assert ca_bundles == [base64.b64encode(text).decode(), good]

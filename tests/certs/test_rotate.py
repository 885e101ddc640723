"""Passes against an API server in memory: what is stored afterwards, in which order, and lost races."""

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
    assert_whole,
    complete,
    configuration,
    installed,
    ready,
    rotator,
)


def test_serving_pods_get_no_authority_key() -> None:
    api, _ = ready()
    serving, authority = api.objects[SECRET], api.objects[CA_SECRET]
    assert serving["type"] == authority["type"] == "kubernetes.io/tls"
    assert set(serving["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert authority["data"]["tls.key"] not in serving["data"].values()


def test_an_authority_is_replaced_in_steps_that_never_break_a_call() -> None:
    api, clock = ready()
    old = rotator(api, clock).read()
    first = rotator(api, clock).run(replace_authority=True)
    assert actions(first) == [Action.NEW_AUTHORITY, Action.TRUST, Action.PUBLISH, Action.NOTE]
    assert first.stored.serving.pair == old.serving.pair
    assert first.stored.bundle > old.bundle
    assert_whole(first.stored, clock)
    assert complete(api, clock) == [Action.ISSUE, Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    last = rotator(api, clock).read()
    assert len(last.bundle) == 1
    assert last.bundle.isdisjoint(old.bundle)


def test_two_who_ask_for_the_same_replace_it_once() -> None:
    for what in ("replace_authority", "replace_leaf"):
        api, clock = ready()
        other = rotator(api, clock)
        forced_certificates = {what: True}
        outcomes: list[PassResult] = []
        api.before_write = lambda other=other, forced_certificates=forced_certificates, outcomes=outcomes: (
            outcomes.append(other.run(**forced_certificates))
        )
        loser = rotator(api, clock).run(**forced_certificates)
        assert loser.conflicts == 1
        assert outcomes[0].steps
        assert not loser.steps
        assert loser.stored.authority.bundle == outcomes[0].stored.authority.bundle
        assert loser.stored.serving.certificate == outcomes[0].stored.serving.certificate


def test_what_was_asked_for_is_done_after_a_lost_race() -> None:
    api, clock = ready()
    changed = {**api.objects[CA_SECRET], "immutable": False}
    api.before_write = lambda: api.put(CA_SECRET, changed)
    outcome = rotator(api, clock).run(replace_authority=True)
    assert (outcome.conflicts, actions(outcome)[0]) == (1, Action.NEW_AUTHORITY)


def test_a_caBundle_that_loses_the_new_authority_restarts_the_settling_time() -> None:  # noqa: N802
    api, clock = ready()
    rotator(api, clock).run(replace_authority=True)
    clock.forward(WANTED.settle)
    api.put(MUTATING, configuration("mutating", "m"))
    outcome = rotator(api, clock).run()
    assert actions(outcome) == [Action.FORGET, Action.TRUST, Action.NOTE]
    assert outcome.last.until == clock() + WANTED.settle
    # Nor is an authority that is newer still trusted since then.
    steps = actions(rotator(api, clock).run(replace_authority=True))
    assert steps == [Action.NEW_AUTHORITY, Action.TRUST, Action.PUBLISH, Action.NOTE]


def test_two_first_passes_end_with_one_authority() -> None:
    api, clock = installed(), Clock()
    api.before_write = lambda: rotator(api, clock).run()
    outcome = rotator(api, clock).run()
    assert (outcome.conflicts, actions(outcome)) == (1, [])
    assert_whole(outcome.stored, clock)


def test_a_late_patch_does_not_undo_a_newer_bundle() -> None:
    api, clock = ready()
    api.put(MUTATING, configuration("mutating", "m"))  # so that there is something to patch
    api.before_write = lambda: rotator(api, clock).run(replace_authority=True)
    outcome = rotator(api, clock).run()
    assert outcome.conflicts == 1
    assert len(outcome.stored.authority.bundle) == 2
    assert all(
        held == outcome.stored.authority.bundle for hook in outcome.stored.hooks for held in hook.bundles
    )


def test_a_leaf_of_the_old_authority_is_not_stored_when_a_newer_one_was_meanwhile() -> None:
    api, clock = ready()

    def whole_rotation() -> None:
        rotator(api, clock).run(replace_authority=True)
        for _ in range(2):
            clock.forward(SETTLE)
            rotator(api, clock).run()

    api.before_write = whole_rotation
    outcome = rotator(api, clock).run(replace_leaf=True)
    assert outcome.conflicts == 1
    assert len(outcome.stored.authority.bundle) == 1
    assert_whole(outcome.stored, clock)


def test_what_others_put_on_the_objects_stays() -> None:
    api, clock = ready()
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


def test_a_stranger_who_undoes_every_write_is_reported_and_not_fought_for_ever() -> None:
    api, clock = ready()

    def undo() -> None:
        api.before_write = undo
        api.put(SECRET, {"metadata": {"name": "tls", "annotations": {"n": str(next(numbers))}}, "data": {}})

    numbers = count()

    api.before_write = undo
    undo()
    with pytest.raises(ApiError, match="does another program write"):
        rotator(api, clock).run()


# ---- What was lost or overwritten -------------------------------------------------------------------------


def test_with_both_secrets_lost_the_caBundle_still_trusts_what_replicas_serve() -> None:  # noqa: N802
    api, clock = ready()
    served = rotator(api, clock).read().serving
    del api.objects[SECRET], api.objects[CA_SECRET]
    outcome = rotator(api, clock).run()
    assert_whole(outcome.stored, clock)
    assert all(
        not why_refused(served, held, clock()) for hook in outcome.stored.hooks for held in hook.bundles
    )
    clock.forward(SETTLE)
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1


def test_only_the_webhook_that_differs_is_patched() -> None:
    api, clock = ready()
    one = api.get(MUTATING) or {}
    good = one["webhooks"][0]["clientConfig"]["caBundle"]
    del one["webhooks"][1]["clientConfig"]["caBundle"]
    # Equal except for its form: another program may have written it.
    text = base64.b64decode(good) + b"\n# a comment\n"
    one["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(text).decode()
    api.put(MUTATING, one)
    rotator(api, clock).run()
    held = [entry["clientConfig"]["caBundle"] for entry in api.objects[MUTATING]["webhooks"]]
    assert held == [base64.b64encode(text).decode(), good]

"""What was lost, overwritten or has ended is put right in one pass, and nobody who is served is cut off."""

from __future__ import annotations

import base64

import pytest

from certs.checks import unusable
from certs.decide import Action
from tests.certs.fake import CA_SECRET, POLICY, SECRET, configuration, rotator
from tests.certs.test_rotate import MUTATING, SETTLE, actions, assert_whole, ready


@pytest.mark.parametrize("path", [SECRET, CA_SECRET])
def test_a_lost_secret_is_made_again_and_replicas_stay_trusted_meanwhile(path: str) -> None:
    api, clock = ready()
    before = rotator(api, clock).read()
    served = before.serving
    del api.objects[path]
    outcome = rotator(api, clock).run()
    assert_whole(outcome.stored, clock)
    for hook in outcome.stored.hooks:
        for bundle in hook.bundles:
            assert not unusable(served, bundle, clock())
    for _ in range(2):
        clock.forward(SETTLE)
        outcome = rotator(api, clock).run()
        assert_whole(outcome.stored, clock)
    assert outcome.last.action is Action.KEEP
    assert len(outcome.stored.authority.bundle) == 1


def test_with_both_secrets_lost_the_caBundle_still_trusts_what_replicas_serve() -> None:  # noqa: N802
    api, clock = ready()
    served = rotator(api, clock).read().serving
    del api.objects[SECRET], api.objects[CA_SECRET]
    outcome = rotator(api, clock).run()
    assert_whole(outcome.stored, clock)
    assert all(not unusable(served, held, clock()) for hook in outcome.stored.hooks for held in hook.bundles)
    clock.forward(SETTLE)
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1


def test_a_wrong_caBundle_is_repaired_and_nothing_else_written() -> None:  # noqa: N802
    for wrong in ("", "bm9uc2Vuc2U=", "not base64", api_of_another_authority()):
        api, clock = ready()
        api.put(MUTATING, configuration("mutating", "m", bundle=wrong))
        outcome = rotator(api, clock).run()
        assert actions(outcome) == [Action.TRUST]
        assert outcome.steps[0].broken
        assert api.writes == ["PATCH m"]
        assert_whole(outcome.stored, clock)


def api_of_another_authority() -> str:
    api, _ = ready()
    bundle: str = api.objects[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"]
    return bundle


def test_only_the_webhook_that_differs_is_patched() -> None:
    api, clock = ready()
    one = api.get(MUTATING) or {}
    good = one["webhooks"][0]["clientConfig"]["caBundle"]
    del one["webhooks"][1]["clientConfig"]["caBundle"]
    # Equal but for its form: another program may have written it.
    text = base64.b64decode(good) + b"\n# a comment\n"
    one["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(text).decode()
    api.put(MUTATING, one)
    rotator(api, clock).run()
    held = [entry["clientConfig"]["caBundle"] for entry in api.objects[MUTATING]["webhooks"]]
    assert held == [base64.b64encode(text).decode(), good]


def test_everything_expired_is_made_anew() -> None:
    api, clock = ready()
    clock.forward(POLICY.authority_lifetime)
    outcome = rotator(api, clock).run()
    assert actions(outcome) == [Action.NEW_AUTHORITY, Action.TRUST, Action.ISSUE]
    assert len(outcome.stored.authority.bundle) == 1
    assert_whole(outcome.stored, clock)

"""Tests of the exact texts of the certificate program."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs import messages
from certs.decide import Action
from tests import texts
from tests.docs.tables import meanings

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
DAY = timedelta(days=1)
VALID_UNTIL = "valid until 2026-11-29 12:00 UTC"

TEXTS: dict[str, list[tuple[tuple[Any, ...], dict[str, bool], str]]] = {
    "source": [
        ((), {"provided": True}, "source     the provided certificate"),
        ((), {"provided": False}, "source     this program"),
    ],
    "certificate": [
        (
            ("leaf", NOON + DAY, NOON, NOON),
            {},
            f"leaf       {VALID_UNTIL} (24.0 hours left), renewed from 2026-11-28 12:00 UTC",
        ),
        (
            ("authority", NOON + DAY, NOON, NOON - 2 * DAY),
            {},
            f"authority  {VALID_UNTIL} (3 days left), renewed from 2026-11-28 12:00 UTC",
        ),
        (
            ("leaf", NOON + DAY, NOON, NOON + DAY),
            {},
            f"leaf       {VALID_UNTIL} (expired), renewed from 2026-11-28 12:00 UTC",
        ),
    ],
    "older_cas": [
        ((1,), {}, "bundle     1 older authority also trusted"),
        ((2,), {}, "bundle     2 older authorities also trusted"),
    ],
    "hook": [
        (("mutating", "a"), {"exists": True, "has_bundle": True}, "mutating   a has the bundle"),
        (("validating", "a"), {"exists": True, "has_bundle": False}, "validating a has another caBundle"),
        (("mutating", "a"), {"exists": False, "has_bundle": False}, "mutating   a is missing"),
    ],
    "replica": [
        (("a",), {"is_stored": True, "is_old": False}, "replica    a serves the stored leaf"),
        (
            ("a",),
            {"is_stored": False, "is_old": True},
            "replica    a serves another leaf, of another authority",
        ),
    ],
}
"""For each function of `messages`: the arguments of its calls, and the text of each call."""


CONSTANTS = {
    "NOT_A_CA": "the certificate in the authority's Secret is not a CA",
    "NEW_CA_REQUESTED": "a new authority was requested",
    "NEW_LEAF_REQUESTED": "a new leaf was requested",
    "BUNDLE_LACKS_CA": "the bundle lacks the authority of the leaf that is to be served",
    "BUNDLE_HAS_INVALID_CA": "a certificate in the bundle is not valid now, or is not a CA",
    "TRUST_LOST": "a caBundle does not hold the new authority",
    "NOT_PUBLISHED": "ca.crt of the serving Secret is not the bundle",
    "IN_EVERY_BUNDLE": "every caBundle holds the new authority",
    "TRUSTED": "the new authority is trusted everywhere",
    "NOT_TRUSTED_YET": "some API servers may not trust the new authority yet",
    "PODS_RECEIVE_LEAF": "pods are receiving the new authority's leaf",
    "EVERY_REPLICA": "every replica that answers serves the new authority's leaf",
    "NOTHING_TO_DO": "nothing to do",
    "ca_not_valid": "the authority is only {}",
    "no_ca": "no authority can sign: {}",
    "ca_due": "the authority reached its renewal time at {:%Y-%m-%dT%H:%M:%SZ}",
    "no_leaf": "no leaf to serve: {}",
    "leaf_due": "the leaf reached its renewal time at {:%Y-%m-%dT%H:%M:%SZ}",
    "leaf_ends_early": "the leaf ends at {:%Y-%m-%dT%H:%M:%SZ}, before the settling time ends",
    "leaf_lacks": "the leaf lacks the name {}",
    "stale": "the caBundle is stale in {}",
    "still_served": "the old authority stays trusted: its leaf is still served by {}",
    "valid": "valid from {:%Y-%m-%dT%H:%M:%SZ} to {:%Y-%m-%dT%H:%M:%SZ}",
    "MISSING": "the Secret does not exist",
    "OTHER_KEY": "its private key does not belong to its certificate",
    "WRONG_KEY": "its private key is not ECDSA on P-256",
    "NO_CA_FILE": "its ca.crt is missing or cannot be read",
    "NOT_SIGNED": "no trusted authority signed it",
    "unreadable": "its certificate or key cannot be read: {}",
    "not_valid": "it is only {}",
    "lacks_name": "it lacks the name {}",
    "ends_soon": "it ends at {:%Y-%m-%dT%H:%M:%SZ}, in less than {}",
    "no_hook": "there is no webhook configuration {} yet",
    "not_served": "the provided certificate is not served: {}",
    "bundle_lacks_ca": "the caBundle of the {} webhook configuration {} lacks the leaf's authority",
    "nothing_until": "next       nothing until {:%Y-%m-%d %H:%M} UTC",
    "next_step": "next       {}: {}",
    "STOPPED": "stopped",
    "SAME_SECRETS": (
        "--secret, --ca-secret and --provided-secret must differ: serving pods must not see the authority's "
        "key, and the provided Secret is never written"
    ),
    "NO_NAMES": "a serving certificate needs at least one name, and no name may be empty",
    "step": "{}: {}",
    "note": "note: {}",
    "wrong": "wrong: {}",
    "error": "error: {}",
    "pass_failed": "a pass failed: {}",
    "many_steps": (
        "after {} steps there is still something to do, last: {} ({}); does another program write to the "
        "same objects?"
    ),
    "made": "made {}; valid until {:%Y-%m-%d %H:%M} UTC",
    "from_elsewhere": "the certificate comes from the Secret {}: replace it there",
    "not_complete": "not complete after {:g} s",
    "malformed_name": "a name of the certificate is malformed: {}",
    "outlives": "a leaf ({}) cannot outlive its authority ({})",
    "short_leaf": "a leaf of {} is shorter than twelve settling times of {}",
}
"""The constants of `messages`, and the templates of texts with values."""


def test_every_function_has_a_case() -> None:
    """Protects against a new function whose text no test compares."""
    assert texts.functions(messages) == set(TEXTS)


@pytest.mark.parametrize(
    ("name", "values", "options", "text"), [(name, *case) for name, cases in TEXTS.items() for case in cases]
)
def test_a_function_returns_its_text(
    name: str, values: tuple[Any, ...], options: dict[str, bool], text: str
) -> None:
    assert getattr(messages, name)(*values, **options) == text


def test_the_reference_lists_exactly_the_steps_of_the_program() -> None:
    """Protects users who look up a step in docs/reference.md."""
    steps = {action.value.replace(" ", "-") for action in Action}
    assert set(meanings()["certificates"]) == steps


def test_the_constants_and_templates_have_their_texts() -> None:
    assert texts.constants(messages) == CONSTANTS

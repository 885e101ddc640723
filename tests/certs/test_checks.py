"""Tests of the checks that decide whether a leaf can be served, and of the reasons why it cannot."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from certs import messages
from certs.authority import is_valid_at, issue, new_authority
from certs.inputs import Inputs, is_verified_by, why_refused
from certs.objects import PairSecret
from common.times import stamp
from tests.certs.fake import NOW, WANTED

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
NAMES = WANTED.names
CA, OTHER_CA = (new_authority(NOW, WANTED.authority_lifetime) for _ in range(2))
LEAF = issue(CA, NOW, WANTED.leaf_lifetime, NAMES)
CHAIN = replace(LEAF, intermediates=(CA.certificate,))
PROVIDED = PairSecret("provided", {}, LEAF, "", frozenset({CA.certificate}))


def why_not_served(now: datetime, **change: Any) -> str:
    """Returns why the provided certificate, with these changes, cannot be served."""
    empty_secret = PairSecret("other", None, None, "", frozenset())
    return Inputs(empty_secret, empty_secret, replace(PROVIDED, **change), (), WANTED, now).why_not_served


def test_an_instant_is_printed_to_the_second_in_utc() -> None:
    assert stamp(datetime.fromisoformat("2026-11-21T10:02:03.9+00:00")) == "2026-11-21T10:02:03Z"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"raw": None, "pair": None}, ""),
        ({"bundle": frozenset()}, messages.NO_CA_FILE),
        ({"pair": None, "problem": "it cannot be read", "bundle": frozenset()}, "it cannot be read"),
        ({"bundle": frozenset({OTHER_CA.certificate})}, messages.NOT_SIGNED),
        ({"bundle": frozenset({LEAF.certificate})}, messages.NOT_SIGNED),
        # The search for a trusted authority must end, although the intermediate signed itself.
        ({"pair": CHAIN, "bundle": frozenset({OTHER_CA.certificate})}, messages.NOT_SIGNED),
        ({"pair": issue(CA, NOW, DAY * 9, ["other"])}, f"it lacks the name {NAMES[0]}"),
        ({}, ""),
    ],
)
def test_a_refused_provided_certificate_is_reported_with_the_reason(change: dict[str, Any], why: str) -> None:
    assert why_not_served(NOW + DAY, **change) == why


def test_a_provided_certificate_is_refused_when_its_remaining_life_is_too_short() -> None:
    end = LEAF.certificate.not_valid_after_utc
    first_refusal = end - WANTED.min_remaining_life
    message = f"it ends at {stamp(end)}, in less than {WANTED.min_remaining_life}"
    assert [why_not_served(now) for now in (first_refusal - SECOND, first_refusal)] == ["", message]


def test_a_certificate_is_valid_at_its_start_and_no_longer_at_its_end() -> None:
    begin, end = LEAF.certificate.not_valid_before_utc, LEAF.certificate.not_valid_after_utc
    times = (begin - SECOND, begin, end - SECOND, end)
    assert [is_valid_at(LEAF.certificate, now) for now in times] == [False, True, True, False]
    message = f"it is only valid from {stamp(begin)} to {stamp(end)}"
    assert why_refused(PROVIDED, frozenset({CA.certificate}), end) == message


def test_an_expired_authority_verifies_no_leaf() -> None:
    arguments = LEAF.certificate, (), frozenset({CA.certificate})
    assert is_verified_by(*arguments, NOW)
    assert not is_verified_by(*arguments, CA.certificate.not_valid_after_utc)

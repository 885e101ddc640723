"""Questions about single certificates and bundles, which decisions and reports ask. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography import x509

from certs import names
from certs.authority import BACKDATE, signed_by

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from certs.inputs import Policy
    from certs.observed import Bundle, ServingSecret


def renewal(certificate: x509.Certificate) -> datetime:
    """When a certificate reaches its renewal time: after two thirds of its lifetime.

    Its life begins when it was made, not `BACKDATE` earlier: lifetimes of minutes count from there.
    """
    end = certificate.not_valid_after_utc
    begin = min(certificate.not_valid_before_utc + BACKDATE, end)
    return begin + (end - begin) * 2 / 3


def lacking_names(leaf: x509.Certificate, policy: Policy) -> list[str]:
    """The wanted names that a leaf does not have."""
    return names.lacking(leaf, (*policy.dns_names, *policy.ip_addresses))


def unusable(serving: ServingSecret, bundle: Bundle, now: datetime) -> str:
    """Why a Secret's leaf does not serve a client that trusts ``bundle``; empty when it does."""
    leaf = serving.leaf
    if leaf is None:
        return serving.problem
    if not in_time(leaf, now):
        return f"it is good from {at(leaf.not_valid_before_utc)} to {at(leaf.not_valid_after_utc)} only"
    if not verifies(leaf, serving.chain[1:], bundle, now):
        return "no trusted authority signed it"
    return ""


def refused(provided: ServingSecret, policy: Policy, now: datetime) -> str:
    """Why a provided certificate is not served; empty when it is, or when there is none."""
    leaf = provided.leaf
    if provided.raw is None:
        return ""
    if leaf is not None and not provided.bundle:
        return "its ca.crt is missing or cannot be read"
    if why := unusable(provided, provided.bundle, now):
        return why
    if leaf and not names.serves(leaf, policy.dns_names[0]):
        return f"it lacks the name {policy.dns_names[0]}"
    if leaf and now >= last_served(leaf, policy):
        return f"it ends at {at(leaf.not_valid_after_utc)}, in less than {policy.least_life}"
    return ""


def last_served(leaf: x509.Certificate, policy: Policy) -> datetime:
    """Until when a provided leaf is served: so long before its end that another one can take over in time."""
    return leaf.not_valid_after_utc - policy.least_life


def verifies(
    leaf: x509.Certificate, intermediates: Iterable[x509.Certificate], bundle: Bundle, now: datetime
) -> bool:
    """Whether a leaf was signed by an authority of ``bundle``, or by a chain of intermediates up to one."""
    between = [ca for ca in intermediates if good(ca, now)]
    roots = still_good(bundle, now)
    tips = [leaf]
    while tips:
        tip = tips.pop()
        if any(signed_by(tip, ca) for ca in roots):
            return True
        tips += [ca for ca in between if signed_by(tip, ca)]
        between = [ca for ca in between if ca not in tips]
    return False


def still_good(bundle: Bundle, now: datetime) -> Bundle:
    """Those of a bundle that are authorities and in their time."""
    return frozenset(ca for ca in bundle if good(ca, now))


def good(ca: x509.Certificate, now: datetime) -> bool:
    """Whether it is an authority and in its time."""
    return is_authority(ca) and in_time(ca, now)


def in_time(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate has begun and has not ended."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def at(instant: datetime) -> str:
    """An instant, for people."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"

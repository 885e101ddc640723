"""Questions about single certificates and bundles, which decisions and reports ask. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509

from certs.authority import BACKDATE, signed_by

if TYPE_CHECKING:
    from datetime import datetime

    from certs.case import Policy
    from certs.held import Bundle


def renewal(certificate: x509.Certificate) -> datetime:
    """When two thirds of a certificate's life are over.

    Its life begins when it was made, not `BACKDATE` earlier: lifetimes of minutes count from there.
    """
    end = certificate.not_valid_after_utc
    begin = min(certificate.not_valid_before_utc + BACKDATE, end)
    return begin + (end - begin) * 2 / 3


def lacking_names(leaf: x509.Certificate, policy: Policy) -> list[str]:
    """The wanted names that a leaf does not have."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [*policy.dns_names, *policy.ip_addresses]
    held = set(names.get_values_for_type(x509.DNSName))
    addresses = set(names.get_values_for_type(x509.IPAddress))
    return [name for name in policy.dns_names if name not in held] + [
        address for address in policy.ip_addresses if ipaddress.ip_address(address) not in addresses
    ]


def unusable(leaf: x509.Certificate | None, problem: str, bundle: Bundle, now: datetime) -> str:
    """Why a leaf does not serve a client that trusts ``bundle``; empty when it does."""
    if leaf is None:
        return problem
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        return f"it is good from {at(leaf.not_valid_before_utc)} to {at(leaf.not_valid_after_utc)} only"
    if not any(good(ca, now) and signed_by(leaf, ca) for ca in bundle):
        return "no trusted authority signed it"
    return ""


def still_good(bundle: Bundle, now: datetime) -> Bundle:
    """Those of a bundle that are authorities and in their time."""
    return frozenset(ca for ca in bundle if good(ca, now))


def good(ca: x509.Certificate, now: datetime) -> bool:
    """Whether it is an authority and in its time."""
    return is_authority(ca) and ca.not_valid_before_utc <= now < ca.not_valid_after_utc


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def at(instant: datetime) -> str:
    """An instant, for people."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"

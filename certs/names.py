"""The names of a serving certificate: what it holds, what it lacks, what it is accepted for. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Iterable

    Name = str | ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(name: str) -> Name:
    """A name as a certificate holds it: an IP address, or a DNS name as it is."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return name


def is_ip(name: str) -> bool:
    """Whether a name is an IP address."""
    return not isinstance(parsed(name), str)


def lacking(leaf: x509.Certificate, wanted: Iterable[str]) -> list[str]:
    """The wanted DNS names and IP addresses that a leaf does not have."""
    held = _held(leaf)
    return [name for name in wanted if parsed(name) not in held]


def serves(leaf: x509.Certificate, name: str) -> bool:
    """Whether a client that asks for a DNS name accepts a leaf; a ``*`` stands for the first label."""
    return not _held(leaf).isdisjoint({name, f"*.{name.partition('.')[2]}"})


def _held(leaf: x509.Certificate) -> set[object]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *names.get_values_for_type(x509.IPAddress)}

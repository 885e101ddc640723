"""What a decision is made from: what is wanted, what is stored, the time, and what replicas serve."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from certs.authority import signed_by
from certs.checks import refused, still_good

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography import x509

    from certs.observed import Bundle, ServingSecret, Stored


@dataclass(frozen=True, slots=True)
class Policy:
    """What is wanted.

    Attributes:
        dns_names: The leaf's DNS names.
        ip_addresses: Its IP addresses.
        leaf_lifetime: How long a leaf is good.
        authority_lifetime: How long an authority is good.
        settle: How long a stored change takes at most to reach everybody: a caBundle the API servers
            (which watch it: moments), a Secret the pods that mount it. The kubelet's documentation says
            "kubelet sync period + cache propagation delay" for the latter: about two minutes with the
            defaults.
    """

    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...] = ()
    leaf_lifetime: timedelta = timedelta(days=90)
    authority_lifetime: timedelta = timedelta(days=1825)
    settle: timedelta = timedelta(minutes=5)

    @property
    def least_life(self) -> timedelta:
        """What a leaf must have left to be worth serving: a replacement and late passes fit in."""
        return 12 * self.settle

    def __post_init__(self) -> None:
        """Refuse lifetimes in which a rotation does not fit.

        Raises:
            ValueError: A leaf that outlives its authority, or a third of a lifetime, which is what is left
                when its renewal begins, that is shorter than four settling times.
        """
        if self.leaf_lifetime > self.authority_lifetime:
            raise ValueError(
                f"a leaf ({self.leaf_lifetime}) cannot outlive its authority ({self.authority_lifetime})"
            )
        if self.leaf_lifetime < self.least_life:
            raise ValueError(
                f"a leaf of {self.leaf_lifetime} is shorter than twelve settling times ({self.settle})"
            )


@dataclass(frozen=True, slots=True)
class Force:
    """What a person wants replaced before its time, by what it was when they said so.

    So a retry after a lost race, or the second of two that say the same, does not replace it twice.

    Attributes:
        authority: The authority that is not to sign any longer.
        leaf: The leaf that is not to be served any longer.
    """

    authority: x509.Certificate | None = None
    leaf: x509.Certificate | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a decision looks at.

    Attributes:
        stored: What is stored.
        policy: What is wanted.
        now: The time.
        force: What is to be replaced early.
        replicas: The leaves that replicas are seen to serve, by address; None when nobody asked.
    """

    stored: Stored
    policy: Policy
    now: datetime
    force: Force = Force()
    replicas: Mapping[str, x509.Certificate] | None = None

    @property
    def signer(self) -> x509.Certificate:
        """The signing authority; only rows behind the first may ask."""
        pair = self.stored.authority.pair
        if pair is None:
            raise LookupError("there is no authority")
        return pair.certificate

    @property
    def bundle(self) -> Bundle:
        """The authorities that are to be trusted now."""
        return self.stored.authority.bundle

    @property
    def provided(self) -> ServingSecret | None:
        """The provided certificate, where there is one and it can be served: then it is what is served."""
        found = self.stored.provided
        return None if found.raw is None or refused(found, self.policy, self.now) else found

    @property
    def anchors(self) -> Bundle:
        """The authorities that the wanted leaf needs: all that stay trusted when a change is complete."""
        provided = self.provided
        return still_good(provided.bundle, self.now) if provided else frozenset({self.signer})

    @property
    def moved(self) -> bool:
        """Whether the stored leaf is the provided one, or the signing authority's where none is provided."""
        serving, provided = self.stored.serving, self.provided
        if provided:
            return serving.chain == provided.chain
        return serving.leaf is not None and signed_by(serving.leaf, self.signer)

"""The inputs of a decision: settings, stored objects, the time, and the leaves that replicas serve.

Also predicates on single certificates and bundles, for decisions and reports. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from certs import messages
from certs.authority import BACKDATE, Pair, in_time, is_authority, serves, signed_by, span
from certs.objects import Bundle, Hook, PairSecret


@dataclass(frozen=True, slots=True)
class Wanted:
    """The certificates that the user wants.

    Attributes:
        names: The leaf's DNS names and IP addresses; the API server uses the first one.
        leaf_lifetime: The lifetime of a leaf.
        authority_lifetime: The lifetime of an authority.
        settle: The settling time: the longest time until a stored change has arrived everywhere. A caBundle
            reaches the API servers, which watch it, in moments; a Secret reaches the pods that mount it after
            "kubelet sync period + cache propagation delay" (the kubelet's documentation), about two minutes.
    """

    names: tuple[str, ...]
    leaf_lifetime: timedelta = timedelta(days=90)
    authority_lifetime: timedelta = timedelta(days=1825)
    settle: timedelta = timedelta(minutes=5)

    @property
    def least_life(self) -> timedelta:
        """Minimum remaining lifetime of a leaf that is served: enough for a replacement and late passes."""
        return 12 * self.settle

    def __post_init__(self) -> None:
        """Checks that a rotation fits into the lifetimes.

        Raises:
            ValueError: A leaf outlives its authority, or the third of its lifetime that is left when its
                renewal begins is shorter than four settling times.
        """
        if self.leaf_lifetime > self.authority_lifetime:
            raise ValueError(messages.outlives(self.leaf_lifetime, self.authority_lifetime))
        if self.leaf_lifetime < self.least_life:
            raise ValueError(messages.short_leaf(self.leaf_lifetime, self.settle))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision.

    Attributes:
        authority: The Secret with the authority's key, which serving pods do not mount; its bundle has all
            authorities that clients should trust.
        serving: The Secret that serving pods mount.
        provided: The Secret with a provided certificate, which is only read.
        hooks: The webhook configurations.
        wanted: The certificates that the settings describe.
        now: The time.
        forced: The authority or leaf that the user wants replaced. It is named by its certificate, so that a
            retry after a lost race, or a second equal request, does not replace its successor.
        replicas: The leaves that replicas serve, by address; None if they were not read.
    """

    authority: PairSecret
    serving: PairSecret
    provided: PairSecret
    hooks: tuple[Hook, ...]
    wanted: Wanted
    now: datetime
    forced: Bundle = frozenset()
    replicas: Mapping[str, x509.Certificate] | None = None

    @property
    def signer(self) -> Pair:
        """The signing authority, which exists in all rows after the first."""
        if self.authority.pair is None:
            raise LookupError("there is no authority")
        return self.authority.pair

    @property
    def bundle(self) -> Bundle:
        """The authorities that clients should trust now."""
        return self.authority.bundle

    @property
    def why_not_served(self) -> str:
        """Why the provided certificate is not served; empty if it is served, or if there is none."""
        pair = self.provided.pair
        if pair is None:
            return self.provided.problem if self.provided.raw is not None else ""
        if not self.provided.bundle:
            return messages.NO_CA_FILE
        if why := why_refused(self.provided, self.provided.bundle, self.now):
            return why
        leaf, wanted = pair.certificate, self.wanted
        if not serves(leaf, wanted.names[0]):
            return messages.lacks_name(wanted.names[0])
        if self.now >= last_served(leaf, wanted):
            return messages.ends_soon(leaf.not_valid_after_utc, wanted.least_life)
        return ""

    @property
    def serves_provided(self) -> bool:
        """Whether a provided certificate is served."""
        return self.provided.pair is not None and not self.why_not_served

    @property
    def anchors(self) -> Bundle:
        """The authorities of the wanted leaf: only these stay trusted when a replacement is complete."""
        if self.serves_provided:
            return still_valid(self.provided.bundle, self.now)
        return frozenset({self.signer.certificate})

    @property
    def has_wanted_issuer(self) -> bool:
        """Whether the stored leaf is the provided one or, if none is provided, the signing authority's."""
        if self.serves_provided:
            return self.serving.pair == self.provided.pair
        leaf = self.serving.certificate
        return leaf is not None and signed_by(leaf, self.signer.certificate)

    @property
    def missing_hooks(self) -> list[str]:
        """The webhook configurations that do not exist."""
        return [f"{hook.kind} {hook.name}" for hook in self.hooks if hook.raw is None]

    @property
    def notes(self) -> list[str]:
        """Notes without full stops: missing webhook configurations, and why a provided leaf is not served."""
        notes = [*map(messages.no_hook, self.missing_hooks)]
        return notes + [messages.not_served(why) for why in [self.why_not_served] if why]


def renewal(certificate: x509.Certificate) -> datetime:
    """Returns the renewal time of a certificate: the end of the first two thirds of its lifetime.

    The lifetime is counted from the certificate's creation, not from notBefore; it may be a few minutes.
    """
    end = certificate.not_valid_after_utc
    begin = min(certificate.not_valid_before_utc + BACKDATE, end)
    return begin + (end - begin) * 2 / 3


def why_refused(serving: PairSecret, bundle: Bundle, now: datetime) -> str:
    """Returns why a client that trusts ``bundle`` refuses a Secret's leaf; empty if the client accepts it."""
    if serving.pair is None:
        return serving.problem
    leaf = serving.pair.certificate
    if not in_time(leaf, now):
        return messages.not_valid(span(leaf))
    if not verifies(leaf, serving.pair.intermediates, bundle, now):
        return messages.NOT_SIGNED
    return ""


def last_served(leaf: x509.Certificate, wanted: Wanted) -> datetime:
    """Returns the end of the time in which a provided leaf is served: early enough to replace the leaf."""
    return leaf.not_valid_after_utc - wanted.least_life


def verifies(
    leaf: x509.Certificate, intermediates: Iterable[x509.Certificate], bundle: Bundle, now: datetime
) -> bool:
    """Returns whether an authority of ``bundle`` signed the leaf, directly or through intermediates."""
    between = [ca for ca in intermediates if is_valid(ca, now)]
    roots = still_valid(bundle, now)
    tips = [leaf]
    while tips:
        tip = tips.pop()
        if any(signed_by(tip, ca) for ca in roots):
            return True
        tips += [ca for ca in between if signed_by(tip, ca)]
        between = [ca for ca in between if ca not in tips]
    return False


def still_valid(bundle: Bundle, now: datetime) -> Bundle:
    """Returns the certificates of a bundle that are valid authorities now."""
    return frozenset(ca for ca in bundle if is_valid(ca, now))


def is_valid(ca: x509.Certificate, now: datetime) -> bool:
    """Returns whether a certificate is a valid authority now."""
    return is_authority(ca) and in_time(ca, now)

"""The inputs of a decision: settings, stored objects, the time, and the leaves that replicas serve. Pure.

The functions examine certificates and bundles, for decisions and reports.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from certs import messages
from certs.authority import BACKDATE, Pair, has_name, is_authority, is_signed_by, is_valid_at, validity_text
from certs.objects import Bundle, Hook, PairSecret


@dataclass(frozen=True, slots=True)
class Wanted:
    """The certificates that the user wants."""

    # The leaf's DNS names and IP addresses. The API server uses the first name.
    names: tuple[str, ...]
    leaf_lifetime: timedelta = timedelta(days=90)  # the lifetime of a leaf
    authority_lifetime: timedelta = timedelta(days=1825)  # the lifetime of an authority
    # The settling time: the longest time until a stored change has arrived everywhere. API servers watch the
    # caBundle, so it reaches them in moments. A Secret reaches the pods that mount it after "kubelet sync
    # period + cache propagation delay" (the kubelet's documentation), about two minutes.
    settle: timedelta = timedelta(minutes=5)

    @property
    def min_remaining_life(self) -> timedelta:
        """The minimum lifetime of a leaf, and the minimum remaining life of a served provided leaf."""
        return 12 * self.settle

    def __post_init__(self) -> None:
        """Checks that a rotation fits into the lifetimes.

        Raises:
            ValueError: A leaf would outlive its authority, or the last third of its lifetime, in which it is
                renewed, is shorter than four settling times.
        """
        if self.leaf_lifetime > self.authority_lifetime:
            raise ValueError(messages.outlives(self.leaf_lifetime, self.authority_lifetime))
        if self.leaf_lifetime < self.min_remaining_life:
            raise ValueError(messages.short_leaf(self.leaf_lifetime, self.settle))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision."""

    # The Secret with the authority's key, which serving pods do not mount. Its bundle has all authorities
    # that clients should trust.
    authority: PairSecret
    serving: PairSecret  # the Secret that serving pods mount
    provided: PairSecret  # the Secret with a provided certificate, which this program never writes
    hooks: tuple[Hook, ...]  # the webhook configurations
    wanted: Wanted  # the certificates that the settings describe
    now: datetime  # the time of the decision, with a time zone
    # The certificates that the user wants to replace. If another replica has already replaced a certificate,
    # its successor is not replaced.
    forced_certificates: Bundle = frozenset()
    # The leaves that replicas serve, by address; None if they were not read.
    replica_leaves: Mapping[str, x509.Certificate] | None = None

    @property
    def signer(self) -> Pair:
        """The signing authority; raises `LookupError` if there is none, which `decide` checks first."""
        if self.authority.pair is None:
            raise LookupError("there is no authority")
        return self.authority.pair

    @property
    def bundle(self) -> Bundle:
        """The authorities that clients should trust now."""
        return self.authority.bundle

    @property
    def why_not_served(self) -> str:
        """Why the provided certificate cannot be served; empty if it can be served, or does not exist."""
        pair = self.provided.pair
        if pair is None:
            return self.provided.problem if self.provided.raw is not None else ""
        if not self.provided.bundle:
            return messages.NO_CA_FILE
        if why := why_refused(self.provided, self.provided.bundle, self.now):
            return why
        leaf, wanted = pair.certificate, self.wanted
        if not has_name(leaf, wanted.names[0]):
            return messages.lacks_name(wanted.names[0])
        if self.now >= serving_end(leaf, wanted):
            return messages.ends_soon(leaf.not_valid_after_utc, wanted.min_remaining_life)
        return ""

    @property
    def serves_provided(self) -> bool:
        """Whether the wanted leaf is the provided certificate: it exists and can be served."""
        return self.provided.pair is not None and not self.why_not_served

    @property
    def anchors(self) -> Bundle:
        """The authorities of the wanted leaf. Only these stay trusted when a replacement is complete."""
        if self.serves_provided:
            return valid_authorities(self.provided.bundle, self.now)
        return frozenset({self.signer.certificate})

    @property
    def has_wanted_issuer(self) -> bool:
        """Whether the stored leaf is the provided leaf or, if that cannot be served, a leaf of `signer`."""
        if self.serves_provided:
            return self.serving.pair == self.provided.pair
        leaf = self.serving.certificate
        return leaf is not None and is_signed_by(leaf, self.signer.certificate)

    @property
    def missing_hooks(self) -> list[str]:
        """The webhook configurations that do not exist."""
        return [f"{hook.kind} {hook.name}" for hook in self.hooks if hook.raw is None]

    @property
    def notes(self) -> list[str]:
        """Notes without full stops: missing webhook configurations; why a provided leaf cannot be served."""
        notes = [*map(messages.no_hook, self.missing_hooks)]
        return notes + [messages.not_served(why) for why in [self.why_not_served] if why]


def renewal_time(certificate: x509.Certificate) -> datetime:
    """Returns the renewal time of a certificate: the end of the first two thirds of its lifetime.

    The lifetime begins with the certificate's creation, which is `BACKDATE` after its notBefore.
    """
    end = certificate.not_valid_after_utc
    begin = min(certificate.not_valid_before_utc + BACKDATE, end)
    return begin + (end - begin) * 2 / 3


def why_refused(secret: PairSecret, bundle: Bundle, now: datetime) -> str:
    """Returns why a client that trusts ``bundle`` refuses a Secret's leaf; empty if it accepts the leaf.

    The names in the leaf are not checked.
    """
    if secret.pair is None:
        return secret.problem
    leaf = secret.pair.certificate
    if not is_valid_at(leaf, now):
        return messages.not_valid(validity_text(leaf))
    if not is_verified_by(leaf, secret.pair.intermediates, bundle, now):
        return messages.NOT_SIGNED
    return ""


def serving_end(leaf: x509.Certificate, wanted: Wanted) -> datetime:
    """Returns the time until which a provided leaf is served. In the rest of its life, it is replaced."""
    return leaf.not_valid_after_utc - wanted.min_remaining_life


def is_verified_by(
    leaf: x509.Certificate, intermediates: Iterable[x509.Certificate], bundle: Bundle, now: datetime
) -> bool:
    """Returns whether valid authorities of ``bundle`` signed the leaf, directly or by valid intermediates."""
    unused = [ca for ca in intermediates if is_valid_authority(ca, now)]
    roots = valid_authorities(bundle, now)
    chain_ends = [leaf]
    while chain_ends:
        end = chain_ends.pop()
        if any(is_signed_by(end, ca) for ca in roots):
            return True
        chain_ends += [ca for ca in unused if is_signed_by(end, ca)]
        unused = [ca for ca in unused if ca not in chain_ends]
    return False


def valid_authorities(bundle: Bundle, now: datetime) -> Bundle:
    """Returns the certificates of a bundle that are valid authorities now."""
    return frozenset(ca for ca in bundle if is_valid_authority(ca, now))


def is_valid_authority(ca: x509.Certificate, now: datetime) -> bool:
    """Returns whether a certificate is a CA, has begun and has not ended."""
    return is_authority(ca) and is_valid_at(ca, now)

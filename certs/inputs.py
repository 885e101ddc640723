"""What a decision is made from: what is wanted, what is stored, the time, and what replicas serve.

And questions about single certificates and bundles, which decisions and reports ask. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from certs.authority import BACKDATE, Pair, in_time, is_authority, serves, signed_by, span
from certs.objects import Bundle, Hook, PairSecret
from common.times import stamp


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted.

    Attributes:
        names: The leaf's DNS names and IP addresses; by the first one the API server asks for it.
        leaf_lifetime: How long a leaf is good.
        authority_lifetime: How long an authority is good.
        settle: How long a stored change takes at most to reach everybody: a caBundle the API servers
            (which watch it: moments), a Secret the pods that mount it. The kubelet's documentation says
            "kubelet sync period + cache propagation delay" for the latter: about two minutes with the
            defaults.
    """

    names: tuple[str, ...]
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
class Inputs:
    """All that a decision looks at.

    Attributes:
        authority: The Secret with the authority's key, which serving pods do not mount; its bundle is of
            all authorities that are to be trusted.
        serving: The Secret that serving pods mount.
        provided: The Secret with a certificate from elsewhere, which is only read.
        hooks: The webhook configurations.
        wanted: What is wanted.
        now: The time.
        forced: The authority that is not to sign, or the leaf that is not to be served, any longer, as a
            person said while they were. So a retry after a lost race, or the second of two that say the
            same, replaces nothing twice.
        replicas: The leaves that replicas are seen to serve, by address; None when nobody asked.
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
        """The signing authority; only rows behind the first may ask."""
        if self.authority.pair is None:
            raise LookupError("there is no authority")
        return self.authority.pair

    @property
    def bundle(self) -> Bundle:
        """The authorities that are to be trusted now."""
        return self.authority.bundle

    @property
    def refused(self) -> str:
        """Why the provided certificate is not served; empty when it is, or when there is none."""
        pair = self.provided.pair
        if pair is None:
            return self.provided.problem if self.provided.raw is not None else ""
        if not self.provided.bundle:
            return "its ca.crt is missing or cannot be read"
        if why := unusable(self.provided, self.provided.bundle, self.now):
            return why
        leaf, wanted = pair.certificate, self.wanted
        if not serves(leaf, wanted.names[0]):
            return f"it lacks the name {wanted.names[0]}"
        if self.now >= last_served(leaf, wanted):
            return f"it ends at {stamp(leaf.not_valid_after_utc)}, in less than {wanted.least_life}"
        return ""

    @property
    def takes(self) -> bool:
        """Whether there is a provided certificate that can be served: then it is what is served."""
        return self.provided.pair is not None and not self.refused

    @property
    def anchors(self) -> Bundle:
        """The authorities that the wanted leaf needs: all that stay trusted when a change is complete."""
        if self.takes:
            return still_good(self.provided.bundle, self.now)
        return frozenset({self.signer.certificate})

    @property
    def moved(self) -> bool:
        """Whether the stored leaf is the provided one, or the signing authority's where none is provided."""
        if self.takes:
            return self.serving.pair == self.provided.pair
        leaf = self.serving.certificate
        return leaf is not None and signed_by(leaf, self.signer.certificate)

    @property
    def missing(self) -> list[str]:
        """The webhook configurations that do not exist."""
        return [f"{hook.kind} {hook.name}" for hook in self.hooks if hook.raw is None]


def renewal(certificate: x509.Certificate) -> datetime:
    """When a certificate reaches its renewal time: after two thirds of its lifetime.

    Its life begins when it was made, not `BACKDATE` earlier: lifetimes of minutes count from there.
    """
    end = certificate.not_valid_after_utc
    begin = min(certificate.not_valid_before_utc + BACKDATE, end)
    return begin + (end - begin) * 2 / 3


def unusable(serving: PairSecret, bundle: Bundle, now: datetime) -> str:
    """Why a Secret's leaf does not serve a client that trusts ``bundle``; empty when it does."""
    if serving.pair is None:
        return serving.problem
    leaf = serving.pair.certificate
    if not in_time(leaf, now):
        return f"it is {span(leaf)} only"
    if not verifies(leaf, serving.pair.intermediates, bundle, now):
        return "no trusted authority signed it"
    return ""


def last_served(leaf: x509.Certificate, wanted: Wanted) -> datetime:
    """Until when a provided leaf is served: so long before its end that another one can take over in time."""
    return leaf.not_valid_after_utc - wanted.least_life


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

"""The texts that the certificate program shows to people.

A text with values is a function, mostly the ``format`` of a template. The code of a reason is the kind of its
step (`certs.decide.Action`). The codes are in the log, in ``status`` and in the metric ``steps``.
docs/reference.md lists the codes.
"""

from datetime import datetime, timedelta
from typing import Final

_TIME: Final = "{:%Y-%m-%dT%H:%M:%SZ}"
_MINUTE: Final = "{:%Y-%m-%d %H:%M} UTC"

# ---- Why a step is due -------------------------------------------------------------------------------------

NOT_A_CA: Final = "the certificate in the authority's Secret is not a CA"
NEW_CA_REQUESTED: Final = "a new authority was requested"
NEW_LEAF_REQUESTED: Final = "a new leaf was requested"
BUNDLE_LACKS_CA: Final = "the bundle lacks the authority of the leaf that is to be served"
BUNDLE_HAS_INVALID_CA: Final = "a certificate in the bundle is not valid now, or is not a CA"
TRUST_LOST: Final = "a caBundle does not hold the new authority"
NOT_PUBLISHED: Final = "ca.crt of the serving Secret is not the bundle"
IN_EVERY_BUNDLE: Final = "every caBundle holds the new authority"
TRUSTED: Final = "the new authority is trusted everywhere"
NOT_TRUSTED_YET: Final = "some API servers may not trust the new authority yet"
PODS_RECEIVE_LEAF: Final = "pods are receiving the new authority's leaf"
EVERY_REPLICA: Final = "every replica that answers serves the new authority's leaf"
NOTHING_TO_DO: Final = "nothing to do"
ca_not_valid: Final = "the authority is only {}".format
no_ca: Final = "no authority can sign: {}".format
ca_due: Final = f"the authority reached its renewal time at {_TIME}".format
no_leaf: Final = "no leaf to serve: {}".format
leaf_due: Final = f"the leaf reached its renewal time at {_TIME}".format
leaf_ends_early: Final = f"the leaf ends at {_TIME}, before the settling time ends".format
leaf_lacks: Final = "the leaf lacks the name {}".format
stale: Final = "the caBundle is stale in {}".format
still_served: Final = "the old authority stays trusted: its leaf is still served by {}".format
valid: Final = f"valid from {_TIME} to {_TIME}".format

# ---- Why a Secret cannot be used ---------------------------------------------------------------------------

MISSING: Final = "the Secret does not exist"
OTHER_KEY: Final = "its private key does not belong to its certificate"
WRONG_KEY: Final = "its private key is not ECDSA on P-256"
NO_CA_FILE: Final = "its ca.crt is missing or cannot be read"
NOT_SIGNED: Final = "no trusted authority signed it"
unreadable: Final = "its certificate or key cannot be read: {}".format
not_valid: Final = "it is only {}".format
lacks_name: Final = "it lacks the name {}".format
ends_soon: Final = f"it ends at {_TIME}, in less than {{}}".format

# ---- Notes and problems of `status` ------------------------------------------------------------------------

no_hook: Final = "there is no webhook configuration {} yet".format
not_served: Final = "the provided certificate is not served: {}".format
bundle_lacks_ca: Final = "the caBundle of the {} webhook configuration {} lacks the leaf's authority".format

# ---- The report of `status` --------------------------------------------------------------------------------

nothing_until: Final = f"next       nothing until {_MINUTE}".format
next_step: Final = "next       {}: {}".format


def source(*, provided: bool) -> str:
    return f"source     {'the provided certificate' if provided else 'this program'}"


def certificate(kind: str, end: datetime, due: datetime | None, now: datetime) -> str:
    remaining = f"{_duration_text(end - now)} left" if end > now else "expired"
    renewal = due and f", renewed from {_MINUTE.format(due)}"
    return f"{kind:<10} valid until {_MINUTE.format(end)} ({remaining}){renewal or ''}"


def _duration_text(duration: timedelta) -> str:
    hours = duration.total_seconds() / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.1f} hours"  # noqa: PLR2004 - two days


def older_cas(count: int) -> str:
    return f"bundle     {count} older authorit{'y' if count == 1 else 'ies'} also trusted"


def hook(kind: str, name: str, *, exists: bool, has_bundle: bool) -> str:
    state = "has the bundle" if has_bundle else "has another caBundle" if exists else "is missing"
    return f"{kind:<10} {name} {state}"


def replica(address: str, *, is_stored: bool, is_old: bool) -> str:
    leaf = "the stored leaf" if is_stored else "another leaf"
    return f"replica    {address} serves {leaf}{', of another authority' if is_old else ''}"


# ---- Lines and errors of the commands ----------------------------------------------------------------------

STOPPED: Final = "stopped"
SAME_SECRETS: Final = (
    "--secret, --ca-secret and --provided-secret must differ: serving pods must not see the authority's key, "
    "and the provided Secret is never written"
)
NO_NAMES: Final = "a serving certificate needs at least one name, and no name may be empty"
step: Final = "{}: {}".format
note: Final = "note: {}".format
wrong: Final = "wrong: {}".format
error: Final = "error: {}".format
pass_failed: Final = "a pass failed: {}".format
many_steps: Final = (
    "after {} steps there is still something to do, last: {} ({}); does another program write to the same "
    "objects?"
).format
made: Final = f"made {{}}; valid until {_MINUTE}".format
from_elsewhere: Final = "the certificate comes from the Secret {}: replace it there".format
not_complete: Final = "not complete after {:g} s".format
malformed_name: Final = "a name of the certificate is malformed: {}".format
outlives: Final = "a leaf ({}) cannot outlive its authority ({})".format
short_leaf: Final = "a leaf of {} is shorter than twelve settling times of {}".format

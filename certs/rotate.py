"""One pass: read, decide, do one step, and again, until nothing is left to do now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography.x509 import Certificate

from certs import objects
from certs.authority import Pair, issue, new_authority
from certs.decide import Action, NextStep, decide
from certs.inputs import Inputs, Wanted
from certs.objects import Bundle, PairSecret, bundle_pem, file, read_hook, read_secret
from certs.replicas import addresses, served
from contract.keys import STORED_AT, TRUSTED_SINCE
from kube.api import ApiError, ConflictError
from kube.rest import RestApi

MOST_STEPS = 40
"""Of one pass. A whole rotation is eight; more means that somebody undoes what this program does."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where certificates are kept and who has to trust them.

    Attributes:
        namespace: Of the Secrets and the Service.
        service: The Service that the API server calls.
        secret: The Secret that serving pods mount.
        authority_secret: The Secret with the authority's key, which they do not.
        provided_secret: The Secret with a certificate from elsewhere, which is served while it exists.
        hooks: Webhook configurations, as kind (``mutating`` or ``validating``) and name.
    """

    namespace: str
    service: str
    secret: str
    authority_secret: str
    provided_secret: str
    hooks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did.

    Attributes:
        steps: The steps taken, in order.
        last: Why there was no further one.
        stored: What is stored now.
        conflicts: How often somebody else wrote first.
    """

    steps: tuple[NextStep, ...]
    last: NextStep
    stored: Inputs
    conflicts: int

    def notes(self) -> list[str]:
        """What a person should know besides, as sentences without their ends."""
        said = [f"there is no webhook configuration {name} yet" for name in self.stored.missing]
        if why := self.stored.refused:
            said.append(f"the provided certificate is not served: {why}")
        return said


@dataclass(slots=True)
class Rotator:
    """Does passes for one target. It raises `ApiError` where something cannot be read or written.

    Attributes:
        api: The API server.
        target: Where.
        wanted: What is wanted.
        clock: Tells the time, with a time zone.
        say: Told each step when it is done, and why it was.
    """

    api: RestApi
    target: Target
    wanted: Wanted
    clock: Callable[[], datetime]
    say: Callable[[NextStep], object] = field(default=lambda _: None)

    def read(self, forced: Bundle = frozenset()) -> Inputs:
        """Read what is stored.

        The webhook configurations first, the authority last. So whoever is about to write to the former
        by their version knows an authority that is not older than they are, and cannot undo what another
        rotator, who knew a newer one, has published meanwhile.
        """
        target = self.target
        hooks = tuple(
            read_hook(kind, name, self.api.get(objects.webhook_configuration(kind, name)))
            for kind, name in target.hooks
        )
        serving = self._secret(target.secret, STORED_AT)
        provided = self._secret(target.provided_secret, STORED_AT)
        authority = self._secret(target.authority_secret, TRUSTED_SINCE, signs=True)
        return Inputs(authority, serving, provided, hooks, self.wanted, self.clock(), forced)

    def next(self, stored: Inputs) -> NextStep:
        """Decide; before an old authority goes, look at what replicas serve."""
        decision = decide(stored)
        if decision.action is Action.BUNDLE and stored.bundle > decision.bundle:
            decision = decide(replace(stored, replicas=self.replicas()))
        return decision

    def replicas(self) -> dict[str, Certificate]:
        """The leaf that each replica serves, by address."""
        slices = self.api.get(objects.endpoint_slices(self.target.namespace, self.target.service))
        return served(addresses(slices))

    def run(self, *, authority: bool = False, leaf: bool = False) -> PassResult:
        """Do one pass; on request replace the authority that signs now, or the stored leaf, even if good.

        Raises:
            ApiError: A step failed; the ones before it are done, and the next pass goes on from there.
            CertificateError: A certificate cannot be made as wanted.
        """
        stored = self.read()
        given = [*([stored.authority] if authority else []), *([stored.serving] if leaf else [])]
        forced = frozenset(held.certificate for held in given if held.certificate)
        stored = replace(stored, forced=forced)
        steps: list[NextStep] = []
        conflicts = 0
        for _ in range(MOST_STEPS):
            decision = self.next(stored)
            if decision.action in {Action.KEEP, Action.WAIT}:
                return PassResult(tuple(steps), decision, stored, conflicts)
            try:
                self._do(decision, stored)
            except ConflictError:
                conflicts += 1
            else:
                steps.append(decision)
                self.say(decision)
            stored = self.read(forced)
        raise ApiError(
            f"after {MOST_STEPS} steps there is still something to do, last: {decision.action.value} "
            f"({decision.why}); does another program write to the same objects?"
        )

    def _do(self, decision: NextStep, stored: Inputs) -> None:
        now, wanted = self.clock(), self.wanted
        ca = {"ca.crt": bundle_pem(stored.bundle)}
        match decision.action:
            case Action.NEW_AUTHORITY:
                pair = new_authority(now, wanted.authority_lifetime)
                ca = {"ca.crt": bundle_pem(decision.bundle | {pair.certificate})}
                self._write(stored.authority, _files(pair) | ca, {TRUSTED_SINCE: None})
            case Action.BUNDLE:
                # Whoever joins has to become known first.
                notes = {} if decision.bundle <= stored.bundle else {TRUSTED_SINCE: None}
                self._write(stored.authority, {"ca.crt": bundle_pem(decision.bundle)}, notes)
            case Action.FORGET:
                self._write(stored.authority, {}, {TRUSTED_SINCE: None})
            case Action.NOTE:
                self._write(stored.authority, {}, {TRUSTED_SINCE: now})
            case Action.TRUST:
                self._trust(stored)
            case Action.PUBLISH:
                self._write(stored.serving, ca, {})
            case Action.ISSUE:
                pair = issue(stored.signer, now, wanted.leaf_lifetime, wanted.names)
                self._write(stored.serving, _files(pair) | ca, {STORED_AT: now})
            case Action.TAKE:  # byte for byte
                raw = stored.provided.raw or {}
                files = {key: file(raw, key) for key in ("tls.crt", "tls.key")}
                self._write(stored.serving, files | ca, {STORED_AT: now})

    def _trust(self, stored: Inputs) -> None:
        for hook in stored.hooks:
            if any(held != stored.bundle for held in hook.bundles):
                path = objects.webhook_configuration(hook.kind, hook.name)
                self.api.patch(path, objects.trust_patch(hook, stored.bundle))

    def _write(self, held: PairSecret, files: dict[str, bytes], notes: Mapping[str, datetime | None]) -> None:
        """Write a Secret as it was last seen; one that was not there is made."""
        collection, document = objects.secrets(self.target.namespace), objects.secret(held, files, notes)
        if held.raw is None:
            self.api.create(collection, document)
        else:
            self.api.replace(f"{collection}/{held.name}", document)

    def _secret(self, name: str, note: str, *, signs: bool = False) -> PairSecret:
        raw = self.api.get(f"{objects.secrets(self.target.namespace)}/{name}")
        return read_secret(name, raw, note, signs=signs)


def _files(pair: Pair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem(), "tls.key": pair.key_pem()}

"""One pass: read, decide, do one step, and again, until nothing is left to do now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from certs import authority, objects
from certs.decide import Action, Decision, decide
from certs.inputs import Inputs, refused
from certs.observed import Stored, read_authority, read_hook, read_serving
from certs.replicas import Address, addresses, served
from kube.api import ApiError, ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from cryptography.x509 import Certificate

    from certs.inputs import Policy
    from certs.observed import Bundle
    from kube.api import Api, Object

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
        replicas: Addresses to ask besides the Service's endpoints, for servers outside the cluster.
    """

    namespace: str
    service: str
    secret: str
    authority_secret: str
    provided_secret: str
    hooks: tuple[tuple[str, str], ...] = ()
    replicas: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did.

    Attributes:
        steps: The steps taken, in order.
        last: Why there was no further one.
        stored: What is stored now.
        conflicts: How often somebody else wrote first.
        missing: Webhook configurations that do not exist.
        refused: Why the provided certificate is not served; empty when it is, or when there is none.
    """

    steps: tuple[Decision, ...]
    last: Decision
    stored: Stored
    conflicts: int
    missing: tuple[str, ...]
    refused: str

    def notes(self) -> list[str]:
        """What a person should know besides, as sentences without their ends."""
        said = [f"there is no webhook configuration {name} yet" for name in self.missing]
        if self.refused:
            said.append(f"the provided certificate is not served: {self.refused}")
        return said


@dataclass(slots=True)
class Rotator:
    """Does passes for one target.

    Attributes:
        api: The API server.
        target: Where.
        policy: What is wanted.
        clock: Tells the time, with a time zone.
        say: Told each step when it is done, and why it was.
    """

    api: Api
    target: Target
    policy: Policy
    clock: Callable[[], datetime]
    say: Callable[[Decision], object] = field(default=lambda _: None)

    def read(self) -> Stored:
        """Read what is stored.

        The webhook configurations first, the authority last. So whoever is about to write to the former
        by their version knows an authority that is not older than they are, and cannot undo what another
        rotator, who knew a newer one, has published meanwhile.

        Raises:
            ApiError: Something cannot be read.
        """
        hooks = tuple(
            read_hook(kind, name, self.api.get(objects.webhook_configuration(kind, name)))
            for kind, name in self.target.hooks
        )
        serving = read_serving(self._secret(self.target.secret))
        provided = read_serving(self._secret(self.target.provided_secret))
        return Stored(read_authority(self._secret(self.target.authority_secret)), serving, hooks, provided)

    def served_from(self) -> str:
        """The name of the Secret with the certificate from elsewhere that is to be served; empty without one.

        Raises:
            ApiError: Something cannot be read.
        """
        inputs = Inputs(self.read(), self.policy, self.clock())
        return self.target.provided_secret if inputs.provided else ""

    def next(self, stored: Stored, forced: Bundle = frozenset()) -> Decision:
        """Decide; before an old authority goes, the replicas are asked.

        Raises:
            ApiError: The replicas' addresses cannot be read.
        """
        inputs = Inputs(stored, self.policy, self.clock(), forced)
        decision = decide(inputs)
        if decision.action is Action.BUNDLE and stored.authority.bundle > decision.bundle:
            decision = decide(replace(inputs, replicas=self.replicas()))
        return decision

    def replicas(self) -> dict[str, Certificate]:
        """The leaf that each replica serves, by address.

        Raises:
            ApiError: Their addresses cannot be read.
        """
        slices = self.api.get(objects.endpoint_slices(self.target.namespace, self.target.service))
        return served([*self.target.replicas, *addresses(slices)], self.policy.names[0])

    def run(self, *, authority: bool = False, leaf: bool = False) -> PassResult:
        """Do one pass.

        Args:
            authority: Replace the authority that signs now, even if it is good.
            leaf: Replace the leaf that is stored now, even if it is good.

        Raises:
            ApiError: A step failed; the ones before it are done, and the next pass goes on from there.
            CertificateError: A certificate cannot be made as wanted.
        """
        stored = self.read()
        signer, served = stored.authority.pair, stored.serving.leaf
        given = (signer.certificate if authority and signer else None, served if leaf else None)
        forced = frozenset(certificate for certificate in given if certificate)
        steps: list[Decision] = []
        conflicts = 0
        for _ in range(MOST_STEPS):
            decision = self.next(stored, forced)
            if decision.action in {Action.KEEP, Action.WAIT}:
                missing = tuple(f"{hook.kind} {hook.name}" for hook in stored.hooks if hook.raw is None)
                why = refused(stored.provided, self.policy, self.clock())
                return PassResult(tuple(steps), decision, stored, conflicts, missing, why)
            try:
                self._do(decision, stored)
            except ConflictError:
                conflicts += 1
            else:
                steps.append(decision)
                self.say(decision)
            stored = self.read()
        raise ApiError(
            f"after {MOST_STEPS} steps there is still something to do, last: {decision.action.value} "
            f"({decision.why}); does somebody else write to the same objects?"
        )

    def _do(self, decision: Decision, stored: Stored) -> None:
        match decision.action:
            case Action.NEW_AUTHORITY:
                self._new_authority(decision, stored)
            case Action.TRUST:
                self._trust(stored)
            case Action.PUBLISH:
                raw = stored.serving.raw or {}
                self._put(raw, objects.with_bundle(raw, self.target.secret, stored.authority.bundle))
            case Action.ISSUE:
                self._issue(stored)
            case Action.TAKE:
                self._take(stored)
            case _:
                self._amend_authority(decision, stored)

    def _new_authority(self, decision: Decision, stored: Stored) -> None:
        pair = authority.new_authority(self.clock(), self.policy.authority_lifetime)
        raw, name = stored.authority.raw, self.target.authority_secret
        bundle = decision.bundle | {pair.certificate}
        self._put(raw, objects.authority_secret(raw, name, pair, bundle, None))

    def _amend_authority(self, decision: Decision, stored: Stored) -> None:
        held = stored.authority
        if held.pair is None:
            raise LookupError(f"{decision.action} without an authority")
        bundle, since = held.bundle, held.trusted_since
        match decision.action:
            case Action.BUNDLE:
                bundle = decision.bundle
                # Whoever joins has to become known first.
                since = since if bundle <= held.bundle else None
            case Action.FORGET:
                since = None
            case _:
                since = self.clock()
        name = self.target.authority_secret
        self._put(held.raw, objects.authority_secret(held.raw, name, held.pair, bundle, since))

    def _trust(self, stored: Stored) -> None:
        wanted = stored.authority.bundle
        for hook in stored.hooks:
            if any(held != wanted for held in hook.bundles):
                path = objects.webhook_configuration(hook.kind, hook.name)
                self.api.patch(path, objects.trust_patch(hook, wanted))

    def _issue(self, stored: Stored) -> None:
        signer = stored.authority.pair
        if signer is None:
            raise LookupError("a leaf without an authority")
        now, policy = self.clock(), self.policy
        leaf = authority.issue(signer, now, policy.leaf_lifetime, policy.names)
        raw = stored.serving.raw
        self._put(raw, objects.serving_secret(raw, self.target.secret, leaf, stored.authority.bundle, now))

    def _take(self, stored: Stored) -> None:
        raw, bundle = stored.serving.raw, stored.authority.bundle
        taken = objects.provided_secret(raw, self.target.secret, stored.provided, bundle, self.clock())
        self._put(raw, taken)

    def _put(self, raw: Object | None, document: Object) -> None:
        """Write a Secret, where it was last seen as ``raw``; one that was not there is made."""
        collection = objects.secrets(self.target.namespace)
        if raw is None:
            self.api.create(collection, document)
        else:
            self.api.replace(f"{collection}/{document['metadata']['name']}", document)

    def _secret(self, name: str) -> Object | None:
        return self.api.get(f"{objects.secrets(self.target.namespace)}/{name}")

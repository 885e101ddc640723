"""Runs passes. A pass reads the stored state and does the next step, again and again until no step is due."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography.x509 import Certificate

from certs import messages, objects
from certs.authority import Pair, issue, new_authority
from certs.decide import Action, NextStep, decide
from certs.inputs import Inputs, Wanted
from certs.objects import Bundle, PairSecret, bundle_pem, file_of, read_hook, read_secret
from certs.replicas import addresses, served_leaves
from contract.keys import STORED_AT, TRUSTED_SINCE
from kube.api import ApiError, ConflictError
from kube.rest import RestApi

MAX_STEPS = 40
"""The maximum number of steps and conflicts in a pass. A rotation has eight steps. If 40 are not enough,
another program probably undoes the steps."""


@dataclass(frozen=True, slots=True)
class Target:
    """The names of the Secrets with certificates, and of the webhook configurations that trust them."""

    namespace: str  # the namespace of the Secrets and the Service
    service: str  # the Service that the API server calls
    secret: str  # the Secret that serving pods mount
    authority_secret: str  # the Secret with the authority's key, not mounted by serving pods
    provided_secret: str  # the Secret with a provided certificate, which is served while it is usable
    # Webhook configurations, as kind (``mutating`` or ``validating``) and name.
    hooks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """The result of a pass."""

    steps: tuple[NextStep, ...]  # the steps that were done, in order
    last: NextStep  # the last decision, to do nothing or to wait, with the reason
    stored: Inputs  # the Secrets and webhook configurations as they were read after the last step
    conflicts: int  # the number of writes that failed because another client wrote first


@dataclass(slots=True)
class Rotator:
    """Runs passes for one target. A pass raises `ApiError` if an object cannot be read or written."""

    api: RestApi  # the API server
    target: Target  # the objects to read and write
    wanted: Wanted  # the certificates that the user wants
    clock: Callable[[], datetime]  # returns the time, with a time zone
    # Called with each step after it is done.
    on_step: Callable[[NextStep], object] = field(default=lambda _: None)

    def read(self, forced_certificates: Bundle = frozenset()) -> Inputs:
        """Returns the stored objects.

        The authority is read last, so it is at least as new as the webhook configurations. The patch of a
        webhook configuration fails if the configuration has changed since it was read. So a rotator with an
        old authority cannot overwrite a newer caBundle.
        """
        target = self.target
        hooks = tuple(
            read_hook(kind, name, self.api.get(objects.webhook_configuration_path(kind, name)))
            for kind, name in target.hooks
        )
        serving = self._secret(target.secret, STORED_AT)
        provided = self._secret(target.provided_secret, STORED_AT)
        authority = self._secret(target.authority_secret, TRUSTED_SINCE, is_ca=True)
        return Inputs(authority, serving, provided, hooks, self.wanted, self.clock(), forced_certificates)

    def next_step(self, stored: Inputs) -> NextStep:
        """Returns the next step. If it would remove an authority, decides again with the replicas' leaves."""
        decision = decide(stored)
        if decision.action is Action.BUNDLE and stored.bundle > decision.bundle:
            decision = decide(replace(stored, replica_leaves=self.replica_leaves()))
        return decision

    def replica_leaves(self) -> dict[str, Certificate]:
        """Returns the leaf that each replica serves, by address; without replicas that do not answer."""
        slices = self.api.get(objects.endpoint_slices_path(self.target.namespace, self.target.service))
        return served_leaves(addresses(slices))

    def run(self, *, replace_authority: bool = False, replace_leaf: bool = False) -> PassResult:
        """Runs one pass; on request replaces the authority or the serving certificate, even if it is valid.

        Raises:
            ApiError: A step or a read failed, or there are too many steps. The next pass continues.
            CertificateError: A wanted certificate cannot be created.
        """
        stored = self.read()
        secrets = [(stored.authority, replace_authority), (stored.serving, replace_leaf)]
        certificates = [secret.certificate for secret, is_replaced in secrets if is_replaced]
        forced_certificates = frozenset(filter(None, certificates))
        stored = replace(stored, forced_certificates=forced_certificates)
        steps: list[NextStep] = []
        conflicts = 0
        for _ in range(MAX_STEPS):
            decision = self.next_step(stored)
            if decision.action in {Action.KEEP, Action.WAIT}:
                return PassResult(tuple(steps), decision, stored, conflicts)
            try:
                self._take_step(decision, stored)
            except ConflictError:
                conflicts += 1
            else:
                steps.append(decision)
                self.on_step(decision)
            stored = self.read(forced_certificates)
        raise ApiError(messages.many_steps(MAX_STEPS, decision.action.value, decision.why))

    def _take_step(self, decision: NextStep, stored: Inputs) -> None:
        now, wanted = self.clock(), self.wanted
        ca_file = {"ca.crt": bundle_pem(stored.bundle)}
        match decision.action:
            case Action.NEW_AUTHORITY:
                pair = new_authority(now, wanted.authority_lifetime)
                ca_file = {"ca.crt": bundle_pem(decision.bundle | {pair.certificate})}
                self._write(stored.authority, _files(pair) | ca_file, {TRUSTED_SINCE: None})
            case Action.BUNDLE:
                # If the bundle grows, TRUSTED_SINCE is removed: a caBundle may lack the added authority.
                times = {} if decision.bundle <= stored.bundle else {TRUSTED_SINCE: None}
                self._write(stored.authority, {"ca.crt": bundle_pem(decision.bundle)}, times)
            case Action.FORGET:
                self._write(stored.authority, {}, {TRUSTED_SINCE: None})
            case Action.NOTE:
                self._write(stored.authority, {}, {TRUSTED_SINCE: now})
            case Action.TRUST:
                self._patch_ca_bundles(stored)
            case Action.PUBLISH:
                self._write(stored.serving, ca_file, {})
            case Action.ISSUE:
                pair = issue(stored.signer, now, wanted.leaf_lifetime, wanted.names)
                self._write(stored.serving, _files(pair) | ca_file, {STORED_AT: now})
            case Action.TAKE:  # the bytes of the provided Secret are copied
                raw = stored.provided.raw or {}
                files = {key: file_of(raw, key) for key in ("tls.crt", "tls.key")}
                self._write(stored.serving, files | ca_file, {STORED_AT: now})

    def _patch_ca_bundles(self, stored: Inputs) -> None:
        for hook in stored.hooks:
            if any(bundle != stored.bundle for bundle in hook.bundles):
                path = objects.webhook_configuration_path(hook.kind, hook.name)
                self.api.patch(path, objects.trust_patch(hook, stored.bundle))

    def _write(
        self, stored: PairSecret, files: dict[str, bytes], times: Mapping[str, datetime | None]
    ) -> None:
        """Creates a Secret, or replaces the version that was read."""
        collection = objects.secrets_path(self.target.namespace)
        document = objects.changed_secret(stored, files, times)
        if stored.raw is None:
            self.api.create(collection, document)
        else:
            self.api.replace(f"{collection}/{stored.name}", document)

    def _secret(self, name: str, annotation: str, *, is_ca: bool = False) -> PairSecret:
        raw = self.api.get(f"{objects.secrets_path(self.target.namespace)}/{name}")
        return read_secret(name, raw, annotation, is_ca=is_ca)


def _files(pair: Pair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem(), "tls.key": pair.key_pem()}

"""The target of the certificate program in an API server in memory."""

import base64
import copy
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from certs import objects
from certs.authority import Pair, service_names
from certs.decide import Action
from certs.inputs import Inputs, Wanted, why_refused
from certs.rotate import PassResult, Rotator, Target
from kube.api import Object
from tests.kube.fake import NOW, Clock, FakeApi

__all__ = ["NOW", "Clock", "FakeApi"]
NAMESPACE = "hooks"
TARGET = Target(NAMESPACE, "webhook", "tls", "ca", "provided", (("mutating", "m"), ("validating", "v")))
WANTED = Wanted(tuple(service_names("webhook", NAMESPACE, "cluster.local")))
SECRET = f"{objects.secrets_path(NAMESPACE)}/tls"
CA_SECRET = f"{objects.secrets_path(NAMESPACE)}/ca"
PROVIDED_SECRET = f"{objects.secrets_path(NAMESPACE)}/provided"
SETTLE = WANTED.settle + timedelta(seconds=1)  # a second more for the old one to go
MUTATING = objects.webhook_configuration_path("mutating", "m")


def configuration(kind: str, name: str, webhooks: int = 2, bundle: str | None = None) -> Object:
    """Returns a webhook configuration as the manifests create it: without a caBundle."""
    client: Object = {"service": {"name": "webhook", "namespace": NAMESPACE}}
    if bundle is not None:
        client["caBundle"] = bundle
    entries = [
        {"name": f"{kind}-{index}", "clientConfig": copy.deepcopy(client)} for index in range(webhooks)
    ]
    return {"metadata": {"name": name}, "webhooks": entries}


def installed() -> FakeApi:
    """Returns an API server with the target's webhook configurations, and no Secrets."""
    api = FakeApi()
    for kind, name in TARGET.hooks:
        api.put(objects.webhook_configuration_path(kind, name), configuration(kind, name))
    return api


def rotator(api: FakeApi, clock: Clock, wanted: Wanted = WANTED) -> Rotator:
    return Rotator(api, TARGET, wanted, clock)


def actions(outcome: PassResult) -> list[Action]:
    return [step.action for step in outcome.steps]


def assert_whole(stored: Inputs, clock: Clock) -> None:
    """The stored leaf has its key, and verifies by its own Secret's bundle and by every caBundle."""
    serving = stored.serving
    bundles = [serving.bundle, *(held for hook in stored.hooks for held in hook.bundles)]
    for bundle in bundles:
        assert not why_refused(serving, bundle, clock())


def complete(api: FakeApi, clock: Clock) -> list[Action]:
    """Passes until nothing is left to do; each leaves what is stored whole."""
    steps: list[Action] = []
    for _ in range(5):
        outcome = rotator(api, clock).run()
        assert_whole(outcome.stored, clock)
        steps += actions(outcome)
        if outcome.last.action is Action.KEEP:
            return steps
        clock.forward(SETTLE)
    raise AssertionError(f"not complete: {outcome.last}")


def files(certificate: bytes, key: bytes, ca: bytes) -> dict[str, str]:
    """Returns a Secret's data."""
    named = {"tls.crt": certificate, "tls.key": key, "ca.crt": ca}
    return {name: base64.b64encode(text).decode() for name, text in named.items()}


def ready() -> tuple[FakeApi, Clock]:
    api, clock = installed(), Clock()
    rotator(api, clock).run()
    api.writes.clear()
    return api, clock


def foreign(
    signer: Pair, key: CertificateIssuerPrivateKeyTypes, *extensions: x509.ExtensionType, days: int = 9
) -> Pair:
    """Returns a certificate as other programs make them, with no more than these extensions."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "foreign")]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=days))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return Pair(builder.sign(signer.key, hashes.SHA256()), key)

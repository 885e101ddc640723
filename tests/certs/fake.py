"""Helpers of tests that run the certificate program with an API server in memory."""

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
SETTLE = WANTED.settle + timedelta(seconds=1)  # certificates have times in whole seconds
MUTATING = objects.webhook_configuration_path("mutating", "m")


def configuration(kind: str, name: str, webhooks: int = 2, bundle: str | None = None) -> Object:
    """Returns a webhook configuration as the manifests create it, by default without a caBundle."""
    client_config: Object = {"service": {"name": "webhook", "namespace": NAMESPACE}}
    if bundle is not None:
        client_config["caBundle"] = bundle
    entries = [
        {"name": f"{kind}-{index}", "clientConfig": copy.deepcopy(client_config)} for index in range(webhooks)
    ]
    return {"metadata": {"name": name}, "webhooks": entries}


def create_api() -> FakeApi:
    """Returns an API server with the target's webhook configurations, and no Secrets."""
    api = FakeApi()
    for kind, name in TARGET.hooks:
        api.put(objects.webhook_configuration_path(kind, name), configuration(kind, name))
    return api


def rotator(api: FakeApi, clock: Clock, wanted: Wanted = WANTED) -> Rotator:
    return Rotator(api, TARGET, wanted, clock)


def actions(outcome: PassResult) -> list[Action]:
    return [step.action for step in outcome.steps]


def assert_leaf_verifies(stored: Inputs, clock: Clock) -> None:
    """Asserts that the bundle of the serving Secret and every caBundle verify the stored leaf."""
    serving = stored.serving
    bundles = [serving.bundle, *(bundle for hook in stored.hooks for bundle in hook.bundles)]
    for bundle in bundles:
        assert not why_refused(serving, bundle, clock())


def run_until_complete(api: FakeApi, clock: Clock) -> list[Action]:
    """Runs passes until nothing is left to do, and returns their steps. Checks the leaf after each pass."""
    steps: list[Action] = []
    for _ in range(5):
        outcome = rotator(api, clock).run()
        assert_leaf_verifies(outcome.stored, clock)
        steps += actions(outcome)
        if outcome.last.action is Action.KEEP:
            return steps
        clock.forward(SETTLE)
    raise AssertionError(f"not complete: {outcome.last}")


def files(certificate: bytes, key: bytes, ca: bytes) -> dict[str, str]:
    """Returns the data of a Secret with these three files, in Base64."""
    contents = {"tls.crt": certificate, "tls.key": key, "ca.crt": ca}
    return {name: base64.b64encode(text).decode() for name, text in contents.items()}


def api_after_first_pass() -> tuple[FakeApi, Clock]:
    api, clock = create_api(), Clock()
    rotator(api, clock).run()
    api.writes.clear()
    return api, clock


def foreign_certificate(
    signer: Pair, key: CertificateIssuerPrivateKeyTypes, *extensions: x509.ExtensionType, days: int = 9
) -> Pair:
    """Returns a certificate as another program issues it, with only these extensions."""
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

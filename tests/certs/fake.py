"""The target of the certificate program in an API server in memory."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from certs import paths
from certs.authority import service_names
from certs.inputs import Policy
from certs.rotate import Rotator, Target
from tests.kube.fake import NOW, Clock, FakeApi

if TYPE_CHECKING:
    from kube.api import Object

__all__ = ["NOW", "Clock", "FakeApi"]
NAMESPACE = "hooks"
TARGET = Target(NAMESPACE, "webhook", "tls", "ca", "provided", (("mutating", "m"), ("validating", "v")))
POLICY = Policy(tuple(service_names("webhook", NAMESPACE)))
SECRET = f"{paths.secrets(NAMESPACE)}/tls"
CA_SECRET = f"{paths.secrets(NAMESPACE)}/ca"
PROVIDED_SECRET = f"{paths.secrets(NAMESPACE)}/provided"


def configuration(kind: str, name: str, webhooks: int = 2, bundle: str | None = None) -> Object:
    """A webhook configuration as the manifests create it: without a caBundle."""
    client: Object = {"service": {"name": "webhook", "namespace": NAMESPACE}}
    if bundle is not None:
        client["caBundle"] = bundle
    entries = [
        {"name": f"{kind}-{index}", "clientConfig": copy.deepcopy(client)} for index in range(webhooks)
    ]
    return {"metadata": {"name": name}, "webhooks": entries}


def installed() -> FakeApi:
    """An API server with the target's webhook configurations, and no Secrets."""
    api = FakeApi()
    for kind, name in TARGET.hooks:
        api.put(paths.webhook_configuration(kind, name), configuration(kind, name))
    return api


def rotator(api: FakeApi, clock: Clock, policy: Policy = POLICY) -> Rotator:
    return Rotator(api, TARGET, policy, clock)

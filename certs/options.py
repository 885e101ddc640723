"""The options of commands that use a cluster, also as variables such as ``ULTRASERVER_CERTS_SECRET``."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from certs import messages
from certs.authority import service_names
from certs.decide import NextStep
from certs.inputs import Wanted
from certs.rotate import Rotator, Target
from kube.command import connect, option_with_prefix, own_namespace

option = option_with_prefix("ULTRASERVER_CERTS")


_OPTIONS = (
    option("--kubeconfig", type=click.Path(path_type=Path), help="Default: the pod's service account."),
    option(
        "--namespace",
        default=own_namespace,
        show_default="the pod's own",
        help="Namespace of Service and Secrets.",
    ),
    option("--service", default="ultraserver-webhook", help="The Service that the API server calls."),
    option("--secret", default="ultraserver-webhook-tls", help="The Secret that serving pods mount."),
    option("--ca-secret", default="ultraserver-webhook-ca", help="The Secret with the authority's key."),
    option(
        "--provided-secret",
        default="ultraserver-webhook-provided",
        help="A Secret whose certificate, from another issuer, is served while it is usable.",
    ),
    option("--mutating", multiple=True, help="A MutatingWebhookConfiguration to patch; repeatable."),
    option("--validating", multiple=True, help="A ValidatingWebhookConfiguration to patch; repeatable."),
    option("--cluster-domain", default="cluster.local", help="The cluster's DNS domain."),
    option(
        "--name", "names", multiple=True, help="A further DNS name or IP address of the leaf; repeatable."
    ),
    option("--leaf-days", type=float, default=90.0, help="Lifetime of a serving certificate."),
    option("--ca-days", type=float, default=1825.0, help="Lifetime of an authority."),
    option(
        "--settle-seconds",
        type=float,
        default=300.0,
        help="Maximum time until a changed certificate reaches all API servers and pods.",
    ),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command, which passes their values to `rotator`."""
    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command


def rotator(on_step: Callable[[NextStep], object], **values: Any) -> Rotator:  # noqa: ANN401 - click passes what _OPTIONS names
    """Returns a connected `Rotator` for the values of the options.

    Raises:
        click.UsageError: The options contradict each other.
        ApiError: No API server is configured, or its client is not installed.
    """
    hooks = [(kind, name) for kind in ("mutating", "validating") for name in values[kind]]
    secrets = values["secret"], values["ca_secret"], values["provided_secret"]
    target = Target(values["namespace"], values["service"], *secrets, tuple(hooks))
    if len({*secrets}) < len(secrets):
        raise click.UsageError(messages.SAME_SECRETS)
    names = [*service_names(target.service, target.namespace, values["cluster_domain"]), *values["names"]]
    try:
        wanted = Wanted(
            tuple(dict.fromkeys(names)),
            timedelta(days=values["leaf_days"]),
            timedelta(days=values["ca_days"]),
            timedelta(seconds=values["settle_seconds"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return Rotator(connect(values["kubeconfig"]), target, wanted, lambda: datetime.now(UTC), on_step)

"""Shared by the command lines of the programs that use an API server."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kube.api import ApiError

if TYPE_CHECKING:
    from kube.client import KubernetesApi

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def options_of(environment: str) -> Callable[..., Callable[[Any], Any]]:
    """Returns a `click.option` whose options can also be set by environment variables.

    Args:
        environment: Prefix of the variables: with ``PROGRAM``, ``--lease`` is ``PROGRAM_LEASE``.
    """

    def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - click's own types
        variable = f"{environment}_{names[0].removeprefix('--').upper().replace('-', '_')}"
        return click.option(
            *names, **{"envvar": variable, "show_envvar": True, "show_default": True, **attributes}
        )

    return option


def own_namespace() -> str:
    """Returns the namespace of the pod that this program runs in, or the one that the manifests use."""
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return "ultraserver-webhook"


def connect(kubeconfig: Path | None) -> "KubernetesApi":
    """Returns what `kube.client.connect` does; imports it late: some commands and --help do not need it.

    Raises:
        ApiError: No API server is named, or its client is not installed.
    """
    try:
        from kube import client  # noqa: PLC0415 - it costs 0.3 s
    except ModuleNotFoundError as error:
        install = "pip install 'ultraserver-webhook[controllers]'"
        raise ApiError(f"{error}: the API server's client is an extra: {install}") from error
    return client.connect(kubeconfig)

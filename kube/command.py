"""Options and connections for the command lines of programs that use an API server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kube import messages
from kube.api import ApiError

if TYPE_CHECKING:
    from kube.client import KubernetesApi

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def option_with_prefix(environment: str) -> Callable[..., Callable[[Any], Any]]:
    """Returns a variant of `click.option` for options that can also be set by environment variables.

    Args:
        environment: The prefix of the variables: with ``PROGRAM``, ``PROGRAM_LEASE`` sets ``--lease``.
    """

    def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - click's own types
        variable = f"{environment}_{names[0].removeprefix('--').upper().replace('-', '_')}"
        defaults = {"envvar": variable, "show_envvar": True, "show_default": True}
        return click.option(*names, **{**defaults, **attributes})

    return option


@contextmanager
def report_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turns errors that the user can correct into a line on standard error and exit code 1."""
    try:
        yield
    except errors as error:
        raise click.ClickException(str(error)) from error


def own_namespace() -> str:
    """Returns the namespace of the program's own pod; outside a pod, the namespace in the manifests."""
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return "ultraserver-webhook"


def connect(kubeconfig: Path | None) -> "KubernetesApi":
    """Returns a client (see `kube.client.connect`). Imports `kube.client` late, so that --help does not wait.

    Raises:
        ApiError: No API server is configured, or the client is not installed.
    """
    try:
        from kube import client  # noqa: PLC0415 - the import takes 0.3 s
    except ModuleNotFoundError as error:
        raise ApiError(messages.not_installed(error)) from error
    return client.connect(kubeconfig)

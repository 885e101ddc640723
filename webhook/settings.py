"""Defines the options of the serving commands, and the shared options for rule tables."""

from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import click

from common.logs import FORMATS, LEVELS

Command = Callable[..., Any]

ENVIRONMENT = "ULTRASERVER_WEBHOOK"
"""The prefix of environment variables, such as ``ULTRASERVER_WEBHOOK_SERVE_TLS_CERT`` for ``--tls-cert``."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_PORT = click.IntRange(1, 65535)

_option = partial(click.option, show_default=True)

RULES = click.option(
    "--rules",
    type=click.Path(exists=True, path_type=Path),
    help="Rule table: a file, or a directory whose files are merged in the order of their names.",
)

WITHOUT_PLACEMENT = click.option(
    "--without-placement",
    "placement",
    flag_value=False,
    default=True,
    help="Leave out the rows of whole-job admission, as with the chart's value placement: false.",
)


def options(*parts: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Returns a decorator that adds options to a command; --help lists them in the order of ``parts``."""
    return lambda command: reduce(lambda result, part: part(result), reversed(parts), command)


def table_options(*names: str, exists: bool = True) -> Callable[[Command], Command]:
    """Returns a decorator that adds two options: ``rules``, with the given names, and ``placement``."""
    path = click.Path(exists=exists, path_type=Path)
    text = "Rule table: a file that is merged into the packaged table, or a directory with all table files."
    return options(click.option(*names, "rules", type=path, multiple=True, help=text), WITHOUT_PLACEMENT)


_logs = options(
    _option("--log-level", type=click.Choice(LEVELS), default="info", help="Lowest level that is logged."),
    _option("--log-format", type=click.Choice(FORMATS), default="json", help="Format of the log."),
)

serve_options = options(
    _option("--host", default="0.0.0.0", help="Address to listen on."),  # noqa: S104
    _option("--port", type=_PORT, default=8443, help="Port on which the API server calls the webhook."),
    click.option(
        "--tls-cert", type=_FILE, required=True, help="PEM certificate chain; read again when it changes."
    ),
    click.option("--tls-key", type=_FILE, required=True, help="PEM private key of the certificate."),
    RULES,
    click.option("--metrics-port", type=_PORT, help="Serve GET /metrics over plain HTTP on this port."),
    _logs,
)

serve_preview_options = options(
    _option("--host", default="127.0.0.1", help="Address to listen on."),
    _option("--port", type=_PORT, default=8080, help="Port for plain HTTP."),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="A host name to allow, in addition to IP addresses and localhost; *.NAME allows subdomains.",
    ),
    click.option("--fit", metavar="URL", help="Address of the placement program, which answers /v1/fit."),
    RULES,
    WITHOUT_PLACEMENT,
    _logs,
)

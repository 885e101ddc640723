"""The options and environment variables of the programs that serve."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from common.logs import FORMS, LEVELS

Command = Callable[..., Any]

ENVIRONMENT = "ULTRASERVER_WEBHOOK"
"""Prefix of environment variables: ``--tls-cert`` of ``serve`` is ``ULTRASERVER_WEBHOOK_SERVE_TLS_CERT``."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_PORT = click.IntRange(1, 65535)

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
    help="As with the chart's value placement: false, so without the rows of whole-job admission.",
)


def options(*parts: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Returns a decorator that adds options to a command, in the order of its help."""
    return lambda command: reduce(lambda made, part: part(made), reversed(parts), command)


def table_options(*names: str, exists: bool = True) -> Callable[[Command], Command]:
    """Adds a table's options to a command for people: ``rules`` by these names, and ``placement``."""
    path = click.Path(exists=exists, path_type=Path)
    text = (
        "Rule table of an installation: a file, laid over the packaged rows; or a directory of all its files."
    )
    return options(click.option(*names, "rules", type=path, multiple=True, help=text), WITHOUT_PLACEMENT)


_logs = options(
    click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True),
    click.option("--log-format", type=click.Choice(FORMS), default="json", show_default=True),
)

serve_options = options(
    click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on."),  # noqa: S104
    click.option("--port", type=_PORT, default=8443, show_default=True, help="Port for the API server."),
    click.option(
        "--tls-cert", type=_FILE, required=True, help="PEM certificate chain; read again when it changes."
    ),
    click.option("--tls-key", type=_FILE, required=True, help="PEM private key of it."),
    RULES,
    click.option("--metrics-port", type=_PORT, help="Serve GET /metrics over plain HTTP on this port."),
    _logs,
)

serve_preview_options = options(
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", type=_PORT, default=8080, show_default=True, help="Port, plain HTTP."),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="Another name of the server, besides IP addresses and localhost; *.NAME for all below NAME.",
    ),
    click.option(
        "--fit", metavar="URL", help="The placement program, which /v1/fit asks; without it, it is off."
    ),
    RULES,
    WITHOUT_PLACEMENT,
    _logs,
)

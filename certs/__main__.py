"""``python -m certs``: the certificate program's command line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from certs import development
from certs.authority import CertificateError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Make and renew the certificates that the webhook serves with."""


@main.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where ca.crt, tls.crt and tls.key are, or are to be.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Another DNS name or IP address to serve; may be repeated.",
)
def dev(directory: Path, hosts: tuple[str, ...]) -> None:
    """Have certificates for this machine: localhost, 127.0.0.1, ::1 and every --host.

    Files that are still good are kept.
    """
    wanted = tuple(dict.fromkeys((*development.DEFAULT_HOSTS, *hosts)))
    try:
        outcome = development.ensure(directory, wanted, datetime.now(UTC))
    except (CertificateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    did = "made" if outcome.made else "kept"
    click.echo(
        f"{did} {directory / 'tls.crt'} ({outcome.why}); good until {outcome.expires:%Y-%m-%d %H:%M} UTC"
    )


if __name__ == "__main__":
    main(prog_name="python -m certs")

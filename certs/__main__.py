"""The command line of the certificate program, ``python -m certs``."""

import logging
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from certs import development, messages, status
from certs.authority import CertificateError
from certs.decide import Action, NextStep
from certs.options import cluster_options, option, rotator
from certs.rotate import PassResult
from common import logs
from common.output import Program, say
from kube.api import ApiError
from kube.command import report_errors

CHECK_SECONDS = 0.5
"""The time between two checks of ``rotate --wait``."""

MIN_SECONDS = 0.1
"""The minimum time between two passes of ``run``."""

_FAILURES = (ApiError, CertificateError, OSError)
_log = logging.getLogger("certs")


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Create and renew the webhook's certificates."""


@main.command()
@cluster_options
def issue(**options: Any) -> None:  # noqa: ANN401 - click passes what options.py names
    """Create missing certificates and replace those that are due, in one pass.

    The caBundles are patched, too. A webhook configuration that does not exist yet is not an error.
    """
    with report_errors(*_FAILURES):
        _say_result(rotator(_say_step, **options).run())


@main.command()
@cluster_options
@click.option(
    "--force",
    type=click.Choice(("leaf", "ca")),
    multiple=True,
    help="Replace this certificate, even if it is valid; repeatable.",
)
@click.option("--wait", default=0.0, help="Seconds to wait for the rotation to complete.")
def rotate(force: tuple[str, ...], wait: float, **options: Any) -> None:  # noqa: ANN401 - as above
    """Renew the certificates that are due, or that --force names, in one pass.

    The replacement of an authority needs several passes, with a settling time between them. `run` or --wait
    does the later passes.
    """
    deadline = time.monotonic() + wait
    with report_errors(*_FAILURES):
        rotator_ = rotator(_say_step, **options)
        if force and (stored := rotator_.read()).serves_provided:
            raise click.ClickException(messages.from_elsewhere(stored.provided.name))
        result = rotator_.run(replace_authority="ca" in force, replace_leaf="leaf" in force)
        while result.last.action is Action.WAIT and time.monotonic() < deadline:
            time.sleep(CHECK_SECONDS)  # noqa: TID251 - between two checks of a command
            result = rotator_.run()
    _say_result(result)
    if wait and result.last.action is Action.WAIT:
        raise click.ClickException(messages.not_complete(wait))


@main.command("status")
@cluster_options
def show_status(**options: Any) -> None:  # noqa: ANN401 - as above
    """Show certificates, caBundles and replicas.

    The exit code is 1 if there is a problem, and 2 if the state cannot be read.
    """
    try:
        reader = rotator(_say_step, **options)
        stored = replace(reader.read(), replica_leaves=reader.replica_leaves())
        decision = reader.next_step(stored)
    except _FAILURES as error:
        say(messages.error(error), err=True)
        sys.exit(2)
    for line in status.describe(stored, decision):
        say(line)
    problems = status.problems(stored)
    for problem in problems:
        say(messages.wrong(problem), err=True)
    sys.exit(1 if problems else 0)


@main.command()
@cluster_options
@option(
    "--interval-seconds",
    type=click.FloatRange(0.1),
    default=30.0,
    help="The approximate time between passes.",
)
@option("--metrics-host", default="0.0.0.0", help="Address of the metrics port.")  # noqa: S104 - in a pod
@option("--metrics-port", type=click.IntRange(0, 65535), default=9090, help="Metrics port; 0 for no metrics.")
@option("--log-format", type=click.Choice(logs.FORMATS), default="json", help="Format of the log.")
def run(**options: Any) -> None:  # noqa: ANN401 - as above
    """Renew the certificates when they are due, until SIGTERM.

    Several replicas can run at the same time. A write fails if the object has changed since the replica read
    it, and the replica then reads again.
    """
    # Only this command needs prometheus_client.
    from certs.metrics import Metrics  # noqa: PLC0415
    from certs.passes import PassRunner  # noqa: PLC0415
    from kube.metrics import serve  # noqa: PLC0415

    logs.configure(options["log_format"], "certs")
    metrics = Metrics()
    # These signals are blocked, so that they do not interrupt a pass. Later threads inherit the mask.
    end_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, end_signals)
    with report_errors(*_FAILURES):
        rotator_ = rotator(_log_step, **options)
        if port := options["metrics_port"]:
            serve(options["metrics_host"], port, metrics.registry)
    passes = PassRunner(rotator_, metrics, options["interval_seconds"])
    while signal.sigtimedwait(end_signals, max(passes(), MIN_SECONDS)) is None:
        pass
    _log.info(messages.STOPPED)


@main.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory for ca.crt, tls.crt and tls.key.",
)
@click.option(
    "--host", "hosts", multiple=True, help="Another DNS name or IP address to serve; may be repeated."
)
def dev(directory: Path, hosts: tuple[str, ...]) -> None:
    """Create certificates for localhost, 127.0.0.1, ::1 and every --host."""
    with report_errors(*_FAILURES):
        expires = development.make(directory, (*development.DEFAULT_HOSTS, *hosts), datetime.now(UTC))
    say(messages.made(directory / "tls.crt", expires))


def _say_step(decision: NextStep) -> None:
    say(messages.step(decision.action.value, decision.why))


def _log_step(decision: NextStep) -> None:
    level = logging.WARNING if decision.calls_fail else logging.INFO
    _log.log(level, "%s", messages.step(decision.action.value, decision.why))


def _say_result(result: PassResult) -> None:
    _say_step(result.last)
    for note in result.stored.notes:
        say(messages.note(note))


if __name__ == "__main__":
    main(prog_name="python -m certs")

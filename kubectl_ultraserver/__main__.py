"""The command line of ``kubectl ultraserver``. kubectl finds it by its name, ``kubectl-ultraserver``."""

import functools
import io
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, cast

import click

from common.completion import for_kubectl
from common.files import files_of, read_named
from common.output import Program, colour_lines, progress, say
from common.texts import printable
from common.times import stamp
from kube.api import ApiError, ForbiddenError
from kubectl_ultraserver import messages, terminal
from kubectl_ultraserver.check.gather import Gatherer, run_checks
from kubectl_ultraserver.check.line import Status
from kubectl_ultraserver.listing import Lister
from kubectl_ultraserver.names import JobReference, parse_reference
from kubectl_ultraserver.preview import Previewer, preview_json, preview_lines
from kubectl_ultraserver.proxy import ProxiedApi, connect_as_user
from kubectl_ultraserver.queue import MAX_SECONDS, Queue, position_text, queue
from kubectl_ultraserver.servers import is_selected, servers
from kubectl_ultraserver.service import UnavailableError
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.web import serve
from kubectl_ultraserver.why import why
from placement.snapshot import Snapshot, as_json

WHOLE, NOT_WHOLE, FAILED = 0, 1, 2
"""The exit codes of ``verify`` and ``preview``. Other commands use 0 and 2; ``check`` also uses 1."""
CHECK_FAILED = 1
"""The exit code of ``check`` if a check fails."""

_output_option = click.option(
    "-o", "--output", "output_format", type=click.Choice(("text", "json")), default="text", show_default=True
)
_OPTIONS = (
    click.option("-n", "--namespace", default="", help="Namespace; default: the context's."),
    click.option("--context", help="Context of the kubeconfig; default: the current one."),
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Default: KUBECONFIG, or ~/.kube/config."
    ),
)
"""The options of every command, with the names of kubectl's options."""


def with_lister(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options `_OPTIONS` to a command. The command gets a `Lister` instead of the option values."""

    @functools.wraps(command)
    def run(kubeconfig: Path | None, context: str | None, namespace: str, **values: Any) -> None:  # noqa: ANN401 - click's
        try:
            api, context_namespace = connect_as_user(kubeconfig, context)
            command(Lister(api, namespace or context_namespace), **values)
        except ApiError as error:
            _fail(str(error))

    for option in _OPTIONS:
        run = option(run)
    return run


def _job_reference(_context: object, _option: object, job: str | None) -> JobReference | None:
    try:
        return parse_reference(job) if job else None
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ultraserver-webhook")
def main() -> None:
    """Show where jobs run on UltraServers, why other jobs wait, and whether the installation works."""
    for stream in (sys.stdout, sys.stderr):
        # Question marks replace characters that the terminal's encoding does not have.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@main.command("verify")
@click.argument("job", callback=_job_reference)
@_output_option
@with_lister
def verify_command(lister: Lister, job: JobReference, output_format: str) -> NoReturn:
    """Show whether JOB (NAME or KIND/NAME) is placed whole, and where.

    The exit code is 0 if the job is placed whole, 1 if it is not, and 2 if this is not known.
    """
    verification = verify(lister.job(job))
    if output_format == "json":
        _print_json(asdict(verification) | {"whole": verification.is_whole})
    else:
        _print_lines(terminal.verification_lines(verification))
    sys.exit(FAILED if not verification.is_certain else WHOLE if verification.is_whole else NOT_WHOLE)


@main.command("why")
@click.argument("job", callback=_job_reference)
@_output_option
@with_lister
def why_command(lister: Lister, job: JobReference, output_format: str) -> None:
    """Explain what JOB (NAME or KIND/NAME) waits for."""
    case = lister.with_explanations(lister.job(job))
    title, findings, unseen = case.title, why(case), case.fleet.unseen
    job_queue = _queue(lister) if case.gated_job_names else Queue("", ())
    entries = [entry for entry in job_queue.entries if entry.job in case.gated_job_names]
    if output_format == "json":
        jobs, items = map(asdict, entries), map(asdict, findings)
        _print_json({"job": title, "jobs": [*jobs], "findings": [*items], "unseen": unseen})
    else:
        positions = {entry.job: position_text(job_queue, entry, case.fleet.now) for entry in entries}
        _print_lines(terminal.explanation_lines(title, findings, unseen, positions))


@main.command("preview")
@click.option("-f", "--filename", "files", multiple=True, help="File or directory; - is stdin.")
@click.option(
    "--fit", "with_fit", is_flag=True, help="Show which UltraServers a job would get, or why it would wait."
)
@click.option("--web", is_flag=True, help="Serve the installation's preview page to a browser, until Ctrl-C.")
@_output_option
@with_lister
def preview_command(
    lister: Lister, output_format: str, files: tuple[str, ...], *, with_fit: bool, web: bool
) -> None:
    """Show how the installation and, in a dry run, the API server would change objects.

    The exit code is 2 if an object is refused or cannot be read. It is 0 if the API server would store what
    the installation shows and, with --fit, each job would get nodes. Otherwise it is 1. Without the preview
    service, only the dry run decides, and with --fit the exit code is not 0.
    """
    if web is bool(files):
        raise click.UsageError(messages.FILE_OR_WEB)
    if web:
        serve(cast("ProxiedApi", lister.api), say)
        return
    namespace = click.get_current_context().params["namespace"]
    try:
        sources = [read_named(file, path) for path in map(Path, files) for file in files_of(path)]
        previewer = Previewer(lister.api, lister.namespace)
        results = [previewer.preview(source, data, namespace, with_fit=with_fit) for source, data in sources]
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    except UnavailableError as error:
        say(messages.only_dry_run(printable(str(error))), err=True)
        values = {"output": output_format if output_format == "json" else "", "namespace": namespace}
        options = [f"--{option}={value}" for option, value in values.items() if value]
        exit_codes = [cast("ProxiedApi", lister.api).dry_run(*source, *options) for source in sources]
        sys.exit(FAILED if any(exit_codes) else NOT_WHOLE if with_fit else WHOLE)
    previews = [preview for _, items in results for preview in items]
    if not previews:
        _fail(messages.NO_OBJECTS)
    if output_format == "json":
        _print_json({"items": [preview_json(*preview) for preview in previews]})
    else:
        for text, items in results:
            say(colour_lines(text), nl=False)
            _print_lines(line for item in items for line in preview_lines(*item, total=len(items)))
    has_difference = any(findings or (fit and not fit.fits) for _, findings, fit in previews)
    is_refused = any(run.stored is None for run, *_ in previews)
    sys.exit(FAILED if is_refused else NOT_WHOLE if has_difference else WHOLE)


@main.command()
@click.option(
    "--job", callback=_job_reference, help="Show only UltraServers that this job (NAME or KIND/NAME) holds."
)
@click.option("--free", is_flag=True, help="Show only UltraServers that one job could get as a whole.")
@click.option(
    "--broken",
    is_flag=True,
    help="Show only UltraServers with too few nodes that exist, are Ready and are not cordoned.",
)
@_output_option
@with_lister
def topology(lister: Lister, output_format: str, job: JobReference | None, **flags: bool) -> None:
    """Draw the UltraServers or, with --namespace, only UltraServers with a holder in this namespace."""
    namespace = click.get_current_context().params["namespace"]
    fleet, name = lister.fleet, job.name if job else ""
    selected = [server for server in servers(fleet) if is_selected(server, namespace, name, **flags)]
    if output_format == "json":
        keys = ("free", "broken", "troubles")
        documents = [asdict(server) | {key: getattr(server, key) for key in keys} for server in selected]
        _print_json({"ultraservers": documents, "unseen": fleet.unseen})
    else:
        _print_lines(terminal.topology_lines(selected, shutil.get_terminal_size().columns))
    if fleet.unseen:
        say(f"note: {printable(fleet.unseen)}", err=True)


@main.command("queue")
@click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    help="Show jobs of all namespaces, which is the default without -n.",
)
@_output_option
@with_lister
def queue_command(lister: Lister, output_format: str, *, all_namespaces: bool) -> None:
    """Show the jobs that wait for whole-job admission, in order, why they wait, and when they may start."""
    namespace = "" if all_namespaces else click.get_current_context().params["namespace"]
    job_queue = _queue(lister)
    entries = [entry for entry in job_queue.entries if namespace in ("", entry.namespace)]
    if output_format == "json":
        _print_json({"text": job_queue.text, "jobs": [*map(asdict, entries)], "notes": job_queue.notes})
    else:
        _print_lines(terminal.queue_lines(job_queue, entries, lister.fleet.now))


def _queue(lister: Lister) -> Queue:
    """Returns the jobs that wait. Meanwhile, the terminal shows the time that is left for the computation."""
    fleet, ended, lease = lister.fleet, lister.ended_workers, lister.lease
    end = time.monotonic() + MAX_SECONDS

    def has_time() -> bool:
        seconds = end - time.monotonic()
        progress(messages.computing(max(seconds, 0)))
        return seconds > 0

    try:
        return queue(fleet, ended, lease, has_time)
    finally:
        progress("")


@main.command("snapshot")
@click.option("--hide-names", is_flag=True, help="Replace names and label values with numbers.")
@with_lister
def snapshot_command(lister: Lister, *, hide_names: bool) -> None:
    """Print the input of a decision about whole-job admission as JSON, for a bug report.

    ``python -m placement replay FILE`` repeats the decision. The file has no Secrets, and no commands or
    variables of Pods.
    """
    fleet, ended = lister.fleet, lister.ended_workers
    snapshot = Snapshot(
        release=version("ultraserver-webhook"),
        taken=fleet.now,
        complete=not fleet.unseen,
        units=fleet.table.units,
        nodes=tuple(fleet.topology.nodes.values()),
        pods=fleet.pods,
        ended=ended,
        classes=tuple(fleet.inventory.classes.items()),
        claims=tuple(fleet.inventory.claims.items()),
    )
    _print_json(as_json(snapshot, hidden=hide_names))
    if fleet.unseen:
        say(f"note: {printable(fleet.unseen)}", err=True)


@main.command()
@click.option("--pre", is_flag=True, help="Check whether the cluster is ready for an installation.")
@_output_option
@with_lister
def check(lister: Lister, output_format: str, *, pre: bool) -> NoReturn:
    """Check an installation or, with --pre, whether a cluster is ready for an installation.

    The exit code is 1 if a check fails, 2 if the API server does not answer, and otherwise 0.
    """
    with suppress(ForbiddenError):
        lister.api.get("/version")  # raises if the API server does not answer
    results = []
    for result in run_checks(Gatherer(lister.api, lister.namespace), pre=pre):
        results.append(result)
        if output_format == "text":
            _print_lines(terminal.check_lines(result))
    counts = {status.value: sum(result.status is status for result in results) for status in Status}
    if output_format == "json":
        _print_json({"lines": [asdict(result) for result in results], **counts})
    else:
        say(messages.check_counts(counts["pass"], counts["warn"], counts["fail"]))
    sys.exit(CHECK_FAILED if counts["fail"] else 0)


def complete() -> None:
    """Completes a command line. kubectl runs this function as ``kubectl_complete-ultraserver``."""
    _print_lines(for_kubectl(main, sys.argv[1:]))


def _fail(message: str) -> NoReturn:
    say(f"error: {printable(message)}", err=True)
    sys.exit(FAILED)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _print_json(document: object) -> None:
    say(json.dumps(document, indent=2, default=stamp))


if __name__ == "__main__":
    main(prog_name="kubectl ultraserver")

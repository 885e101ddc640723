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
from common.files import files_of, read_text
from common.output import Program, coloured, progress, say
from common.texts import printable
from common.times import stamp
from kube.api import ApiError, ForbiddenError
from kubectl_ultraserver.check.gather import Gatherer, run_checks
from kubectl_ultraserver.check.line import Status
from kubectl_ultraserver.listing import Lister, UnknownJobError
from kubectl_ultraserver.names import JobName, parse
from kubectl_ultraserver.preview import Previewer, UnreadableError, lines, report
from kubectl_ultraserver.proxy import ProxiedApi, connect_as_user
from kubectl_ultraserver.queue import SECONDS, Queue, queue, standing
from kubectl_ultraserver.servers import is_selected, servers
from kubectl_ultraserver.service import OffError
from kubectl_ultraserver.terminal import checked, drawn, explained, queued, verified
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.web import serve
from kubectl_ultraserver.why import why
from placement.snapshot import Snapshot, as_json

WHOLE, NOT_WHOLE, FAILED = 0, 1, 2
"""Exit codes of ``verify`` and ``preview``; other commands, except ``check``, use 0 and 2 only."""
BROKEN = 1
"""The exit code of ``check`` if a check fails."""

_output = click.option(
    "-o", "--output", "form", type=click.Choice(("text", "json")), default="text", show_default=True
)
_OPTIONS = (
    click.option("-n", "--namespace", default="", help="Namespace; default: the context's."),
    click.option("--context", help="Context of the kubeconfig; default: the current one."),
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Default: KUBECONFIG, or ~/.kube/config."
    ),
)
"""Options of every command, as kubectl has them."""


def connected(body: Callable[..., None]) -> Callable[..., None]:
    """Adds the options to a command's function, which gets a `Lister` in place of those for the cluster."""

    @functools.wraps(body)
    def run(kubeconfig: Path | None, context: str | None, namespace: str, **given: Any) -> None:  # noqa: ANN401 - click's
        try:
            api, own = connect_as_user(kubeconfig, context)
            body(Lister(api, namespace or own), **given)
        except (ApiError, UnknownJobError) as error:
            _fail(str(error))

    for option in _OPTIONS:
        run = option(run)
    return run


def _parsed(_context: object, _option: object, job: str | None) -> JobName | None:
    try:
        return parse(job) if job else None
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ultraserver-webhook")
def main() -> None:
    """Show where jobs run on UltraServers, why others wait, and whether the installation works."""
    for stream in (sys.stdout, sys.stderr):
        # Question marks replace characters that the terminal's encoding does not have.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@main.command("verify")
@click.argument("job", callback=_parsed)
@_output
@connected
def verify_command(lister: Lister, job: JobName, form: str) -> NoReturn:
    """Show whether JOB (NAME or KIND/NAME) is placed whole, and where.

    The exit code is 0 if it is, 1 if it is not, and 2 if that is not known.
    """
    verdict = verify(lister.job(job))
    if form == "json":
        _json(asdict(verdict) | {"whole": verdict.whole})
    else:
        _lines(verified(verdict))
    sys.exit(FAILED if not verdict.known else WHOLE if verdict.whole else NOT_WHOLE)


@main.command("why")
@click.argument("job", callback=_parsed)
@_output
@connected
def why_command(lister: Lister, job: JobName, form: str) -> None:
    """Explain what JOB (NAME or KIND/NAME) waits for."""
    case = lister.explained(lister.job(job))
    title, findings, unseen = case.title, why(case), case.fleet.unseen
    waiting = _queue(lister) if case.gated else Queue("", ())
    entries = [entry for entry in waiting.entries if entry.job in case.gated]
    if form == "json":
        jobs, items = map(asdict, entries), map(asdict, findings)
        _json({"job": title, "jobs": [*jobs], "findings": [*items], "unseen": unseen})
    else:
        standings = {entry.job: standing(waiting, entry, case.fleet.now) for entry in entries}
        _lines(explained(title, findings, unseen, standings))


@main.command("preview")
@click.option("-f", "--filename", "files", multiple=True, help="File or directory; - is stdin.")
@click.option("--fit", "fits", is_flag=True, help="Show which UltraServers a job would get, or why it waits.")
@click.option("--web", is_flag=True, help="Open the installation's preview page in a browser, until Ctrl-C.")
@_output
@connected
def preview_command(lister: Lister, form: str, files: tuple[str, ...], *, fits: bool, web: bool) -> None:
    """Show how the installation and, in a dry run, the API server would change objects.

    The exit code is 0 if both agree (and --fit finds nodes), 1 if not, and 2 if an object is refused or not
    readable.
    """
    if web is bool(files):
        raise click.UsageError("one of --filename and --web is needed")
    if web:
        serve(cast("ProxiedApi", lister.api), say)
        return
    namespace = click.get_current_context().params["namespace"]
    try:
        texts = [read_text(file, path) for path in map(Path, files) for file in files_of(path)]
        previewer = Previewer(lister.api, lister.namespace)
        shown = [previewer.preview(source, data, namespace, fits=fits) for source, data in texts]
    except UnreadableError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    except OffError as error:
        say(f"note: only the dry run is done: {printable(str(error))}", err=True)
        values = {"output": form if form == "json" else "", "namespace": namespace}
        options = [f"--{key}={value}" for key, value in values.items() if value]
        codes = [cast("ProxiedApi", lister.api).dry_run(*text, *options) for text in texts]
        sys.exit(FAILED if any(codes) else NOT_WHOLE if fits else WHOLE)
    previews = [each for _, those in shown for each in those]
    if not previews:
        _fail("there are no objects")
    if form == "json":
        _json({"items": [report(*each) for each in previews]})
    else:
        for text, those in shown:
            say(coloured(text), nl=False)
            _lines(line for each in those for line in lines(*each, among=len(those)))
    differs = any(findings or (fit and not fit.fits) for _, findings, fit in previews)
    refused = any(dry.stored is None for dry, *_ in previews)
    sys.exit(FAILED if refused else NOT_WHOLE if differs else WHOLE)


@main.command()
@click.option("--job", callback=_parsed, help="Only UltraServers that this job (NAME or KIND/NAME) holds.")
@click.option("--free", is_flag=True, help="Only UltraServers whose nodes are all free.")
@click.option("--broken", is_flag=True, help="Only those with a node that is not Ready, cordoned or missing.")
@_output
@connected
def topology(lister: Lister, form: str, job: JobName | None, **flags: bool) -> None:
    """Draw the UltraServers, or those that jobs of --namespace hold."""
    namespace = click.get_current_context().params["namespace"]
    fleet, name = lister.fleet, job.name if job else ""
    selected = [server for server in servers(fleet) if is_selected(server, namespace, name, **flags)]
    if form == "json":
        kinds = ("free", "broken", "troubles")
        shown = [asdict(server) | {kind: getattr(server, kind) for kind in kinds} for server in selected]
        _json({"ultraservers": shown, "unseen": fleet.unseen})
    else:
        _lines(drawn(selected, shutil.get_terminal_size().columns))
    if fleet.unseen:
        say(f"note: {printable(fleet.unseen)}", err=True)


@main.command("queue")
@click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="Jobs of all namespaces, as without -n."
)
@_output
@connected
def queue_command(lister: Lister, form: str, *, everywhere: bool) -> None:
    """Show which jobs wait for whole-job admission, in order, for what, and when they may start."""
    namespace = "" if everywhere else click.get_current_context().params["namespace"]
    waiting = _queue(lister)
    entries = [entry for entry in waiting.entries if namespace in ("", entry.namespace)]
    if form == "json":
        _json({"text": waiting.text, "jobs": [*map(asdict, entries)], "notes": waiting.notes})
    else:
        _lines(queued(waiting, entries, lister.fleet.now))


def _queue(lister: Lister) -> Queue:
    """Returns the jobs that wait; a terminal shows meanwhile how long that takes at most."""
    fleet, ended, lease = lister.fleet, lister.ended, lister.lease
    end = time.monotonic() + SECONDS

    def goes_on() -> bool:
        seconds = end - time.monotonic()
        progress(f"computing when jobs start, for {max(seconds, 0):.0f} s at most")
        return seconds > 0

    try:
        return queue(fleet, ended, lease, goes_on)
    finally:
        progress("")


@main.command("snapshot")
@click.option("--hide-names", "hidden", is_flag=True, help="Replace names and label values with numbers.")
@connected
def snapshot_command(lister: Lister, *, hidden: bool) -> None:
    """Print the input of a decision of whole-job admission as JSON, for a bug report.

    ``python -m placement replay FILE`` repeats the decision. The file has no commands, variables or Secrets.
    """
    fleet, ended = lister.fleet, lister.ended
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
    _json(as_json(snapshot, hidden=hidden))
    if fleet.unseen:
        say(f"note: {printable(fleet.unseen)}", err=True)


@main.command()
@click.option("--pre", is_flag=True, help="Is the cluster ready for an installation?")
@_output
@connected
def check(lister: Lister, form: str, *, pre: bool) -> NoReturn:
    """Check an installation, or with --pre a cluster before it.

    The exit code is 0 if every check passes or warns, 1 if one fails, 2 if the API server does not answer.
    """
    with suppress(ForbiddenError):
        lister.api.get("/version")  # without an API server no check makes sense
    lines = []
    for line in run_checks(Gatherer(lister.api, lister.namespace), pre=pre):
        lines.append(line)
        if form == "text":
            _lines(checked(line))
    count = {status.value: sum(line.status is status for line in lines) for status in Status}
    if form == "json":
        _json({"lines": [asdict(line) for line in lines], **count})
    else:
        say("{pass} passed, {warn} warnings, {fail} failures".format(**count))
    sys.exit(BROKEN if count["fail"] else 0)


def complete() -> None:
    """Completes a command line for kubectl, which runs this as ``kubectl_complete-ultraserver``."""
    _lines(for_kubectl(main, sys.argv[1:]))


def _fail(message: str) -> NoReturn:
    say(f"error: {printable(message)}", err=True)
    sys.exit(FAILED)


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _json(document: object) -> None:
    say(json.dumps(document, indent=2, default=stamp))


if __name__ == "__main__":
    main(prog_name="kubectl ultraserver")

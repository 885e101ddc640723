"""The command line: serve, preview, review, rules."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from webhook.documents import DocumentError, dump_yaml, expand_lists, read_documents
from webhook.preview.run import FORMATS, Preview, preview
from webhook.preview.terminal import coloured, summary
from webhook.rows.table import Table
from webhook.rules.load import default_draft, file_draft, load_default, load_file
from webhook.rules.problems import TableError
from webhook.rules.schema import bundled
from webhook.rules.show import overview
from webhook.settings import ENVIRONMENT, RULES, Settings, prepare, serve_options

SAME, DIFFERENT, FAILED = 0, 1, 2
"""Exit codes of ``preview``, as ``kubectl diff`` has them (greater than 1 is an error)."""


@click.group(context_settings={"auto_envvar_prefix": ENVIRONMENT, "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ultraserver-webhook")
def main() -> None:
    """Places plain MPIJobs whole onto AWS Neuron UltraServers."""


@main.command()
@serve_options
def serve(**options: Any) -> None:  # noqa: ANN401 - click passes what settings.py names
    """Serve admission reviews over TLS."""
    settings = Settings(**options)
    prepare(settings.workers)
    # Imported here: gunicorn and Flask cost a quarter of a second that other commands need not pay.
    from webhook.compose import run  # noqa: PLC0415

    try:
        run(settings)
    except TableError as error:
        _fail(_refused(error))
    except ValueError as error:
        _fail(str(error))


@main.command("preview")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-f",
    "--filename",
    "more",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="As FILE, for kubectl's habits; a directory stands for the YAML and JSON files in it.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="For documents that name none.")
@click.option("-o", "--output", "form", type=click.Choice(list(FORMATS)), default="diff", show_default=True)
@click.option("--all-rules", is_flag=True, help="Tell of rules for other kinds of objects as well.")
@RULES
def preview_command(
    files: tuple[Path, ...],
    more: tuple[Path, ...],
    form: str,
    rules: Path | None,
    **how: Any,  # noqa: ANN401 - the others that `preview` takes
) -> NoReturn:
    """Show what would be done to the objects of files, without a cluster; - is standard input.

    Exits with 0 if nothing would change, 1 if something would, 2 if something would be denied or is wrong.
    """
    table = _table(rules)
    try:
        paths = [path for given in (*files, *more) or (Path("-"),) for path in _files(given)]
        texts = [_read(path) for path in paths]
        documents = [document for source, text in texts for document in read_documents(text, source)]
        shown = preview(table, documents, **how)
    except DocumentError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    if not shown:
        _fail("no objects to look at")
    text = FORMATS[form](shown)
    click.echo(coloured(text) if form == "diff" else text, nl=False)
    for item in shown if form != "why" else ():
        click.echo(summary(item), err=True)
    sys.exit(_exit_code(shown))


@main.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--url", required=True, help="Where the webhook is, with /mutate.")
@click.option(
    "--ca", type=click.Path(exists=True, path_type=Path), required=True, help="PEM file to verify it by."
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="For a document that names none."
)
@click.option("--wait", default=0.0, help="Seconds to wait for the webhook to be ready.")
def review(file: Path, url: str, ca: Path, namespace: str, wait: float) -> None:
    """Send an object to a running webhook, as the API server would, and show its answer."""
    # Imported here, as above: only this command needs a client for HTTPS.
    from webhook.client import ReviewError, send_review  # noqa: PLC0415

    try:
        source, text = _read(file)
        for document in expand_lists(read_documents(text, source)):
            click.echo(send_review(document, url, ca, namespace, wait), nl=False)
    except (DocumentError, ReviewError, OSError) as error:
        _fail(str(error))


@main.group()
def rules() -> None:
    """Check and show rule tables."""


@rules.command()
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
def lint(files: tuple[Path, ...]) -> None:
    """Report everything that is wrong with rule tables; the packaged one if none is given.

    Each FILE is a table of its own; the files of a directory are one table.
    """
    failed = False
    for path in files or (None,):
        name = path or "packaged default"
        try:
            table = load_file(path) if path else load_default()
            click.echo(
                f"{name}: {len(table.shapes)} shapes, {len(table.rules)} rules, revision {table.revision}"
            )
        except TableError as error:
            failed = True
            click.echo(str(error), err=True)
        except OSError as error:
            failed = True
            click.echo(f"{name}: {error.strerror}", err=True)
    sys.exit(1 if failed else 0)


@rules.command()
@click.option(
    "-o", "--output", "form", type=click.Choice(("table", "yaml")), default="table", show_default=True
)
@RULES
def show(form: str, rules: Path | None) -> None:
    """Show a rule table: what it says in short, or all of it with `extends` resolved."""
    table = _table(rules)
    if form == "table":
        click.echo(overview(table), nl=False)
    else:
        draft = file_draft(rules) if rules else default_draft()
        click.echo(dump_yaml(draft.raw), nl=False)


@rules.command()
def schema() -> None:
    """Print the JSON Schema of rule tables, for editors."""
    click.echo(json.dumps(bundled(), indent=2))


def _table(path: Path | None) -> Table:
    try:
        return load_file(path) if path else load_default()
    except TableError as error:
        _fail(_refused(error))


def _refused(error: TableError) -> str:
    count = len(error.problems)
    return f"{error}\nthe rule table is wrong in {count} place{'s' if count > 1 else ''}"


def _files(path: Path) -> list[Path]:
    """A directory's files as kubectl takes them, anything else as it is."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml", ".json"})


def _read(path: Path) -> tuple[str, bytes]:
    if str(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    return str(path), path.read_bytes()


def _exit_code(shown: list[Preview]) -> int:
    if any(item.outcome.denials for item in shown):
        return FAILED
    return DIFFERENT if any(item.changed for item in shown) else SAME


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(FAILED)

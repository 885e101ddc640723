"""Defines the command line of ``ultraserver-webhook``."""

import json
import re
import shutil
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from common.completion import SHELLS, script
from common.files import files_of, read_named
from common.output import Program, colour_lines, say
from common.texts import count_text, did_you_mean, fold, printable
from webhook import limits, messages
from webhook.documents import Document, DocumentError, dump_yaml, expand_lists, read_documents
from webhook.preview.formats import FAILURES, FORMATS, PIPELINES, WITHOUT_PODS, Case, case_of, unreadable_case
from webhook.preview.messages import NO_OBJECTS
from webhook.preview.report import Preview
from webhook.preview.run import preview
from webhook.preview.text import as_diff, details, headline, row, totals
from webhook.rules.convert import convert_table, find_removed_rules
from webhook.rules.draft import Draft, with_off_text
from webhook.rules.explain import explain_key
from webhook.rules.lint import notes_on
from webhook.rules.lint_policies import policy_notes
from webhook.rules.lint_rules import unsupported_configs
from webhook.rules.load import build, draft_of, installed_draft, load_installed, packaged_draft
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import published_schema
from webhook.rules.show import overview, rows_as_yaml
from webhook.ruletests.cases import CasesError, cases_of
from webhook.ruletests.folder import read_files, replace_file, write_snapshots
from webhook.ruletests.run import as_junit, as_text, new_snapshots, run, unfired_rules
from webhook.settings import ENVIRONMENT, serve_options, serve_preview_options, table_options

SAME, DIFFERENT, FAILED = 0, 1, 2
"""The exit codes of ``preview``, which are those of ``kubectl diff``: a code above 1 is an error."""

COUNTED_SECTIONS = {"shapes": "shape", "rules": "rule", "policies": "policy", "guarantees": "guarantee"}
"""The sections of a table whose rows `rules lint` counts, each with the singular of its name."""


output_option = partial(click.option, "-o", "--output", "form", show_default=True)


class KubectlCommand(click.Command):
    """A command that, like kubectl, accepts ``=`` between a short option and its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments, and reads ``-o=yaml`` as ``-oyaml``."""
        return super().parse_args(ctx, [re.sub(r"^(-[a-zA-Z])=", r"\1", word) for word in args])


class CommandGroup(Program):
    """A group of commands that report problems of tables, cases and files."""

    command_class = KubectlCommand

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        """Runs a command; exits with 2 if the command does not handle the error of a table, case or file."""
        try:
            return super().invoke(ctx)
        except CasesError as error:
            _fail(messages.cases_not_run(error))
        except TableError as error:
            _fail(_table_error_text(error))
        except OSError as error:
            if not error.filename:
                raise
            _fail(printable(f"{error.filename}: {error.strerror}"))


@click.group(
    cls=CommandGroup,
    context_settings={"auto_envvar_prefix": ENVIRONMENT, "help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="ultraserver-webhook")
def main() -> None:
    """Places plain MPIJobs whole onto AWS Neuron UltraServers."""


@main.command()
@serve_options
def serve(**options: Any) -> None:  # noqa: ANN401 - the options of settings.py
    """Serve admission reviews over TLS."""
    _serve("serve", options)


@main.command("serve-preview")
@serve_preview_options
def serve_preview_command(**options: Any) -> None:  # noqa: ANN401 - the options of settings.py
    """Serve previews over plain HTTP: a web page and an API."""
    _serve("serve_preview", options)


def _serve(function: str, options: dict[str, Any]) -> None:
    # Imported here, because the import of gunicorn takes a quarter of a second.
    from webhook import compose  # noqa: PLC0415

    try:
        getattr(compose, function)(**options)
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        _fail(str(error))


def namespace(name: str) -> str:
    """Returns the name of a namespace, after the same check as for requests to the preview service."""
    from webhook.preview.inputs import ParameterError, read_parameter  # noqa: PLC0415 - imports Flask

    try:
        return str(read_parameter("namespace", name))
    except ParameterError as error:
        raise click.UsageError(str(error.description)) from None


@main.command()
@click.argument("shell", type=click.Choice([*SHELLS]))
def completion(shell: str) -> None:
    """Print a script that completes this program's command line in SHELL."""
    say(script(shell, main, "ultraserver-webhook"))


@main.command("preview")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-f",
    "--filename",
    "more_files",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="A file to preview, like FILE; or a directory, whose YAML and JSON files are previewed.",
)
@click.option("-R", "--recursive", is_flag=True, help="Also preview files in subdirectories.")
@click.option(
    "-n",
    "--namespace",
    type=namespace,
    help="Namespace of the documents. A document with another namespace is refused.",
)
@output_option(type=click.Choice([*FORMATS, *PIPELINES]), default="diff")
@click.option(
    "--must-place", is_flag=True, help="Exit with 2 if a document is not a candidate, or is not placed."
)
@click.option("--pods", is_flag=True, help="Also show the job's Pods, and the changes to them.")
@click.option(
    "--old", type=click.Path(path_type=Path, allow_dash=True), help="The stored object that FILE updates."
)
@click.option(
    "--all-rules", is_flag=True, help="Also show rules that did not fire or are for other kinds of objects."
)
@table_options("--rules")
def preview_command(  # noqa: PLR0913 - the options of the command
    *,
    files: tuple[Path, ...],
    more_files: tuple[Path, ...],
    form: str,
    must_place: bool,
    recursive: bool,
    rules: tuple[Path, ...],
    placement: bool,
    **options: Any,  # noqa: ANN401 - the other arguments of `preview`
) -> NoReturn:
    """Show what the webhook would do to the objects in files, without a cluster.

    FILE can be -, which is standard input and the default. Exits with 0 if no object would change, with 1 if
    an object would change, and with 2 if an object would be refused or cannot be read.
    """
    if must_place and options["old"]:
        raise click.UsageError(messages.MUST_PLACE_AND_OLD)
    if options["pods"] and form in WITHOUT_PODS:
        raise click.UsageError(messages.no_pods(form))
    paths = (*files, *more_files) or (Path("-"),)
    try:
        table = load_installed(_table_path(rules, placement=placement), placement=placement)
        contents = [_read(file, path) for path in paths for file in files_of(path, recursive=recursive)]
        documents = [document for content in contents if isinstance(content, list) for document in content]
        if options["old"]:
            source, text = read_named(options["old"], options["old"])
            options["old"] = read_documents(text, source)
        options |= {"max_pods": limits.PODS_OF_ALL, "report_progress": partial(say, err=True)}
        previews = preview(table, documents, now=time.time(), **options)
    except TableError as error:
        places = (
            (problem.source, problem.line, f"{problem.path}: {problem.message}".removeprefix(": "))
            for problem in error.problems
        )
        _stop(form, _table_error_text(error), *places)
    except (DocumentError, OSError) as error:
        _stop(form, *_error_texts(error))
    errors = [_error_texts(error) for error in contents if not isinstance(error, list)]
    if not previews and not errors:
        _stop(form, NO_OBJECTS, *((str(path), 1, NO_OBJECTS) for path in paths))
    cases = [case_of(item, must_place=must_place) for item in previews]
    if form in PIPELINES:
        cases = [*(unreadable_case(*place) for _, place in errors), *cases]
        say(PIPELINES[form](cases), nl=False, workflow_commands=form == "github")
    else:
        _say_previews(form, previews, cases)
        for message, _ in errors:
            say(f"error: {message}", err=True)
    has_changes = any(part.report["patch"] for item in previews for part in item.parts)
    has_failed = errors or any(case.findings_of(*FAILURES) for case in cases)
    sys.exit(FAILED if has_failed else DIFFERENT if has_changes else SAME)


def _say_previews(form: str, previews: list[Preview], cases: list[Case]) -> None:
    """Prints previews to standard output, and to standard error details that the format does not contain."""
    if form != "diff":
        say(FORMATS[form](previews), nl=False)
    for item, case in zip(previews, cases, strict=True):
        if form == "diff":
            say(colour_lines(headline(item) + as_diff(item)), nl=False)
        text = "" if form == "why" else details(item)
        text = text if form in {"diff", "why"} else headline(item) + text
        failures = (row("failed", finding.text) for finding in case.findings_of("not placed"))
        say(colour_lines("".join([text, *failures])), err=True, nl=False)
    if len(previews) > 1 and form != "why":
        say(totals(previews), err=form != "diff")


@main.group()
def rules() -> None:
    """Check and show rule tables."""


@rules.command()
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@output_option(type=click.Choice(("text", "json")), default="text")
@table_options("-f", "--filename", "--rules", exists=False)
def lint(files: tuple[Path, ...], form: str, rules: tuple[Path, ...], *, placement: bool) -> None:
    """Report all problems of rule tables.

    Each FILE is one table, and the files of a directory are one table. Without FILE, the packaged table is
    checked. Exits with 1 if a table has problems; notes are not problems.
    """
    results = [_lint_result(path, placement=placement) for path in (*files, *rules) or (None,)]
    if form == "json":
        say(json.dumps({"tables": results}, indent=2, default=asdict))
    else:
        for result in results:
            _say_lint_result(**result)
    sys.exit(1 if any(result["problems"] for result in results) else 0)


def _lint_result(path: Path | None, *, placement: bool) -> dict[str, Any]:
    name, table_notes = str(path or "packaged table"), list[Problem]()
    facts, problems = dict[str, int | str](), list[Problem]()
    try:
        draft = installed_draft(path, placement=placement)
        table = build(draft)
        facts = {section: len(getattr(table, section)) for section in COUNTED_SECTIONS}
        facts |= {"revision": table.revision}
        problems = [draft.problem(path, message) for path, message, _ in unsupported_configs(table)]
        table_notes = [draft.problem(path, message) for path, message in notes_on(table)]
        table_notes += policy_notes(draft, table, time.time())
    except TableError as error:
        problems = [*error.problems]
    except OSError as error:
        problems = [Problem(name, 0, "", str(error.strerror))]
    return {"table": printable(name), **facts, "problems": problems, "notes": table_notes}


def _say_lint_result(table: str, problems: list[Problem], notes: list[Problem], **facts: int | str) -> None:
    for problem in problems:
        say(str(problem), err=True)
    if not problems:
        texts = [
            f"{count} {singular if count == 1 else section}"
            for section, singular in COUNTED_SECTIONS.items()
            if (count := facts[section])
        ]
        say(messages.table_in_short(table, ", ".join(texts), facts["revision"]))
    for note in notes:
        say(f"note: {note}", err=True)


@rules.command()
@click.argument("name", required=False, metavar="[NAME]")
@output_option(type=click.Choice(("table", "yaml")), default="table")
@table_options("-f", "--filename", "--rules")
def show(name: str | None, form: str, rules: tuple[Path, ...], *, placement: bool) -> None:
    """Show a rule table in short or, with -o yaml, in full; or the row NAME and its places in the files."""
    draft = installed_draft(_table_path(rules, placement=placement), placement=placement)
    table = build(draft)
    if name:
        row = rows_as_yaml(draft, name)
        say(row, nl=False) if row else _fail(_unknown_row_message(draft, name))
    elif form == "table":
        # Lines are wrapped only for a terminal. In other output, each line is a row, as in kubectl.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        say(overview(table, width), nl=False)
    else:
        say(dump_yaml(with_off_text(draft.raw)), nl=False)


def _unknown_row_message(draft: Draft, name: str) -> str:
    if Path(name).exists():
        return messages.not_a_row(name)
    return messages.no_row(name, did_you_mean(name, [row["name"] for _, row in draft.named_rows]))


@rules.command()
@click.argument("key", default="", metavar="[KEY]")
def explain(key: str) -> None:
    """Explain a key of a rule table, such as `match.labels`; without KEY, list the keys of a table."""
    try:
        say(explain_key(key), nl=False)
    except LookupError as error:
        _fail(str(error.args[0]))


@rules.command("test")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--junit", type=click.Path(path_type=Path), help="Also write the results to this file.")
@click.option("--update", is_flag=True, help="Write snapshots of cases whose only failure is the snapshot.")
@table_options("-f", "--filename", "--rules")
def test_command(
    folder: Path, junit: Path | None, rules: tuple[Path, ...], *, placement: bool, update: bool
) -> NoReturn:
    """Run test cases, which are objects with their expected outcomes.

    Exits with 0 if all cases pass, with 1 if a case fails, and 2 if a case is invalid or DIR has no case.
    """
    table = load_installed(_table_path(rules, placement=placement), placement=placement)
    results = run(table, cases_of(read_files(folder), str(folder)))
    if update:
        write_snapshots(folder, new_snapshots(results))
        results = run(table, cases_of(read_files(folder), str(folder)))
    if junit:
        if junit.exists() and not junit.is_file():  # such as a pipe or /dev/stdout
            junit.write_text(as_junit(results), encoding="utf-8")
        elif junit.is_symlink():
            raise click.UsageError(messages.junit_is_link(junit, junit.readlink()))
        else:
            replace_file(junit, as_junit(results))
    say(as_text(results))
    # Unchanged packaged rules are left out: the project's own tests have cases for them.
    idle_rules = unfired_rules(table, results, load_installed() if rules else None)
    never_fired = messages.never_fired(", ".join(idle_rules))
    say(fold(never_fired) if idle_rules else messages.all_fired("your" if rules else "the"))
    sys.exit(1 if any(result.differences for result in results) else 0)


@rules.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def convert(file: Path) -> None:
    """Print FILE, a table of release 0.2.0, in the form of this version.

    Sections that do not change keep their text with its comments. Exits with 1 if the result does not load.
    """
    old = read_named(file, file)
    new = convert_table(old)
    say(new, nl=False)
    for text in find_removed_rules(old, new):
        say(f"note: {text}", err=True)
    try:
        build(draft_of([("the printed table", new)], str(file), packaged_draft(placement=True)))
    except TableError as error:
        say(_table_error_text(error), err=True)
        sys.exit(1)


@rules.command()
def schema() -> None:
    """Print the JSON Schema of rule tables, for editors."""
    say(json.dumps(published_schema(), indent=2))


def _table_path(table_paths: tuple[Path, ...], *, placement: bool) -> Path | None:
    path = next(iter(table_paths), None)
    if len(table_paths) > 1:
        raise click.UsageError(messages.several_tables(" and ".join(map(str, table_paths))))
    if path and path.is_dir() and not placement:
        raise click.UsageError(messages.without_placement(path))
    return path


def _table_error_text(error: TableError) -> str:
    return messages.wrong_table(error, count_text(len(error.problems), "place"))


def _read(path: Path, given_path: Path) -> list[Document] | DocumentError | OSError:
    """Returns the documents of a file, with Lists expanded; or the error if the file cannot be read."""
    try:
        source, text = read_named(path, given_path)
        return expand_lists(read_documents(text, source))
    except (DocumentError, OSError) as error:
        return error


def _error_texts(error: DocumentError | OSError) -> tuple[str, tuple[str, int, str]]:
    """Returns the error of an unreadable file in two forms: a message; and file, line and text, for CI."""
    if isinstance(error, DocumentError):
        text = fold(printable(str(error)), "error: ").removeprefix("error: ")
        return text, (error.source, error.line, error.message)
    return printable(f"{error.filename}: {error.strerror}"), (str(error.filename), 1, str(error.strerror))


def _stop(form: str, message: str, *places: tuple[str, int, str]) -> NoReturn:
    """Ends the program with exit code 2; prints the message or, in a format for CI, a case for each place."""
    if form not in PIPELINES:
        _fail(message)
    cases = [unreadable_case(*place) for place in places]
    say(PIPELINES[form](cases), nl=False, workflow_commands=form == "github")
    sys.exit(FAILED)


def _fail(message: str) -> NoReturn:
    say(f"error: {message}", err=True)
    sys.exit(FAILED)

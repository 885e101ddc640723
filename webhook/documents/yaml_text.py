"""One YAML document to events, with every complaint of the parser as a ``DocumentError``."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from webhook.documents.errors import DocumentError, Refusal
from webhook.documents.lines import Json, Mark
from webhook.documents.yaml_build import Builder

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser where PyYAML was built with it; the tests hold that both read alike."""

# What libyaml, go-yaml and PyYAML all take, and alike: a byte order mark in the midst of a text
# is white space to one and a letter to the other. Checked here for one message and a place.
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*%")
_HINTS = {
    "mapping values are not allowed": "quote the text if it contains ': ', or check the indentation",
    "cannot start any token": "indent with spaces, not tabs, and quote text that starts with @, ` or %",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "duplicate anchor": "give the anchor another name",
}
_HINT = "check indentation, quotes and brackets here and above"


def read_yaml(text: str, source: str, first_line: int) -> tuple[Json, Mark]:
    """The value of a text that holds one YAML document, and its marks.

    Args:
        text: what stands between two ``---``.
        source: for errors.
        first_line: the line of the file on which the text starts.

    Raises:
        DocumentError: if the text is no YAML, or is refused (see the package).
    """
    _check_characters(text, source, first_line)
    builder = Builder(text, first_line)
    for event in _events(text, source, first_line):
        try:
            builder.take(event)
        except Refusal as refusal:
            place = event.start_mark
            raise DocumentError(source, first_line + place.line, place.column + 1, str(refusal)) from None
    root = builder.root
    return (None, Mark(first_line)) if root is None else (root.raw, root.mark)


def _check_characters(text: str, source: str, first_line: int) -> None:
    if bad := _CONTROL.search(text):
        line = text.count("\n", 0, bad.start())
        column = bad.start() - text.rfind("\n", 0, bad.start())
        message = f"U+{ord(bad[0]):04X} is not allowed in YAML: remove it, or escape it in double quotes"
        raise DocumentError(source, first_line + line, column, message)
    if directive := _DIRECTIVE.match(text):
        line = text.count("\n", 0, directive.end())
        message = "kubectl takes no directives such as %YAML and %TAG: remove the line"
        raise DocumentError(source, first_line + line, 1, message)


def _events(text: str, source: str, first_line: int) -> Iterator[Any]:
    """PyYAML's events up to the end of the stream; whatever it raises becomes a ``DocumentError``."""
    line, column = 0, 0
    try:
        loader = LOADER(text)
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            line, column = event.end_mark.line, event.end_mark.column
            yield event
    except yaml.MarkedYAMLError as error:
        if (mark := error.problem_mark or error.context_mark) is not None:
            line, column = mark.line, mark.column
        problem = ", ".join(part for part in (error.problem, error.context) if part)
        hint = next((hint for sign, hint in _HINTS.items() if sign in problem), _HINT)
        raise DocumentError(source, first_line + line, column + 1, f"{problem}: {hint}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The pure parser lets chr() fail on escapes such as \UFFFFFFFF.
        if isinstance(error, DocumentError):
            raise
        message = f"no YAML ({str(error).splitlines()[0]}): {_HINT}"
        raise DocumentError(source, first_line + line, column + 1, message) from None

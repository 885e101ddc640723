"""A preview for people at a terminal: coloured diff, and a few lines on what was decided and why."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from common.exits import style
from common.texts import folded, printable
from webhook.preview.cases import Case
from webhook.preview.formats import as_diff
from webhook.preview.hints import hints
from webhook.preview.pods import told
from webhook.preview.run import Preview
from webhook.preview.sentence import Verdict
from webhook.preview.why import messages

_COLOURS: Final = {
    "+++": None,
    "---": None,
    "@@": "cyan",
    "+": "green",
    "-": "red",
    f"  {Verdict.PLACED}": "green",
    f"  {Verdict.NOT_PLACED}": "yellow",
    f"  {Verdict.REFUSED}": "red",
}
"""Of lines of a diff, and of verdicts, by their beginning; without a colour they are bold."""


def coloured(text: str) -> str:
    """A sentence, or a diff with it, in colours; `say` takes them away where nobody sees them."""
    return "".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: str) -> str:
    start = next((start for start in _COLOURS if line.startswith(start)), None)
    if start is None:
        return line
    length, colour = len(start) if start.startswith(" ") else len(line), _COLOURS[start]
    return style(line[:length], fg=colour, bold=not colour or None) + line[length:]


def summary(item: Preview) -> list[str]:
    """What the sentence leaves out: policy, shadow, warnings, Pods and notes."""
    return [_row(name, text) for name, text in _rows(item)]


def as_text(previews: Iterable[Preview]) -> str:
    """Returns what the command prints of previews, without colours."""
    return as_diff(previews, _plain)


def _plain(item: Preview) -> str:
    hinted = (("warning", text) for _, text in hints(item.table, item.object))
    return "".join(f"{_folded(name, text)}\n" for name, text in chain(_rows(item), hinted))


def _rows(item: Preview) -> Iterator[tuple[str, str]]:
    yield from ((name, text) for name, text in messages(item.outcome) if name != "denied")
    for pod, like in told(item.pods or ()):
        by = f" by {', '.join(pod.outcome.fired())}" if pod.outcome.fired() else ""
        yield "Pod", like or f"{pod.share}: {pod.outcome.kind}{by}"
        own = () if like else messages(pod.outcome)
        yield from ((name, text) for name, text in own if name in {"warning", "denied"})
    yield from (("note", note) for note in item.notes)


def beside(case: Case) -> list[str]:
    """What the engine does not say of a document: what was probably meant, and that it had to be placed."""
    hints, failures = case.about("hint"), case.about("not placed")
    return [_row("warning", hint.text) for hint in hints] + [_row("failed", each.text) for each in failures]


def _row(name: str, text: str) -> str:
    colour = {"warning": "yellow", "denied": "red", "failed": "red"}.get(name)
    row = _folded(name, text)
    return style(row, fg=colour) if colour else row


def _folded(name: str, text: str) -> str:
    return folded(printable(text), f"  {name:8} ")

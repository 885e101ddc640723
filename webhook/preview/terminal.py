"""A preview for people at a terminal: coloured diff, and a few lines on what was decided and why."""

from collections.abc import Iterable, Iterator
from typing import Final

from common.exits import style
from webhook.preview.cases import Case
from webhook.preview.formats import as_diff
from webhook.preview.pods import told
from webhook.preview.run import Preview
from webhook.preview.sentence import Verdict
from webhook.preview.why import messages, row

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
    """What the sentence leaves out: policy, shadow, warnings, Pods, notes and hints."""
    return [_row(name, text) for name, text in _rows(item)]


def as_text(previews: Iterable[Preview]) -> str:
    """Returns what the command prints of previews, without colours."""
    return as_diff(previews, lambda item: "".join(f"{row(*each)}\n" for each in _rows(item)))


def _rows(item: Preview) -> Iterator[tuple[str, str]]:
    yield from ((name, text) for name, text in messages(item.outcome) if name != "denied")
    for pod, like in told(item.pods or ()):
        by = f" by {', '.join(pod.outcome.fired())}" if pod.outcome.fired() else ""
        yield "Pod", like or f"{pod.share}: {pod.outcome.kind}{by}"
        own = () if like else messages(pod.outcome)
        yield from ((name, text) for name, text in own if name in {"warning", "denied"})
    yield from (("note", note) for note in item.notes)
    yield from (("warning", text) for _, text in item.hints)


def failed(case: Case) -> list[str]:
    """That a document had to be placed, and is not."""
    return [_row("failed", each.text) for each in case.about("not placed")]


def _row(name: str, text: str) -> str:
    colour = {"warning": "yellow", "denied": "red", "failed": "red"}.get(name)
    return style(row(name, text), fg=colour) if colour else row(name, text)

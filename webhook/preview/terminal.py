"""A preview for people at a terminal: coloured diff, and a few lines on what was decided and why."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from common.exits import style
from common.texts import folded, printable
from webhook.preview.cases import Case
from webhook.preview.pods import told
from webhook.preview.run import Preview
from webhook.preview.sentence import Verdict

_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "+++": {"bold": True},
    "---": {"bold": True},
    "@@": {"fg": "cyan"},
    "+": {"fg": "green"},
    "-": {"fg": "red"},
    f"  {Verdict.PLACED}": {"fg": "green"},
    f"  {Verdict.NOT_PLACED}": {"fg": "yellow"},
    f"  {Verdict.REFUSED}": {"fg": "red"},
}
"""How lines of a diff are shown, and verdicts, by their beginning."""


def coloured(text: str) -> str:
    """A sentence, or a diff with it, in colours; `say` takes them away where nobody sees them."""
    return "".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: str) -> str:
    start = next((start for start in _STYLES if line.startswith(start)), "")
    length = len(start) if start.startswith(" ") else len(line)
    return style(line[:length], **_STYLES[start]) + line[length:] if start else line


def summary(item: Preview) -> list[str]:
    """What the sentence leaves out: policy, shadow, warnings, Pods and notes."""
    outcome, lines = item.outcome, list[str]()
    if "policy" in outcome.facts:
        lines.append(_row("policy", outcome.facts["policy"]))
    if outcome.shadow and outcome.would:
        lines += [_row("shadow", f"would be refused: {text}") for text in outcome.would.denials]
    lines += _warnings(outcome.warnings)
    for pod, like in told(item.pods or ()):
        by = f" by {', '.join(pod.outcome.fired())}" if pod.outcome.fired() else ""
        lines.append(_row("Pod", like or f"{pod.share}: {pod.outcome.kind}{by}"))
        if not like:
            lines += _warnings(pod.outcome.warnings)
            lines += [style(_row("denied", text), fg="red") for text in pod.outcome.denials]
    return lines + [_row("note", note) for note in item.notes]


def beside(case: Case) -> list[str]:
    """What the engine does not say of a document: what was probably meant, and that it had to be placed."""
    lines = _warnings(found.text for found in case.about("hint"))
    return lines + [style(_row("failed", found.text), fg="red") for found in case.about("not placed")]


def _warnings(texts: Iterable[str]) -> list[str]:
    return [style(_row("warning", text), fg="yellow") for text in texts]


def _row(name: str, text: str) -> str:
    return folded(printable(text), f"  {name:8} ")

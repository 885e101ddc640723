"""A preview for people at a terminal, beside its diff: a few lines on what was decided and why."""

from collections.abc import Iterable, Iterator

from common.exits import style
from webhook.preview.cases import Case
from webhook.preview.formats import as_diff
from webhook.preview.pods import told
from webhook.preview.run import Preview
from webhook.preview.why import messages, row


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

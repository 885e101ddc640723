"""Who decided, as text for people: each rule with the fields that it set, or why it set none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from common.texts import folded, printable
from webhook.engine.outcome import Outcome, State
from webhook.objects.tree import shown
from webhook.preview.pods import told
from webhook.preview.report import item_of
from webhook.preview.run import Preview
from webhook.preview.sentence import headline, totals

WIDEST: Final = 100
"""Characters of a value."""


def as_why(previews: Iterable[Preview]) -> str:
    """What came of every document and why, and each rule with what it set, or the condition that failed."""
    items = list(previews)
    texts = ["".join(f"{line}\n" for line in _with_pods(each)) for each in items]
    return "\n".join([*texts, *([f"{totals(items)}\n"] if len(items) > 1 else [])])


def messages(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What an outcome says to people beside its reason, each with what it is."""
    if "policy" in outcome.facts:
        yield "policy", outcome.facts["policy"]
    if outcome.shadow and outcome.would:
        yield from (("shadow", f"would be refused: {text}") for text in outcome.would.denials)
    yield from (("warning", text) for text in outcome.warnings)
    yield from (("denied", text) for text in outcome.denials)


def _with_pods(of: Preview) -> Iterator[str]:
    yield from _lines(of)
    for pod, like in told(of.pods or ()):
        yield from [f"{printable(of.source)}: Pod {printable(like)}"] if like else _lines(pod)
    yield from (folded(printable(note), f"{printable(of.source)}: ") for note in of.notes)
    yield from (row("warning", text) for _, text in of.hints)


def row(name: str, text: str) -> str:
    """A message behind what it is, in lines of at most `WIDTH` columns."""
    return folded(printable(text), f"  {name:8} ")


def _lines(of: Preview) -> Iterator[str]:
    item = item_of(of)
    yield headline(of)
    yield row("reason", item["reason"])
    if job := item["job"]:
        size = "{workers} workers, {nodes} nodes, node config {nodeConfig}".format(**job)
        yield row("shape", f"{job['shape']} ({size})")
    yield from (row(*each) for each in messages(of.outcome))
    fields: dict[str, list[str]] = {}
    for change in item["changes"]:
        fields.setdefault(change["rule"]["name"] if change["rule"] else "", []).append(_field(change))
    for rule in sorted(item["rules"], key=lambda rule: rule["state"] is not State.FIRED):
        where = " ({file}:{line})".format(**rule["source"]) if rule["source"] else ""
        yield row(rule["state"], f"{rule['name']}{where}: {rule['why']}")
        yield from fields.get(rule["name"], ())
    if "" in fields:
        yield row("no rule", "the webhook's record, a launcher's init script, and what it takes or puts back")
        yield from fields[""]


def _field(change: Mapping[str, Any]) -> str:
    before, after = (
        "nothing" if value is None else shown(value, WIDEST) for value in (change["before"], change["after"])
    )
    return row("", f"{printable(change['path'])}: {after}, was {before}")

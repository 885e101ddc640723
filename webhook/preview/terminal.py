"""A preview for people at a terminal: coloured diff, and a few lines on what was decided and why."""

import click

from common.texts import printable
from webhook.engine.outcome import Outcome, State, Verdict
from webhook.preview.cases import Case
from webhook.preview.pods import told
from webhook.preview.run import Preview

_DIFF = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}
_VERDICT = {Verdict.ALLOWED: "green", Verdict.WARNED: "yellow", Verdict.DENIED: "red"}


def coloured(diff: str) -> str:
    """A unified diff with colours; click takes them away where nobody sees them."""
    return "".join(_line(line) for line in diff.splitlines(keepends=True))


def _line(line: str) -> str:
    style = next((value for start, value in _DIFF.items() if line.startswith(start)), None)
    if style == "bold":
        return click.style(line, bold=True)
    return click.style(line, fg=style) if style else line


def summary(item: Preview) -> str:
    """Verdict, shape, the rules that fired, warnings and denials of one document."""
    outcome = item.outcome
    verdict = click.style(outcome.verdict, fg=_VERDICT[outcome.verdict])
    lines = [f"{printable(item.source)}: {printable(item.title)}: {verdict}: {outcome.reason}"]
    if "shape" in outcome.facts:
        size = "{shape} ({workers} workers, node config {nodeConfig})".format(**outcome.facts)
        lines.append(f"  shape    {size}")
    lines += [f"  fired    {rule.name}: {rule.why}" for rule in outcome.rules if rule.state is State.FIRED]
    lines += [
        f"  shadow   {rule.name} would fire: {rule.why}"
        for rule in outcome.rules
        if rule.state is State.SHADOWED
    ]
    if "policy" in outcome.facts:
        lines.append(f"  policy   {printable(outcome.facts['policy'])}")
    if outcome.shadow and outcome.would:
        lines += [f"  shadow   would be refused: {text}" for text in outcome.would.denials]
    lines += _messages(outcome)
    for pod, like in told(item.pods or ()):
        by = f" by {', '.join(pod.outcome.fired())}" if pod.outcome.fired() else ""
        lines.append(f"  Pod      {printable(like or f'{pod.share}: {pod.outcome.kind}{by}')}")
        lines += [] if like else _messages(pod.outcome)
    lines += [f"  note     {printable(note)}" for note in item.notes]
    return "\n".join(lines)


def _messages(outcome: Outcome) -> list[str]:
    warnings = [click.style(f"  warning  {text}", fg="yellow") for text in outcome.warnings]
    return warnings + [click.style(f"  denied   {text}", fg="red") for text in outcome.denials]


def beside(case: Case) -> list[str]:
    """What the engine does not say of a document: what was probably meant, and that it had to be placed."""
    lines = [click.style(f"  warning  {found.text}", fg="yellow") for found in case.about("hint")]
    return lines + [click.style(f"  failed   {found.text}", fg="red") for found in case.about("not placed")]

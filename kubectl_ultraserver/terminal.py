"""The commands' output for a terminal, with colours, which `common.output` removes if there is none."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from common.output import style
from common.texts import columns, printable
from common.times import about, clock
from kubectl_ultraserver.check.line import Line, Status
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.messages import few
from kubectl_ultraserver.queue import Entry, Queue, starts
from kubectl_ultraserver.servers import MISSING, Server, Spot, counts
from kubectl_ultraserver.verify import Verification
from placement.messages import STUCK

COLOURS: Final = ("cyan", "blue", "magenta", "yellow", "bright_cyan", "bright_blue", "bright_magenta")
SIGNS: Final = {"ok": ".", "cordoned": "!", "not ready": "x", MISSING: "?"}
LEGEND: Final = ". free  A, B taken  a, b taken and sick  ! cordoned  x not ready  ? missing"
STATES: Final = {Status.PASS: "green", Status.WARN: "yellow", Status.FAIL: "red"}
LEAST: Final = 20
"""Minimum width of a text, even if the terminal is too narrow for it."""
LISTED: Final = 20
"""Maximum number of details of a finding that are shown; the others are counted."""


def drawn(servers: Sequence[Server], width: int) -> Iterator[str]:
    """Yields the UltraServers, one a line, cut to the width of the terminal."""
    yield cut(counts(servers), width)
    if not servers:
        return
    yield cut(LEGEND, width)
    ids = max(len(server.id or "-") for server in servers)
    for server in servers:
        letters = {holder: chr(ord("A") + min(number, 25)) for number, holder in enumerate(server.holders)}
        signs = (_sign(spot, letters) for spot in server.spots)
        cells = "".join("| "[number % 2] + sign for number, sign in enumerate(signs))[
            1:
        ]  # a bar between pairs
        used = ids + 2 * len(server.spots) + 3
        claimed = sum(bool(spot.claims) for spot in server.spots)
        parts = [*(f"{letter} {holder}" for holder, letter in letters.items()), *server.troubles]
        parts += [f"{claimed} of {len(server.spots)} nodes claimed"] if claimed else []
        text = cut("; ".join(parts), max(width - used, 0))
        yield f"{cut((server.id or '-').ljust(ids), width)} [{cells}] {text}".rstrip()


def verified(verdict: Verification) -> Iterator[str]:
    """Yields the workers as a table, then the verdict and its reasons."""
    keys = list(verdict.rows[0].labels) if verdict.rows else []
    short = [key.rpartition("/")[2].removeprefix("ultraserver-").upper() for key in keys]
    claiming = any(row.claims for row in verdict.rows)
    table = [["RANK", "WORKER", "NODE", *short, *(["CLAIMS"] if claiming else [])]]
    for row in verdict.rows:
        rank = "" if row.rank is None else str(row.rank)
        claims = [",".join(row.claims)] if claiming else []
        values = (rank, row.worker, row.node, *row.labels.values(), *claims)
        table.append([printable(value) or "-" for value in values])
    yield from columns(table)
    yield ""
    text = style(printable(verdict.text), fg="green" if verdict.whole else "red")
    yield f"{printable(verdict.title)}: {text}"
    for problem in verdict.problems:
        yield f"  {printable(problem.text)}"
    if verdict.unseen:
        yield style(f"note: {printable(verdict.unseen)}", fg="yellow")


def queued(queue: Queue, entries: Sequence[Entry], now: datetime) -> Iterator[str]:
    """Yields a sentence about the queue, some of its jobs as a table, and notes."""
    yield printable(queue.text)
    table = [
        ["POSITION", "JOB", "WORKERS", "LIMIT", "PRIORITY", "SHARE", "SINCE", "START", "RESERVED", "REASON"]
    ]
    for entry in entries:
        start = starts(entry, now) or ("blocked" if entry.reason in STUCK else "not known")
        why = f"{entry.text}; starts {entry.when}" if entry.when else entry.text
        order = str(entry.priority), f"{entry.share:.0%}", clock(entry.since, now)
        limit = about(timedelta(seconds=entry.limit)) if entry.limit else ""
        values = (entry.job, str(entry.workers), limit, *order, start, few(entry.units), why)
        table.append([printable(value) or "-" for value in (str(entry.position or ""), *values)])
    if entries:
        yield ""
        yield from columns(table)
        yield ""
    yield from (style(f"note: {printable(note)}", fg="yellow") for note in queue.notes)


def explained(
    title: str, findings: Sequence[Finding], unseen: str, standings: Mapping[str, str]
) -> Iterator[str]:
    """Yields what a job waits for, after the standing in the queue of the job, or of each of its groups."""
    title = printable(title)
    for job, text in standings.items():
        yield f"{title if len(standings) == 1 else printable(job)}: {printable(text)}"
    if not findings:
        yield f"{title}: {style('waits for nothing', fg='green')}: its workers have their nodes"
    elif not standings:
        yield f"{title}:"
    yield from listed(findings)
    if unseen:
        yield style(f"note: {printable(unseen)}", fg="yellow")


def listed(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields findings, each with its details and what to do."""
    for finding in findings:
        name = style(printable(f"{finding.kind} {finding.name}"), bold=True)
        yield f"* {name}: {printable(finding.text)}"
        yield from (f"    {printable(line)}" for line in finding.details[:LISTED])
        if len(finding.details) > LISTED:
            yield f"    and {len(finding.details) - LISTED} more: --output json has all"
        if finding.remedy:
            yield f"  {style('try', fg='green')} {printable(finding.remedy)}"


def checked(line: Line) -> Iterator[str]:
    """Yields a result of a check, with a hint on what to do."""
    status = style(f"[{line.status}]", fg=STATES[line.status])
    yield f"{status} {line.check}: {printable(line.text)}"
    if line.remedy:
        yield f"       {style('hint', fg='green')}: {printable(line.remedy)}"
    if line.link:
        yield f"       see {line.link}"


def cut(text: str, width: int) -> str:
    """Returns a text without colours that fits into the width."""
    return printable(text, max(width, LEAST))


def _sign(spot: Spot, letters: dict[str, str]) -> str:
    if not spot.holders:
        return style(SIGNS[spot.state], fg="green" if spot.free else "red")
    holder = spot.holders[0]
    letter = letters[holder]
    if not spot.healthy:
        return style(letter.lower(), fg="red")
    colour = COLOURS[zlib.crc32(holder.encode()) % len(COLOURS)]  # the same in every run
    return style(letter, fg=colour)

"""Formats the output of the commands. Without a terminal, `common.output` removes the colours."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from common.output import style
from common.texts import columns, join_names, printable
from common.times import clock_text, length_text
from kubectl_ultraserver import messages
from kubectl_ultraserver.check.line import Line, Status
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.queue import Entry, Queue
from kubectl_ultraserver.servers import MISSING, Server, Spot, counts_text
from kubectl_ultraserver.verify import Verification
from placement.messages import STUCK

COLOURS: Final = ("cyan", "blue", "magenta", "yellow", "bright_cyan", "bright_blue", "bright_magenta")
SIGNS: Final = {"ok": ".", "cordoned": "!", "not ready": "x", MISSING: "?"}
STATUS_COLOURS: Final = {Status.PASS: "green", Status.WARN: "yellow", Status.FAIL: "red"}
MIN_WIDTH: Final = 20
"""The minimum width of a text, even on a narrower terminal."""
MAX_DETAILS: Final = 20
"""The maximum number of a finding's details in the output. A last line has the number of omitted details."""


def topology_lines(servers: Sequence[Server], width: int) -> Iterator[str]:
    """Yields the counts, a legend, and a line for each UltraServer; texts are cut to the width."""
    yield cut_to_width(counts_text(servers), width)
    if not servers:
        return
    yield cut_to_width(messages.LEGEND, width)
    id_width = max(len(server.id or "-") for server in servers)
    for server in servers:
        letters = {holder: chr(ord("A") + min(number, 25)) for number, holder in enumerate(server.holders)}
        signs = (_sign(spot, letters) for spot in server.spots)
        cells = "".join("| "[number % 2] + sign for number, sign in enumerate(signs))  # a bar separates pairs
        used_width = id_width + 2 * len(server.spots) + 3
        claimed_count = sum(bool(spot.claims) for spot in server.spots)
        parts = [*(f"{letter} {holder}" for holder, letter in letters.items()), *server.troubles]
        parts += [messages.nodes_claimed(claimed_count, len(server.spots))] if claimed_count else []
        text = cut_to_width("; ".join(parts), max(width - used_width, 0))
        yield f"{cut_to_width((server.id or '-').ljust(id_width), width)} [{cells[1:]}] {text}".rstrip()


def verification_lines(verification: Verification) -> Iterator[str]:
    """Yields the workers as a table, then the result and its reasons."""
    keys = list(verification.rows[0].labels) if verification.rows else []
    short_keys = [key.rpartition("/")[2].removeprefix("ultraserver-").upper() for key in keys]
    has_claims = any(row.claims for row in verification.rows)
    table = [["RANK", "WORKER", "NODE", *short_keys, *(["CLAIMS"] if has_claims else [])]]
    for row in verification.rows:
        rank = "" if row.rank is None else str(row.rank)
        claims = [",".join(row.claims)] if has_claims else []
        values = (rank, row.worker, row.node, *row.labels.values(), *claims)
        table.append([printable(value) or "-" for value in values])
    yield from columns(table)
    yield ""
    text = style(printable(verification.text), fg="green" if verification.is_whole else "red")
    yield f"{printable(verification.title)}: {text}"
    for problem in verification.problems:
        yield f"  {printable(problem.text)}"
    if verification.unseen:
        yield style(messages.note(printable(verification.unseen)), fg="yellow")


def queue_lines(queue: Queue, entries: Sequence[Entry], now: datetime) -> Iterator[str]:
    """Yields a sentence about the queue, a table of the entries, and notes."""
    yield printable(queue.text)
    table = [
        ["POSITION", "JOB", "WORKERS", "LIMIT", "PRIORITY", "SHARE", "SINCE", "START", "RESERVED", "REASON"]
    ]
    for entry in entries:
        start = messages.start_text(entry.start, entry.latest, now)
        start = start or ("blocked" if entry.reason in STUCK else messages.NOT_KNOWN)
        reason = messages.starts_after(entry.text, entry.start_note) if entry.start_note else entry.text
        order = str(entry.priority), f"{entry.share:.0%}", clock_text(entry.since, now)
        limit = length_text(timedelta(seconds=entry.limit)) if entry.limit else ""
        row = (entry.job, str(entry.workers), limit, *order, start, join_names(entry.units), reason)
        table.append([printable(value) or "-" for value in (str(entry.position or ""), *row)])
    if entries:
        yield ""
        yield from columns(table)
        yield ""
    yield from (style(messages.note(printable(note)), fg="yellow") for note in queue.notes)


def explanation_lines(
    title: str, findings: Sequence[Finding], unseen: str, positions: Mapping[str, str]
) -> Iterator[str]:
    """Yields positions in the queue (a LeaderWorkerSet has several jobs), then what the job waits for."""
    title = printable(title)
    for job, text in positions.items():
        yield f"{title if len(positions) == 1 else printable(job)}: {printable(text)}"
    if not findings:
        yield f"{title}: {style(messages.WAITS_FOR_NOTHING, fg='green')}: {messages.HAVE_NODES}"
    elif not positions:
        yield f"{title}:"
    yield from finding_lines(findings)
    if unseen:
        yield style(messages.note(printable(unseen)), fg="yellow")


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields the lines of each finding, with its details and its remedy."""
    for finding in findings:
        name = style(printable(f"{finding.kind} {finding.name}"), bold=True)
        yield f"* {name}: {printable(finding.text)}"
        yield from (f"    {printable(line)}" for line in finding.details[:MAX_DETAILS])
        if len(finding.details) > MAX_DETAILS:
            yield f"    {messages.more_details(len(finding.details) - MAX_DETAILS)}"
        if finding.remedy:
            yield f"  {style('try', fg='green')} {printable(finding.remedy)}"


def check_lines(line: Line) -> Iterator[str]:
    """Yields the lines of a check's result, with its remedy and its link."""
    status = style(f"[{line.status}]", fg=STATUS_COLOURS[line.status])
    yield f"{status} {line.check}: {printable(line.text)}"
    if line.remedy:
        yield f"       {style('hint', fg='green')}: {printable(line.remedy)}"
    if line.link:
        yield f"       see {line.link}"


def cut_to_width(text: str, width: int) -> str:
    """Returns a text without colours that fits into the width, or into `MIN_WIDTH` if that is larger."""
    return printable(text, max(width, MIN_WIDTH))


def _sign(spot: Spot, letters: dict[str, str]) -> str:
    if not spot.holders:
        return style(SIGNS[spot.state], fg="green" if spot.is_free else "red")
    holder = spot.holders[0]
    letter = letters[holder]
    if not spot.is_healthy:
        return style(letter.lower(), fg="red")
    colour = COLOURS[zlib.crc32(holder.encode()) % len(COLOURS)]  # a holder has the same colour in every run
    return style(letter, fg=colour)

"""Every attack that live reviews have to pass beside, with the numbers of the issue and with smaller ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.attack import bodies, connections, files, forged
from tests.attack.live import job, review
from tests.attack.peers import Peers, post

Run = Callable[[Peers], None]


@dataclass(frozen=True)
class Attack:
    """An attack.

    Attributes:
        long: In the numbers that it was found with.
        short: In numbers that a suite has time for, and that still brought down what was found.
        large: Whether live reviews above 64 KiB are to pass as well.
        was: What it did to the server of November 2026 (commit 8c9ed59), as first reported.
    """

    name: str
    long: Run
    short: Run
    was: str = ""
    large: bool = False


TINY = post(b"{}")
REVIEW = post(review(job("pipelined", 2000)))


def _expensive(kind: str, size: int, at_once: int) -> Run:
    return partial(bodies.posted, body=partial(forged.body, kind, size), at_once=at_once)


ATTACKS = [
    Attack("no attack", lambda peers: peers.pause(60), lambda peers: peers.pause(2), large=True),
    Attack(
        "two pipelined requests, half-closed",
        partial(connections.pipelined, requests=2, request=TINY),
        partial(connections.pipelined, requests=2, request=TINY),
        "ends the worker; 4 of 193 lost",
    ),
    Attack(
        "five pipelined reviews, half-closed",
        partial(connections.pipelined, requests=5, request=REVIEW),
        partial(connections.pipelined, requests=5, request=REVIEW),
        "ends the worker",
    ),
    Attack(
        "520 idle TLS connections, 100 renewed a second",
        partial(connections.idle, count=520, rate=100),
        partial(connections.idle, count=520, rate=100),
        "49 of 200 lost",
    ),
    Attack(
        "connections closed right after the handshake",
        partial(connections.leaving, at_once=2),
        partial(connections.leaving, at_once=2),
        "with OpenSSL 3.5: 115 of 854 lost",
    ),
    Attack(
        "1,500 trickling connections",
        partial(connections.trickling, count=1500),
        partial(connections.trickling, count=600),
        "54 of 300 lost",
    ),
    Attack(
        "1,000 half-open handshakes",
        partial(connections.half_open, count=1000, rate=200),
        partial(connections.half_open, count=600, rate=200),
    ),
    Attack(
        "1,000 silent TCP connections",
        partial(connections.silent, count=1000, rate=200),
        partial(connections.silent, count=600, rate=200),
    ),
    Attack("garbage for TLS, renegotiation", connections.garbage, connections.garbage),
    Attack(
        "100 readers that take no answer",
        partial(connections.never_reading, count=100),
        partial(connections.never_reading, count=30),
    ),
    Attack(
        "nine bodies of 100 KB announced",
        partial(connections.announced, count=9, size=100_000),
        partial(connections.announced, count=9, size=100_000),
        "199 of 260 above 64 KiB refused with 503",
        large=True,
    ),
    Attack(
        "forged record, 66 KB: lists in a term",
        _expensive("lists in a term", 60_000, 2),
        _expensive("lists in a term", 30_000, 2),
        "65 s on the serving loop",
    ),
    Attack(
        "forged record, 1.2 MB as the API server takes it",
        _expensive("expressions in a term", 1_200_000, 1),
        _expensive("expressions in a term", 300_000, 1),
        "39 s",
    ),
    Attack(
        "forged record, 47 KB dry run",
        _expensive("expressions in a term", 44_000, 2),
        _expensive("expressions in a term", 44_000, 2),
        "another person waits a second",
    ),
    Attack(
        "forged record, 60 KB: containers of one name",
        _expensive("containers of one name", 57_000, 2),
        _expensive("containers of one name", 57_000, 2),
        "12.7 ms a KB",
    ),
    Attack(
        "four of 296 KB beside the probes",
        _expensive("lists in a term", 290_000, 4),
        _expensive("lists in a term", 100_000, 4),
        "/readyz silent for 34 s",
    ),
    Attack(
        "8 bodies of 4 MiB of small keys",
        partial(bodies.posted, body=bodies.small_keys, at_once=8),
        partial(bodies.posted, body=bodies.small_keys, at_once=8),
        "309 MB",
    ),
    Attack(
        "50 bodies of [[],[],...",
        partial(bodies.posted, body=bodies.brackets, at_once=50),
        partial(bodies.posted, body=bodies.brackets, at_once=16),
        "431 MB, of which 264 stay",
    ),
    Attack(
        "four previews of 4 MiB",
        partial(bodies.previewed, body=bodies.yaml_items, at_once=4),
        partial(bodies.previewed, body=bodies.yaml_items, at_once=4),
        "1.5 GB",
    ),
    Attack(
        "four previews of 4 MiB of jobs",
        partial(bodies.previewed, body=bodies.yaml_jobs, at_once=4),
        partial(bodies.previewed, body=bodies.yaml_jobs, at_once=4),
    ),
    Attack(
        "8 bodies of 2.9 MiB of small keys",
        partial(bodies.posted, body=partial(bodies.small_keys, 2_900_000), at_once=8),
        partial(bodies.posted, body=partial(bodies.small_keys, 2_900_000), at_once=8),
    ),
    Attack(
        "50 bodies of 2.9 MiB of [[],[],...",
        partial(bodies.posted, body=partial(bodies.brackets, 2_900_000), at_once=50),
        partial(bodies.posted, body=partial(bodies.brackets, 2_900_000), at_once=16),
    ),
    Attack(
        "four previews of 1 MB",
        partial(bodies.previewed, body=partial(bodies.yaml_items, 1_000_000), at_once=4),
        partial(bodies.previewed, body=partial(bodies.yaml_items, 1_000_000), at_once=4),
    ),
    Attack(
        "certificates swapped, most of them bad",
        files.certificates_swapped,
        partial(files.certificates_swapped, seconds=0.05),
        "an expired pair replaces a valid one; an encrypted key makes OpenSSL ask",
    ),
    Attack(
        "rule tables swapped, most of them bad",
        files.tables_swapped,
        partial(files.tables_swapped, seconds=0.2),
        "10,000 rules: 34 s",
    ),
]

"""The attacks during which live reviews must be answered, in a long form, and some in a short form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ssl import TLSVersion

from tests.attack import bodies, connections, files, forged, records
from tests.attack.live import job, review
from tests.attack.peers import GET, Peers, post

Run = Callable[[Peers], None]


@dataclass(frozen=True)
class Attack:
    """An attack.

    Attributes:
        long: The attack with the numbers of the first report.
        short: The attack for the quick tier; None if `tests.serving.test_peers` has this attack.
        turns: The number of turns of the short form.
        large: Whether there are live reviews above 64 KiB, too.
    """

    name: str
    long: Run
    short: Run | None = None
    turns: int = 2
    large: bool = False


TINY = post(b"{}")
REVIEW = post(review(job("pipelined", 2000)))


def _expensive(kind: str, size: int, at_once: int) -> Run:
    return partial(bodies.post_repeatedly, body=partial(forged.body, kind, size), at_once=at_once)


ATTACKS = [
    Attack("no attack", lambda peers: peers.pause(3600), large=True),
    Attack(
        "two pipelined requests, half-closed",
        partial(connections.send_pipelined_requests, requests=2, request=TINY),
    ),
    Attack(
        "five pipelined reviews, half-closed",
        partial(connections.send_pipelined_requests, requests=5, request=REVIEW),
        partial(connections.send_pipelined_requests, requests=5, request=REVIEW),
    ),
    Attack(
        "16 connections of pipelined requests",
        partial(connections.flood_with_requests, count=16, request=GET),
    ),
    Attack(
        "520 idle TLS connections, 100 renewed a second",
        partial(connections.hold_idle_connections, count=520, rate=100),
    ),
    Attack(
        "connections closed right after the handshake", partial(connections.leave_after_handshakes, at_once=2)
    ),
    Attack("1,500 trickling connections", partial(connections.trickle_requests, count=1500)),
    Attack(
        "1,000 half-open handshakes", partial(connections.hold_half_open_handshakes, count=1000, rate=200)
    ),
    Attack(
        "1,000 silent TCP connections",
        partial(connections.hold_silent_connections, count=1000, rate=200),
    ),
    Attack("garbage for TLS, renegotiation", connections.send_garbage, connections.send_garbage),
    Attack(
        "16 bodies of 250 KB in records of a byte",
        partial(records.send_records, count=16, make_records=partial(records.small_records, size=1)),
        partial(records.send_records, count=2, make_records=partial(records.small_records, size=1)),
    ),
    Attack(
        "16 bodies of 250 KB in records of 64 bytes",
        partial(records.send_records, count=16, make_records=partial(records.small_records, size=64)),
    ),
    Attack(
        "16 floods of empty records",
        partial(records.send_records, count=16, make_records=records.empty_records),
    ),
    Attack(
        "16 floods of key updates", partial(records.send_records, count=16, make_records=records.key_updates)
    ),
    Attack(
        "16 floods of key updates to be answered",
        partial(records.send_records, count=16, make_records=records.answered_key_updates),
    ),
    Attack(
        "16 floods of renegotiations, TLS 1.2",
        partial(
            records.send_records, count=16, make_records=records.renegotiations, version=TLSVersion.TLSv1_2
        ),
    ),
    Attack("100 readers that take no answer", partial(connections.send_without_reading, count=100)),
    Attack(
        "nine bodies of 100 KB announced",
        partial(connections.announce_bodies, count=9, size=100_000),
        partial(connections.announce_bodies, count=9, size=100_000),
        large=True,
    ),
    Attack(
        "forged record, 66 KB: lists in a term",
        _expensive("lists in a term", 60_000, 2),
        _expensive("lists in a term", 30_000, 2),
    ),
    Attack(
        "forged record, 1.2 MB as the API server takes it",
        _expensive("expressions in a term", 1_200_000, 1),
        _expensive("expressions in a term", 150_000, 1),
        turns=1,
    ),
    Attack("forged record, 47 KB dry run", _expensive("expressions in a term", 44_000, 2)),
    Attack("forged record, 60 KB: containers of one name", _expensive("containers of one name", 57_000, 2)),
    Attack(
        "four of 296 KB with probes",
        _expensive("lists in a term", 290_000, 4),
        _expensive("lists in a term", 100_000, 4),
    ),
    Attack(
        "8 bodies of 3 MiB of small keys",
        partial(bodies.post_repeatedly, body=bodies.small_keys, at_once=8),
        partial(bodies.post_repeatedly, body=bodies.small_keys, at_once=1),
        turns=1,
    ),
    Attack(
        "50 bodies of 3 MiB of [[],[],...",
        partial(bodies.post_repeatedly, body=bodies.brackets, at_once=50),
        partial(bodies.post_repeatedly, body=bodies.brackets, at_once=1),
        turns=1,
    ),
    Attack(
        "certificates swapped, most of them bad",
        files.swap_certificates,
        partial(files.swap_certificates, seconds=0.01),
        turns=60,
    ),
    Attack("rule tables swapped, most of them bad", files.swap_tables),
]

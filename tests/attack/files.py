"""Attacks by files: replaces the files in use with certificates and rule tables that cannot be used."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from tests.attack.pairs import unusable_pairs
from tests.attack.peers import Peers
from tests.attack.subject import Subject
from tests.helpers import random_bytes


def bad_tables(subject: Subject, rules: int = 10_000) -> dict[str, bytes | None]:
    """Returns rule tables that are wrong or too large, by name; None for a missing file."""
    good = yaml.safe_load(subject.table)
    rule = good["rules"][0]
    many = {**good, "rules": [{**rule, "name": f"rule-{at}"} for at in range(rules)]}
    aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 9)
    )
    return {
        f"{rules} rules": json.dumps(many).encode(),
        "wrong fields": subject.table.replace(b"rules:", b"rulez:"),
        "text": b"hello\n",
        "no text": random_bytes(3000),
        "empty": b"",
        "cut off": subject.table[: len(subject.table) // 2],
        "deep": b"[" * 100_000,
        "aliases of aliases": aliases.encode(),
        "three megabytes of short elements": b"rules:\n" + b"- a\n" * 750_000,
        "gone": None,
    }


def replace_file(path: Path, content: bytes | None) -> None:
    """Replaces a file atomically, as a mounted volume does; removes it if the content is None."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    new_file = path.with_suffix(".new")
    new_file.write_bytes(content)
    new_file.replace(path)


def swap_certificates(peers: Peers, seconds: float = 0.15) -> None:
    """Writes one bad pair after the other, and a good pair after each bad pair."""
    _run_rounds(peers, seconds, lambda: _bad_and_good_pairs(peers.subject))


def swap_tables(peers: Peers, seconds: float = 0.3, rules: int = 10_000) -> None:
    """Writes one bad table after the other, and the good table after each bad table."""
    bad = bad_tables(peers.subject, rules)
    peers.begin()

    def steps() -> Iterator[None]:
        for content in bad.values():
            replace_file(peers.subject.directory / "rules.yaml", content)
            yield
            replace_file(peers.subject.directory / "rules.yaml", peers.subject.table)
            yield

    _run_rounds(peers, seconds, steps)


def _bad_and_good_pairs(subject: Subject) -> Iterator[None]:
    files = subject.files
    for certificate, key in unusable_pairs(files).values():
        replace_file(files.certificate, certificate)
        replace_file(files.key, key)
        yield
        good = files.issue()
        replace_file(files.certificate, good.certificate_pem())
        yield
        replace_file(files.key, good.key_pem())
        yield


def _run_rounds(peers: Peers, seconds: float, steps: Callable[[], Iterator[None]]) -> None:
    while not peers.over():
        with contextlib.closing(steps()) as generator:  # type: ignore[type-var]
            for _ in generator:
                peers.pause(seconds)
                if peers.over():
                    break

"""Attacks by files: pairs and tables that cannot be used, put in the place of those in use."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from tests.attack.pairs import why_unusable
from tests.attack.peers import Peers
from tests.attack.subject import Subject
from tests.helpers import noise


def tables(subject: Subject, rules: int = 10_000) -> dict[str, bytes | None]:
    """Returns rule tables that are wrong or too large."""
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
        "no text": noise(3000),
        "empty": b"",
        "cut off": subject.table[: len(subject.table) // 2],
        "deep": b"[" * 100_000,
        "aliases of aliases": aliases.encode(),
        "three megabytes of short elements": b"rules:\n" + b"- a\n" * 750_000,
        "gone": None,
    }


def replaced(path: Path, content: bytes | None) -> None:
    """Puts a file in the place of another at once, as a mounted volume does; None takes it away."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def certificates_swapped(peers: Peers, seconds: float = 0.15) -> None:
    """One bad pair after the other, and a good one after each."""
    _round(peers, seconds, lambda: _bad_and_good_pairs(peers.subject))


def tables_swapped(peers: Peers, seconds: float = 0.3, rules: int = 10_000) -> None:
    """One bad table after the other, and the good one after each."""
    bad = tables(peers.subject, rules)
    peers.begin()

    def steps() -> Iterator[None]:
        for content in bad.values():
            replaced(peers.subject.directory / "rules.yaml", content)
            yield
            replaced(peers.subject.directory / "rules.yaml", peers.subject.table)
            yield

    _round(peers, seconds, steps)


def _bad_and_good_pairs(subject: Subject) -> Iterator[None]:
    files = subject.files
    for certificate, key in why_unusable(files).values():
        replaced(files.certificate, certificate)
        replaced(files.key, key)
        yield
        good = files.issue()
        replaced(files.certificate, good.certificate_pem())
        yield
        replaced(files.key, good.key_pem())
        yield


def _round(peers: Peers, seconds: float, steps: Callable[[], Iterator[None]]) -> None:
    while not peers.over():
        with contextlib.closing(steps()) as each:  # type: ignore[type-var]
            for _ in each:
                peers.pause(seconds)
                if peers.over():
                    break

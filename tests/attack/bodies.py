"""Attacks by bodies: each is within the limits, and all of them together are much."""

from collections.abc import Callable

from tests.attack.live import review
from tests.attack.peers import Peers, post
from webhook import limits

MOST = limits.BODY - 2048
"""A little below the longest body that is taken: a longer one is refused before it is read."""


def small_keys(size: int = MOST) -> bytes:
    """Returns a review of an object with as many fields as fit."""
    fields = ",".join(f'"{at:x}":1' for at in range(size // 10))
    whole = review({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": "HERE"}).decode()
    return whole.replace('"HERE"', "{" + fields + "}").encode()


def brackets(size: int = MOST) -> bytes:
    """Returns empty lists, which cost a decoder twenty times their size."""
    return b"[" + b"[]," * (size // 3 - 1) + b"[]]"


def posted(peers: Peers, body: Callable[[], bytes], at_once: int, path: str = "/mutate") -> None:
    """The same body again and again, this many at a time."""
    request = post(body(), path)
    peers.begin()
    peers.together(at_once, lambda: peers.ask(request))

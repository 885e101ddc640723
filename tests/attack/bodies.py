"""Attacks by bodies. Each body is within the limits, but all together cost much memory and time."""

from collections.abc import Callable

from tests.attack.live import review
from tests.attack.peers import Peers, post
from webhook import limits

SIZE = limits.BODY - 2048
"""Size a little below the limit: the server refuses a body above the limit before it reads the body."""


def small_keys(size: int = SIZE) -> bytes:
    """Returns a review of about this many bytes, whose object has many small fields."""
    fields = ",".join(f'"{at:x}":1' for at in range(size // 10))
    text = review({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": "HERE"}).decode()
    return text.replace('"HERE"', "{" + fields + "}").encode()


def brackets(size: int = SIZE) -> bytes:
    """Returns a list of empty lists, for which a decoder needs twenty times the size."""
    return b"[" + b"[]," * (size // 3 - 1) + b"[]]"


def post_repeatedly(peers: Peers, body: Callable[[], bytes], at_once: int, path: str = "/mutate") -> None:
    """Sends the same body again and again, on this many connections at a time."""
    request = post(body(), path)
    peers.begin()
    peers.together(at_once, lambda: peers.ask(request))

"""Steps of handshakes run in threads: in order, while the loop is busy, and not longer than their peer."""

import threading
from collections.abc import Iterator

import gevent
import pytest

from webhook.serving.handshakes import Handshakes

MANY = 100
"""More than there are threads: as many as half-open handshakes come at once."""
PATIENCE = 10.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What holds up a thread until it is opened, at the latest by the end of the test."""
    made = threading.Event()
    yield made
    made.set()


def test_steps_end_while_the_loop_is_busy() -> None:
    handshakes, ended = Handshakes(), threading.Semaphore(0)
    peers = [gevent.spawn(handshakes.do, ended.release) for _ in range(MANY)]
    gevent.sleep(0)  # all have asked
    # From here on the loop has no turn.
    assert all(ended.acquire(timeout=PATIENCE) for _ in range(MANY))
    gevent.joinall(peers, PATIENCE, raise_error=True)


def test_steps_begin_in_the_order_in_which_they_were_asked_for(gate: threading.Event) -> None:
    handshakes, begun = Handshakes(threads=1), list[int]()
    first = gevent.spawn(handshakes.do, lambda: gate.wait(PATIENCE))
    peers = [gevent.spawn(handshakes.do, lambda n=n: begun.append(n)) for n in range(MANY)]
    gevent.sleep(0)
    gate.set()
    gevent.joinall([first, *peers], PATIENCE, raise_error=True)
    assert begun == list(range(MANY))


def test_what_a_step_raises_is_returned_also_to_a_loop_that_has_nothing_else_to_do() -> None:
    error = OSError("no TLS")

    def step() -> None:
        threading.Event().wait(0.05)  # the loop finds nothing to do meanwhile
        raise error

    assert Handshakes().do(step) is error


def test_a_step_that_waits_is_dropped_with_its_peer(gate: threading.Event) -> None:
    handshakes, begun = Handshakes(threads=1), list[str]()
    first = gevent.spawn(handshakes.do, lambda: gate.wait(PATIENCE))
    dropped = gevent.spawn(handshakes.do, lambda: begun.append("dropped"))
    gevent.sleep(0)
    dropped.kill(timeout=PATIENCE)
    assert dropped.dead
    assert not first.dead
    gate.set()
    handshakes.do(lambda: begun.append("next"))
    assert begun == ["next"]


def test_a_peer_does_not_go_before_its_step_has_ended(gate: threading.Event) -> None:
    handshakes, begun = Handshakes(), threading.Event()

    def step() -> None:
        begun.set()
        gate.wait(PATIENCE)

    peer = gevent.spawn(handshakes.do, step)
    gevent.sleep(0)
    assert begun.wait(PATIENCE)
    peer.kill(block=False)
    gevent.sleep(0)
    gevent.sleep(0)
    assert not peer.dead
    gate.set()
    peer.join(PATIENCE)
    assert peer.dead

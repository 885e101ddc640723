"""Start, stop and the process around the requests."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.serving.conftest import PATIENCE, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_first_answer_comes_within_ten_seconds_of_the_start(start: Callable[..., Server]) -> None:
    assert start().startup < 10


def test_sigterm_lets_a_request_in_flight_finish_and_exits_with_zero(start: Callable[..., Server]) -> None:
    server = start()
    with ThreadPoolExecutor() as pool, server.client() as client:
        sleeping = pool.submit(client.get, "/sleep/1.5")
        server.wait_for(lambda: "asleep" in server.log(), "the request has not come")
        server.process.send_signal(signal.SIGTERM)
        assert sleeping.result(PATIENCE) == 200
        assert client.content == b"slept"
        assert client.headers["Connection"] == "close"
    assert server.process.wait(PATIENCE) == 0


def test_a_request_already_being_sent_at_sigterm_is_answered(start: Callable[..., Server]) -> None:
    server = start()
    sock = server.tls()
    sock.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    sock.sendall(b"dy")
    assert sock.recv(12) == b"HTTP/1.1 200"


def test_idle_and_silent_peers_do_not_hold_up_the_stop(start: Callable[..., Server]) -> None:
    server = start(limits={"linger_seconds": 1, "handshake_seconds": 60})
    for _ in range(5):
        server.tls()
        server.tcp()
    time.sleep(0.3)
    begun = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begun < PATIENCE


def test_all_workers_answer_and_a_killed_one_is_replaced(start: Callable[..., Server]) -> None:
    server = start(workers=2)
    pids: set[int] = set()

    def another() -> bool:
        with server.client() as client:
            client.get("/")
            pids.add(int(client.content))
        return len(pids) == wanted

    wanted = 2
    server.wait_for(another, "two workers")
    for pid in pids.copy():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    wanted = 4
    server.wait_for(another, "two new workers")


def test_nothing_is_written_but_the_heartbeat_file(start: Callable[..., Server], tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    heartbeat.mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    server = start(worker_tmp_dir=str(heartbeat))
    assert {path.name for path in tmp_path.iterdir()} == before
    server.wait_for(lambda: "Control socket disabled" in server.log(), "no control socket")

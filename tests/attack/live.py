"""Live reviews as an API server sends them.

HTTP/1.1 over TLS; several connections that are kept, one that is new for every review, and spare ones that
carry nothing, as a Go client has. Steady: a fixed pace, independent of the other answers.
As a process of its own, ``python -m tests.attack.live OPTIONS``, it ends when standard input does, and prints
what it counted.
"""

import base64
import http.client
import json
import select
import socket
import ssl
import statistics
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from testbed.mpijob import mpijob
from tests.admission import reviews

KEPT = 4
SPARE = 8
PACE_SECONDS = 0.04
"""Between two reviews of one client; a hundred a second all in all."""
PATIENCE_SECONDS = 10.0
"""An API server waits no longer than ``timeoutSeconds``, at most 30 and by default 10."""
SLOW_SECONDS = 2.0
PROBE_SECONDS = 5.0
SHORT, LONG = 6_000, 100_000
"""Bytes of a review: an everyday one, and one above 64 KiB."""


@dataclass
class Count:
    """The results of the live reviews.

    Attributes:
        clients: How many send reviews; each has one under way at a time.
        slow: Reviews that were answered, but took longer than `SLOW_SECONDS`, not counting the time in which
            the server waited for a processor: that is the machine's, and what else runs on it.
        why: The first few that failed or were slow, in words.
    """

    clients: int = 0
    reviews: int = 0
    failed: int = 0
    slow: int = 0
    probes: int = 0
    probes_failed: int = 0
    p99_ms: float = 0.0
    slowest_ms: float = 0.0
    why: list[str] = field(default_factory=list)


def job(name: str, size: int) -> dict[str, Any]:
    """Returns a plain MPIJob of about this many bytes."""
    made = mpijob(name=name, namespace="default")
    env = [{"name": f"SETTING_{at}", "value": "x" * 60} for at in range(max(0, size - 1000) // 95)]
    made["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"] = env
    return made


def review(obj: Any, uid: str = "live", **request: Any) -> bytes:
    """Returns the body of the review of the creation of an object."""
    return json.dumps(reviews.review(obj, **{"uid": uid, **request}), separators=(",", ":")).encode()


class Client:
    """One connection to the server, opened again when the server has closed it between two requests."""

    def __init__(self, port: int, context: ssl.SSLContext, seconds: float = PATIENCE_SECONDS) -> None:
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=seconds)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises:
            OSError: No answer, or not in time.
            http.client.HTTPException: What came is not an answer.
        """
        if self.connection.sock is not None and closed(self.connection.sock):
            self.connection.close()
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            self.connection.request(method, path, body, headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self.connection.close()
            raise


def closed(sock: Any) -> bool:
    """Returns whether the server has closed a connection without a due answer; Go clients notice that too."""
    if not select.select([sock], [], [], 0)[0]:
        return False
    before = sock.gettimeout()
    sock.settimeout(0)
    try:
        sock.recv(1)
    except (ssl.SSLWantReadError, BlockingIOError):
        sock.settimeout(before)
        return False  # a session ticket
    except OSError:
        return True
    return True


class Live:
    """Clients, each in a thread, while this is entered; and what they count."""

    def __init__(self, port: int, ca: str, server: int, *, long: bool = False, few: bool = False) -> None:
        self.port, self.context, self.server = port, ssl.create_default_context(cafile=ca), server
        self.over, self.changed = threading.Event(), threading.Condition()
        clients = [
            (size, n) for size in ((SHORT, LONG) if long else (SHORT,)) for n in range(2 if few else KEPT + 1)
        ]
        self._spare = 1 if few else SPARE
        self.count, self.times = Count(clients=len(clients)), list[float]()
        self._threads = [threading.Thread(target=what) for what in (self.probes, self.spares)]
        for size, n in clients:
            given = {"name": f"{size}-{n}", "size": size, "kept": n > 0}
            self._threads.append(threading.Thread(target=self.reviews, kwargs=given))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.wait_for(self.count.clients)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, reviews: int) -> None:
        """Waits until this many reviews have been answered or have failed."""
        with self.changed:
            obj = self.changed.wait_for(lambda: self.count.reviews >= reviews, 3 * PATIENCE_SECONDS)
        assert obj, f"waited {3 * PATIENCE_SECONDS:.0f} s for {reviews} reviews: {self.count}"

    def stop(self) -> Count:
        """Waits for the answers that are due; returns all results."""
        self.__exit__()
        self.count.slowest_ms = max(self.times) * 1000
        self.count.p99_ms = statistics.quantiles(self.times, n=100)[98] * 1000
        return self.count

    def reviews(self, name: str, size: int, *, kept: bool) -> None:
        """Reviews of one client at its pace."""
        client, number = Client(self.port, self.context), 0
        while not self.over.is_set():
            number += 1
            uid, begun, before = f"{name}-{number}", time.monotonic(), processor_wait(self.server)
            problem = ""
            try:
                status, decision = client.ask("POST", "/mutate?timeout=10s", review(job(name, size), uid))
                problem = wrong(status, decision, uid)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
            took, waited = time.monotonic() - begun, processor_wait(self.server) - before
            slow = took - waited > SLOW_SECONDS and not problem
            with self.changed:
                self.times.append(took)
                self.count.reviews += 1
                self.count.failed += bool(problem)
                self.count.slow += slow
                if (problem or slow) and len(self.count.why) < 5:
                    time_taken = f"{took:.1f} s, of which the server waited {waited:.1f} s for a processor"
                    what = f"{'kept' if kept else 'new'} {size}"
                    self.count.why.append(f"{what}: {problem or 'slow'} ({time_taken})")
                self.changed.notify_all()
            if not kept:
                client.connection.close()
            self.over.wait(max(PACE_SECONDS, PACE_SECONDS - took))
        client.connection.close()

    def probes(self) -> None:
        """What the kubelet asks, more often than it does."""
        while not self.over.is_set():
            for path in ("/livez", "/readyz"):
                client = Client(self.port, self.context, PROBE_SECONDS)
                try:
                    status, _ = client.ask("GET", path)
                except (OSError, http.client.HTTPException):
                    status = 0
                client.connection.close()
                self.count.probes += 1
                self.count.probes_failed += status != 200
            self.over.wait(0.3)

    def spares(self) -> None:
        """Connections that finish TLS and carry nothing; opened again when the server closes them."""
        held: list[Any] = []
        while not self.over.wait(0.2):
            for sock in [sock for sock in held if closed(sock)]:
                held.remove(sock)
                sock.close()
            try:
                while len(held) < self._spare:
                    raw = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
                    held.append(self.context.wrap_socket(raw, server_hostname="localhost"))
            except OSError:
                continue  # in the next turn, then
        for sock in held:
            sock.close()


def processor_wait(pid: int) -> float:
    """Seconds that a process's first thread, the loop of the server, could run and had no processor so far.

    0 where Linux does not count it, and for a process that has ended.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def wrong(status: int, data: bytes, uid: str) -> str:
    """Returns what is wrong with the answer to a live review; empty where it is the one that was due."""
    if status != 200:
        return f"status {status}: {data[:80]!r}"
    response = json.loads(data)["response"]
    if response["uid"] != uid:
        return f"the answer to {response['uid']}, not to {uid}"
    if not response["allowed"] or not json.loads(base64.b64decode(response.get("patch", "bnVsbA=="))):
        return f"no patch: {data[:80]!r}"
    return ""


def main() -> None:
    """Sends reviews as the argument says until standard input ends."""
    given = json.loads(sys.argv[1])
    with Live(given["port"], given["ca"], given["server"], long=given["long"]) as live:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(json.dumps(asdict(live.stop())) + "\n")


if __name__ == "__main__":
    main()

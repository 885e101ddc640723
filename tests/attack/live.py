"""Sends live reviews as an API server does.

It uses HTTP/1.1 over TLS. Some connections are kept, one connection is new for every review, and spare
connections send nothing, as with a Go client. Each client pauses for a fixed time after an answer.
As a separate process, ``python -m tests.attack.live OPTIONS``, it ends when its standard input ends, and
prints its counts.
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
PAUSE_SECONDS = 0.04
"""Pause of a client after an answer. All clients together send about a hundred reviews a second."""
PATIENCE_SECONDS = 10.0
"""The default of ``timeoutSeconds``, after which an API server does not wait any longer."""
SLOW_SECONDS = 2.0
PROBE_SECONDS = 5.0
SHORT, LONG = 6_000, 100_000
"""Bytes of a usual review, and of a review above 64 KiB."""


@dataclass
class Count:
    """The results of the live reviews.

    Attributes:
        clients: The number of clients. A client sends one review at a time.
        slow: The number of answered reviews that took longer than `SLOW_SECONDS`, without the time in which
            the server waited for a processor that other programs used.
        why: Descriptions of the first few reviews that failed or were slow.
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
    result = mpijob(name=name, namespace="default")
    env = [{"name": f"SETTING_{at}", "value": "x" * 60} for at in range(max(0, size - 1000) // 95)]
    result["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"] = env
    return result


def review(obj: Any, uid: str = "live", **request: Any) -> bytes:
    """Returns the body of a review of the creation of an object."""
    return json.dumps(reviews.review(obj, **{"uid": uid, **request}), separators=(",", ":")).encode()


class Client:
    """A connection to the server, which is opened again if the server has closed it between two requests."""

    def __init__(self, port: int, context: ssl.SSLContext, seconds: float = PATIENCE_SECONDS) -> None:
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=seconds)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Returns the status and the body of the answer.

        Raises:
            OSError: There is no answer in time.
            http.client.HTTPException: The answer is not HTTP.
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
    """Returns whether the server has closed an idle connection. Go clients check this, too."""
    if not select.select([sock], [], [], 0)[0]:
        return False
    before = sock.gettimeout()
    sock.settimeout(0)
    try:
        sock.recv(1)
    except (ssl.SSLWantReadError, BlockingIOError):
        sock.settimeout(before)
        return False  # the server has sent a session ticket
    except OSError:
        return True
    return True


class Live:
    """Clients that send reviews in threads, and their counts. Use it as a context manager."""

    def __init__(self, port: int, ca: str, server: int, *, long: bool = False, few: bool = False) -> None:
        self.port, self.context, self.server = port, ssl.create_default_context(cafile=ca), server
        self.over, self.changed = threading.Event(), threading.Condition()
        clients = [
            (size, n) for size in ((SHORT, LONG) if long else (SHORT,)) for n in range(2 if few else KEPT + 1)
        ]
        self._spare = 1 if few else SPARE
        self.count, self.times = Count(clients=len(clients)), list[float]()
        self._threads = [threading.Thread(target=loop) for loop in (self.send_probes, self.hold_spares)]
        for size, n in clients:
            arguments = {"name": f"{size}-{n}", "size": size, "kept": n > 0}
            self._threads.append(threading.Thread(target=self.send_reviews, kwargs=arguments))

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
            is_reached = self.changed.wait_for(lambda: self.count.reviews >= reviews, 3 * PATIENCE_SECONDS)
        assert is_reached, f"waited {3 * PATIENCE_SECONDS:.0f} s for {reviews} reviews: {self.count}"

    def stop(self) -> Count:
        """Waits for the answers to the last reviews; returns the counts."""
        self.__exit__()
        self.count.slowest_ms = max(self.times) * 1000
        self.count.p99_ms = statistics.quantiles(self.times, n=100)[98] * 1000
        return self.count

    def send_reviews(self, name: str, size: int, *, kept: bool) -> None:
        """Sends the reviews of one client, with a pause after each review, until the end."""
        client, number = Client(self.port, self.context), 0
        while not self.over.is_set():
            number += 1
            uid, begun, before = f"{name}-{number}", time.monotonic(), processor_wait(self.server)
            problem = ""
            try:
                status, decision = client.ask("POST", "/mutate?timeout=10s", review(job(name, size), uid))
                problem = problem_of(status, decision, uid)
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
                    connection = f"{'kept' if kept else 'new'} {size}"
                    self.count.why.append(f"{connection}: {problem or 'slow'} ({time_taken})")
                self.changed.notify_all()
            if not kept:
                client.connection.close()
            self.over.wait(PAUSE_SECONDS)
        client.connection.close()

    def send_probes(self) -> None:
        """Sends the probes of the kubelet, but more often."""
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

    def hold_spares(self) -> None:
        """Holds TLS connections without requests. Opens them again when the server closes them."""
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
                continue  # the next turn tries again
        for sock in held:
            sock.close()


def processor_wait(pid: int) -> float:
    """Returns for how many seconds the first thread of a process has waited for a processor so far.

    In the server, this thread runs the event loop. Returns 0 for an ended process, and without such a count.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def problem_of(status: int, data: bytes, uid: str) -> str:
    """Returns the problem of the answer to a live review; empty if the answer is right."""
    if status != 200:
        return f"status {status}: {data[:80]!r}"
    response = json.loads(data)["response"]
    if response["uid"] != uid:
        return f"the answer to {response['uid']}, not to {uid}"
    if not response["allowed"] or not json.loads(base64.b64decode(response.get("patch", "bnVsbA=="))):
        return f"no patch: {data[:80]!r}"
    return ""


def main() -> None:
    """Sends reviews with the options in the argument, which is JSON, until standard input ends."""
    options = json.loads(sys.argv[1])
    with Live(options["port"], options["ca"], options["server"], long=options["long"]) as live:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(json.dumps(asdict(live.stop())) + "\n")


if __name__ == "__main__":
    main()

"""Live reviews as an API server sends them, from a process: ``python -m tests.attack.live OPTIONS``.

HTTP/1.1 over TLS; several connections that are kept, one that is new for every review, and spare ones that
carry nothing, as a Go client has. Steady: a fixed pace, whatever becomes of the others. Ends when standard
input does, and prints what it counted.
"""

from __future__ import annotations

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
from typing import Any

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
    """What became of the live reviews.

    Attributes:
        slow: Reviews that were answered, but took longer than `SLOW_SECONDS`.
        why: The first few failures, in words.
    """

    reviews: int = 0
    failed: int = 0
    slow: int = 0
    probes: int = 0
    probes_failed: int = 0
    p99_ms: float = 0.0
    slowest_ms: float = 0.0
    why: list[str] = field(default_factory=list)


def job(name: str, size: int, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A plain MPIJob of about so many bytes."""
    container = {"name": "main", "image": "example.invalid/train", "command": ["mpirun", "train"]}
    asked = {"resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    env = [{"name": f"SETTING_{at}", "value": "x" * 60} for at in range(max(0, size - 1000) // 95)]
    worker = {"spec": {"containers": [{**container, **asked, "env": env}]}}
    replicas = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "Worker": {"replicas": 4, "template": worker},
    }
    meta = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": meta,
        "spec": {"mpiReplicaSpecs": replicas},
    }


def review(obj: Any, uid: str = "live", **request: Any) -> bytes:
    """The body of the review of the creation of an object."""
    kind = {"group": "kubeflow.org", "version": "v2beta1", "kind": "MPIJob"}
    user = {"username": "ada", "groups": ["system:authenticated"]}
    inner = {"uid": uid, "kind": kind, "operation": "CREATE", "namespace": "default", "userInfo": user}
    given = {**inner, "object": obj, **request}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given}
    return json.dumps(whole, separators=(",", ":")).encode()


class Client:
    """One connection to the server, made again when the server has closed it between two requests."""

    def __init__(self, port: int, context: ssl.SSLContext, seconds: float = PATIENCE_SECONDS) -> None:
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=seconds)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises:
            OSError: No answer, or not in time.
            http.client.HTTPException: What came is no answer.
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
    """Whether the server has closed a connection on which nothing is due; a Go client sees that as well."""
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
    """The threads, and what they count."""

    def __init__(self, port: int, ca: str, *, long: bool) -> None:
        self.port, self.context = port, ssl.create_default_context(cafile=ca)
        self.sizes = (SHORT, LONG) if long else (SHORT,)
        self.over, self.lock = threading.Event(), threading.Lock()
        self.count, self.times = Count(), list[float]()
        self.first = threading.Semaphore(0)

    def run(self) -> Count:
        """Review until standard input ends."""
        work = [
            lambda n=n, size=size: self.reviews(f"{size}-{n}", size, kept=n > 0)
            for size in self.sizes
            for n in range(KEPT + 1)
        ]  # type: ignore[misc]
        threads = [threading.Thread(target=what) for what in (*work, self.probes, self.spares)]
        for thread in threads:
            thread.start()
        for _ in work:
            self.first.acquire()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        self.over.set()
        for thread in threads:
            thread.join()
        self.count.slowest_ms = max(self.times) * 1000
        self.count.p99_ms = statistics.quantiles(self.times, n=100)[98] * 1000
        return self.count

    def reviews(self, name: str, size: int, *, kept: bool) -> None:
        """Reviews of one client at its pace."""
        client, number = Client(self.port, self.context), 0
        while not self.over.is_set():
            number += 1
            uid, begun = f"{name}-{number}", time.monotonic()
            problem = ""
            try:
                status, said = client.ask("POST", "/mutate?timeout=10s", review(job(name, size), uid))
                problem = wrong(status, said, uid)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
            took = time.monotonic() - begun
            with self.lock:
                self.times.append(took)
                self.count.reviews += 1
                self.count.failed += bool(problem)
                self.count.slow += took > SLOW_SECONDS and not problem
                if problem and len(self.count.why) < 5:
                    self.count.why.append(f"{'kept' if kept else 'new'} {size}: {problem} ({took:.1f} s)")
            if number == 1:
                self.first.release()
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
        """Connections that finish TLS and carry nothing; made again when the server closes them."""
        held: list[Any] = []
        while not self.over.wait(0.2):
            for sock in [sock for sock in held if closed(sock)]:
                held.remove(sock)
                sock.close()
            try:
                while len(held) < SPARE:
                    raw = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
                    held.append(self.context.wrap_socket(raw, server_hostname="localhost"))
            except OSError:
                continue  # in the next turn, then
        for sock in held:
            sock.close()


def wrong(status: int, said: bytes, uid: str) -> str:
    """What is wrong with the answer to a live review; empty where it is the one that was due."""
    if status != 200:
        return f"status {status}: {said[:80]!r}"
    response = json.loads(said)["response"]
    if response["uid"] != uid:
        return f"the answer to {response['uid']}, not to {uid}"
    if not response["allowed"] or not json.loads(base64.b64decode(response.get("patch", "bnVsbA=="))):
        return f"no patch: {said[:80]!r}"
    return ""


def main() -> None:
    """Run as the argument says."""
    given = json.loads(sys.argv[1])
    found = Live(given["port"], given["ca"], long=given["long"]).run()
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()

"""One server of the comparison: ``python -m tests.bench.serving.contender KIND DIRECTORY``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication

from webhook.server import Listener, TlsFiles, serve

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 4


def review(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """About as much processor time as a review: the body is read and written a few times."""
    body = environ["wsgi.input"].read()
    for _ in range(4):
        body = json.dumps(json.loads(body)).encode()
    start_response("200 OK", [("Content-Length", str(len(body))), ("Content-Type", "application/json")])
    return [body]


class Stock(BaseApplication):  # type: ignore[misc]
    """gunicorn with one of its own workers, set as kindly as its settings permit."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind, self.directory = kind, directory
        super().__init__()

    def load_config(self) -> None:
        """Set what a user of gunicorn would set."""
        for name, value in {
            "bind": "127.0.0.1:0",
            "worker_class": self.kind,
            "threads": THREADS if self.kind == "gthread" else 1,
            "keepalive": 120,
            "certfile": str(self.directory / "tls.crt"),
            "keyfile": str(self.directory / "tls.key"),
            "control_socket_disable": True,
            "loglevel": "info",
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Any]:
        """The application."""
        return review


def main() -> None:
    """Serve until SIGTERM."""
    kind, directory = sys.argv[1], Path(sys.argv[2])
    if kind == "ours":
        tls = TlsFiles(directory / "tls.crt", directory / "tls.key")
        serve(lambda: [review], [Listener("127.0.0.1", 0)], tls)
    Stock(kind, directory).run()


if __name__ == "__main__":
    main()

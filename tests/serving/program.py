"""A program that the tests start: the real server with a small application.

``python -m tests.serving.program '{"certificate": ..., "key": ..., "limits": {...}}'``
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent

from webhook.server import Application, Limits, Listener, TlsFiles

TLS: list[TlsFiles] = []
TLS_EVENTS: Counter[str] = Counter()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answers requests. The path determines the body, whose values tests check."""
    path = environ["PATH_INFO"]
    status = "200 OK"
    if path in {"/echo", "/mutate"}:
        body = environ["wsgi.input"].read()
    elif path == "/until":
        print("asleep", file=sys.stderr, flush=True)  # noqa: T201 - a test waits for it
        while not Path(environ["QUERY_STRING"]).exists():
            gevent.sleep(0.01)
        body = b"slept"
    elif path == "/held":
        body = b"%d" % environ["gunicorn.socket"]._peers.held_bytes  # noqa: SLF001 - the bytes that a limit counts
    elif path == "/fail":
        raise RuntimeError("the application failed")
    elif path == "/large":
        body = b"x" * 8_000_000
    elif path == "/tls":
        TLS[0].watched.refresh()
        result = {
            "reloads": TLS_EVENTS["reloaded"],
            "failures": TLS_EVENTS["refused"],
            "error": TLS[0].watched.problem,
        }
        body = json.dumps({**result, "expires": str(TLS[0].expires)}).encode()
    elif path == "/where":
        body = f"{environ['wsgi.url_scheme']} {environ['SERVER_PORT']} {environ['REMOTE_ADDR']}".encode()
    else:
        body = f"{os.getpid()}".encode()
    start_response(status, [("Content-Length", str(len(body))), ("Content-Type", "text/plain")])
    return [body]


def second_application(_environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answers requests to the second listener."""
    start_response("200 OK", [("Content-Length", "5")])
    return [b"other"]


def main() -> None:
    """Runs the server with the settings in the argument, which is JSON."""
    settings = json.loads(sys.argv[1])
    listeners = [
        Listener("127.0.0.1", 0),
        *[Listener("127.0.0.1", 0, tls=False)] * settings.pop("second", False),
    ]
    limits = Limits(**settings.pop("limits", {}))
    TLS.append(TlsFiles(Path(settings.pop("certificate")), Path(settings.pop("key"))))
    TLS[0].watched.on_change = lambda event: TLS_EVENTS.update([event])
    Application(
        lambda: [application, second_application][: len(listeners)], listeners, TLS[0], limits, **settings
    ).run()


if __name__ == "__main__":
    main()

"""Serve WSGI applications over TLS: gunicorn's processes, signals, parser and gevent worker."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from webhook.serving.settings import Limits, Listener
from webhook.serving.tls import TlsFiles
from webhook.serving.worker import Worker, WsgiApp

__all__ = ["Application", "Limits", "Listener", "TlsFiles"]

LONGEST_LINE = 4094
"""Bytes of a request line or a header field; gunicorn's own default for the first."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a directory; the files in it are made by mkstemp


class Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log without its access log, which would be put together for every request."""

    def access(self, *_: object) -> None:
        """Nothing: the application logs what it answered."""


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Gives gunicorn its settings, and the worker what it serves.

    `run` serves until SIGTERM or SIGINT, finishes what has begun, and exits: with 0 when told to, 3 when the
    application could not be made, 1 when an address could not be bound.

    Args:
        make_apps: Makes the application of each listener; called in the worker process before it accepts
            connections, so that processes and files that it opens are the worker's own.
        listeners: Where they are served, in the same process and under the same limits.
        tls: The certificate; loaded before the worker starts, so that a bad one stops the start. None where
            all listeners are plain.
        limits: What peers can make a worker hold.
        settings: gunicorn's own, by its names.
    """

    def __init__(
        self,
        make_apps: Callable[[], Sequence[WsgiApp]],
        listeners: Sequence[Listener],
        tls: TlsFiles | None = None,
        limits: Limits | None = None,
        **settings: Any,  # noqa: ANN401 - gunicorn's
    ) -> None:
        self.listeners, self.tls, self.limits = listeners, tls, limits or Limits()
        self._make_apps, self._settings = make_apps, settings
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults."""
        values = {
            "bind": [listener.address for listener in self.listeners],
            # The worker takes the context from `TlsFiles`; with these gunicorn's log says https.
            **({"certfile": str(self.tls.certificate), "keyfile": str(self.tls.key)} if self.tls else {}),
            "worker_class": Worker,
            "workers": 1,  # each counts for itself; for more load there are replicas
            "logger_class": Log,
            "keepalive": int(self.limits.idle_seconds),
            # Longer than the worker's own patience, so that it is the worker that ends the waiting.
            "graceful_timeout": int(self.limits.graceful_seconds) + 2,
            # Heartbeat files: a tmpfs of every container, writable there under a read-only root as well.
            "worker_tmp_dir": _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) else None,
            "limit_request_line": LONGEST_LINE,
            "limit_request_fields": 64,
            "limit_request_field_size": LONGEST_LINE,
            # No header of a peer changes what the application is told about it: nothing proxies this server.
            "forwarded_allow_ips": "",
            "sendfile": False,
            "http_parser": "python",  # the same one wherever this is installed
            # A writable home directory would be needed, and nothing here uses it.
            "control_socket_disable": True,
            **self._settings,
        }
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> dict[Listener, WsgiApp]:
        """Make the applications, in the worker."""
        return dict(zip(self.listeners, self._make_apps(), strict=True))

"""Serves WSGI applications over TLS, with gunicorn's processes, signals, parser and gevent worker."""

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
"""Maximum size of a request line or a header field, in bytes; gunicorn's own default for the first."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a directory; the files in it are made by mkstemp


class Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log without its access log, whose lines would be formatted for every request."""

    def access(self, *_: object) -> None:
        """Logs nothing: the application logs its answers."""


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Passes gunicorn its settings, and the worker its applications.

    `run` serves until SIGTERM or SIGINT, finishes what has begun, and exits: with 0 after a signal, 3 if the
    application could not be created, 1 if an address could not be bound.

    Args:
        make_apps: Creates the application of each listener; called in the worker process before it accepts
            connections, so that processes and files that it opens are the worker's own.
        listeners: The addresses, which share one process and its limits.
        tls: The certificate, loaded before the worker starts, so that an invalid one stops the start. None if
            all listeners are plain.
        limits: Limits on what peers can make a worker hold.
        settings: gunicorn's own settings, by its names.
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
        """Sets what differs from gunicorn's defaults."""
        values = {
            "bind": [listener.address for listener in self.listeners],
            # The worker takes the context from `TlsFiles`; with these settings, gunicorn logs https.
            **({"certfile": str(self.tls.certificate), "keyfile": str(self.tls.key)} if self.tls else {}),
            "worker_class": Worker,
            "workers": 1,  # limits and metrics are per replica; replicas share the load
            "logger_class": Log,
            "keepalive": int(self.limits.idle_seconds),
            # Longer than the worker's own limit, so that the worker ends the waiting.
            "graceful_timeout": int(self.limits.graceful_seconds) + 2,
            # Heartbeat files: every container has this tmpfs, which is writable under a read-only root as
            # well.
            "worker_tmp_dir": _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) else None,
            "limit_request_line": LONGEST_LINE,
            "limit_request_fields": 64,
            "limit_request_field_size": LONGEST_LINE,
            # No header of a peer changes what the application reads about the peer: there is no proxy in
            # front.
            "forwarded_allow_ips": "",
            "sendfile": False,
            "http_parser": "python",  # the same parser in every installation
            # A writable home directory would be needed, and nothing here uses it.
            "control_socket_disable": True,
            **self._settings,
        }
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> dict[Listener, WsgiApp]:
        """Creates the applications, in the worker."""
        return dict(zip(self.listeners, self._make_apps(), strict=True))

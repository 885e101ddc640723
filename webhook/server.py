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
"""Maximum number of bytes of a request line and of a header field; gunicorn's default for a request line."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - gunicorn creates files there with mkstemp


class Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log without access logs, because gunicorn would format a line for every request."""

    def access(self, *_: object) -> None:
        """Logs nothing; the application logs its answers."""


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Runs gunicorn with the settings and the worker of this package.

    `run` serves until a signal. After SIGTERM, it finishes the requests that have begun; after another
    signal, it does not. The exit code is 0 after a signal, 3 if the application could not be created, and 1
    if an address could not be bound.

    Args:
        make_apps: Creates the application of each listener. The worker process calls this function before it
            accepts connections, so processes that the function starts and files that it opens belong to the
            worker.
        listeners: The addresses, which share one process and its limits.
        tls: The certificate; None if all listeners are plain. It is loaded before the worker starts, so that
            the program does not start with an invalid certificate.
        limits: The limits on the memory, the connections and the time that peers can use.
        settings: More settings of gunicorn, by gunicorn's names.
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
        """Sets the settings that differ from gunicorn's defaults."""
        values = {
            "bind": [listener.address for listener in self.listeners],
            # TLS contexts come from `TlsFiles`. With `certfile` and `keyfile`, gunicorn logs https URLs.
            **({"certfile": str(self.tls.certificate), "keyfile": str(self.tls.key)} if self.tls else {}),
            "worker_class": Worker,
            "workers": 1,  # limits and metrics are for one process; for more load, users add replicas
            "logger_class": Log,
            "keepalive": int(self.limits.idle_seconds),
            # Longer than the worker's own limit, so that the worker stops before gunicorn kills it.
            "graceful_timeout": int(self.limits.graceful_seconds) + 2,
            # Every container has this tmpfs, which is writable even if the root file system is read-only.
            "worker_tmp_dir": _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) else None,
            "limit_request_line": LONGEST_LINE,
            "limit_request_fields": 64,
            "limit_request_field_size": LONGEST_LINE,
            # There is no proxy, so gunicorn must not trust forwarding headers, such as X-Forwarded-Proto.
            "forwarded_allow_ips": "",
            "sendfile": False,
            "http_parser": "python",  # the same parser in every installation
            # The control socket needs a writable home directory, and this program does not use the socket.
            "control_socket_disable": True,
            **self._settings,
        }
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> dict[Listener, WsgiApp]:
        """Creates the application of each listener, in the worker process."""
        return dict(zip(self.listeners, self._make_apps(), strict=True))

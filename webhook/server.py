"""Serve a WSGI application over TLS: gunicorn's processes, signals, parser and gevent worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from webhook.serving.settings import Limits, Listener, ServerSettings, WsgiApp
from webhook.serving.tls import TlsFiles
from webhook.serving.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Limits", "Listener", "ServerSettings", "TlsFiles", "WsgiApp", "serve"]


def serve(
    make_apps: Callable[[], Sequence[WsgiApp]],
    settings: ServerSettings,
    others: Sequence[Listener] = (),
    tls: TlsFiles | None = None,
) -> NoReturn:
    """Serve until SIGTERM or SIGINT, then finish what has begun and exit.

    Args:
        make_apps: Makes the application of the settings' listener and of each other one; called in every
            worker process before it accepts connections, so that processes and files that it opens are the
            worker's own.
        settings: How to serve them.
        others: Further listeners, in the same processes and under the same limits.
        tls: The certificate, where the application wants to know of it; else the settings' files.

    Raises:
        ValueError: The certificate and key cannot be used.
        SystemExit: The server stopped: 0 when told to, 3 when the application could not be made, 1 when
            an address could not be bound.
    """
    tls = tls or TlsFiles(settings.certificate, settings.key)
    _Application(make_apps, settings, others, tls).run()
    raise SystemExit(0)


class Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log without its access log, which would be put together for every request."""

    def access(self, *_: object) -> None:
        """Nothing: the application logs what it answered."""


class _Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Gives gunicorn its settings, and the worker what it serves.

    Attributes:
        settings: As given to `serve`.
        listeners: The listeners, in gunicorn's order.
        tls: The certificate in use; loaded before the workers start, so that a bad one stops the start,
            and tickets of one worker are good at the others until the first rotation.
    """

    def __init__(
        self,
        make_apps: Callable[[], Sequence[WsgiApp]],
        settings: ServerSettings,
        others: Sequence[Listener],
        tls: TlsFiles,
    ) -> None:
        self.settings = settings
        self.listeners = [settings.listener, *others]
        self._make_apps = make_apps
        self.tls = tls
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults."""
        for name, value in gunicorn_settings(self.settings, self.listeners).items():
            self.cfg.set(name, value)

    def load(self) -> dict[Listener, WsgiApp]:
        """Make the applications, in the worker."""
        return dict(zip(self.listeners, self._make_apps(), strict=True))


def gunicorn_settings(settings: ServerSettings, listeners: Sequence[Listener]) -> dict[str, Any]:
    """Translate the settings into gunicorn's own names.

    Returns:
        Names and values for ``Config.set``.
    """
    values: dict[str, Any] = {
        "bind": [listener.address for listener in listeners],
        "worker_class": Worker,
        "logger_class": Log,
        "keepalive": settings.keepalive_seconds,
        "workers": settings.workers,
        "timeout": settings.timeout_seconds,
        # Longer than the worker's own patience, so that it is the worker that ends the waiting.
        "graceful_timeout": settings.graceful_seconds + 2,
        "worker_tmp_dir": settings.worker_tmp_dir,
        "limit_request_line": settings.limits.request_line,
        "limit_request_fields": settings.limits.header_fields,
        "limit_request_field_size": settings.limits.request_line,
        # No header of a peer changes what the application is told about it: nothing proxies this server.
        "forwarded_allow_ips": "",
        "sendfile": False,
        "http_parser": "python",  # the same one wherever this is installed
        # A writable home directory would be needed, and nothing here uses it.
        "control_socket_disable": True,
        "loglevel": settings.log_level,
    }
    if settings.listener.tls:
        # The worker takes the context from `TlsFiles`; with these gunicorn's log says https.
        values["certfile"] = str(settings.certificate)
        values["keyfile"] = str(settings.key)
    if settings.log_config is not None:
        values["logconfig_dict"] = dict(settings.log_config)
    return values

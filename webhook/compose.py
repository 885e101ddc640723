"""What the programs that serve put together: a table, the apps that answer by it, and their listeners."""

import logging.config
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import gevent
from prometheus_client import make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from common import logs
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.preview.page import error_page
from webhook.preview.views import preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource
from webhook.server import Application, Listener, TlsFiles
from webhook.serving.longwork import LongWork
from webhook.serving.worker import WsgiApp
from webhook.state import CurrentState
from webhook.work import BusyError

REVIEW_MEMORY = 64 * 1024 * 1024
"""Bytes that a review may take. To decode the longest reserves 46 MiB, of which it touches a third."""
PREVIEW_MEMORY = 96 * 1024 * 1024
"""Bytes that a preview may take; `limits.PREVIEW_VALUES` objects without a field take 80 MiB."""
POLL_SECONDS = 1.0
"""Between two looks at the files of the table and the certificate."""

log = logging.getLogger("webhook.serve")


def serve(  # noqa: PLR0913 - the options of the command
    *,
    host: str,
    port: int,
    tls_cert: Path,
    tls_key: Path,
    rules: Path | None,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
) -> None:
    """Serves admission reviews until it is asked to stop.

    Raises:
        TableError: if the rule table is wrong.
        ValueError: if a setting or the certificate cannot be used.
    """
    logging_as = _configure_logs(log_format, log_level)
    tls = TlsFiles(tls_cert, tls_key)
    listeners = [Listener(host, port)]
    if metrics_port is not None:
        listeners.append(Listener(host, metrics_port, tls=False))
    apps = partial(admission_apps, CurrentState(TableSource(rules), tls), metrics=metrics_port is not None)
    Application(apps, listeners, tls, **logging_as).run()


def serve_preview(  # noqa: PLR0913 - the options of the command
    *,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    rules: Path | None,
    placement: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Serves previews over plain HTTP until it is asked to stop; errors as of `serve`."""
    logging_as = _configure_logs(log_format, log_level)
    source = TableSource(rules, partial(load_installed, placement=placement))
    apps = partial(preview_apps, source, allowed_hosts)
    Application(apps, [Listener(host, port, tls=False)], **logging_as).run()


def admission_apps(state: CurrentState, *, metrics: bool) -> list[WsgiApp]:
    """The app of each listener, made in the worker: counters and processes are its own."""
    counters = Metrics(state)
    long_reviews, checks = LongWork(memory=REVIEW_MEMORY), LongWork(nice=10, seconds=8.0)
    gevent.spawn(keep_fresh, partial(state.refresh, checks))
    apps: list[WsgiApp] = [create_app(admission_blueprint(state, counters, long_reviews, checks))]
    if metrics:
        apps.append(DispatcherMiddleware(create_app(), {"/metrics": make_wsgi_app(counters.registry)}))
    return apps


def preview_apps(source: TableSource, allowed_hosts: Sequence[str] = ()) -> list[WsgiApp]:
    """The app of previews, made in the worker."""
    work = LongWork(memory=PREVIEW_MEMORY, seconds=8.0)
    gevent.spawn(keep_fresh, partial(source.refresh, work))
    return [create_app(preview_blueprint(source, work, allowed_hosts), render_error=error_page)]


def keep_fresh(refresh: Callable[[], object]) -> NoReturn:
    """Reads changed files for as long as the process lives."""
    while True:
        gevent.sleep(POLL_SECONDS)
        try:
            refresh()
        except BusyError:
            log.debug("the rule table is read later: too much work is waiting")
        except Exception:
            log.exception("the files could not be looked at")


def _configure_logs(form: str, level: str) -> dict[str, Any]:
    """Configures logging; returns what gunicorn is to be told of it."""
    # It installs handlers of its own unless its loggers are named.
    gunicorn = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    log_config = logs.config(form, level, {"gunicorn.error": gunicorn})
    logging.config.dictConfig(log_config)
    return {"loglevel": level, "logconfig_dict": log_config}

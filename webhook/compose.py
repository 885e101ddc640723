"""What the programs that serve put together: a table, the apps that answer by it, and their listeners."""

import logging.config
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import gevent
from prometheus_client import make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from common import logs
from common.watched import UnusableError
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.preview.page import error_page
from webhook.preview.views import preview_blueprint
from webhook.rows.table import Table
from webhook.rules.source import TableSource, Written, problem_of, table_of
from webhook.server import Application, Listener, TlsFiles
from webhook.serving.longwork import LongWork, result_of
from webhook.serving.worker import WsgiApp
from webhook.state import CurrentState
from webhook.work import BusyError, FailedError, Work

REVIEW_MEMORY = 64 * 1024 * 1024
"""Bytes that reviews may take. To decode the longest reserves 46 MiB, of which it touches a third."""
PREVIEW_MEMORY = 96 * 1024 * 1024
"""Bytes that previews may take; `limits.PREVIEW_VALUES` objects without a field take 80 MiB."""
POLL_SECONDS = 1.0
"""Between two looks at the files of the table and the certificate."""
RETRY_SECONDS = 5.0
"""After which a table is looked at again that could not be checked, for lack of time or memory."""

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
    state, metrics = CurrentState(TableSource(rules), tls), metrics_port is not None
    apps = partial(admission_apps, state, logging_as["logconfig_dict"], metrics=metrics)
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
    source = TableSource(rules, placement=placement)
    apps = partial(preview_apps, source, logging_as["logconfig_dict"], allowed_hosts)
    Application(apps, [Listener(host, port, tls=False)], **logging_as).run()


def admission_apps(state: CurrentState, log_config: dict[str, Any], *, metrics: bool) -> list[WsgiApp]:
    """The app of each listener, made in the worker: counters and processes are its own."""
    counters = Metrics(state)
    work = LongWork(state.tables, log_config, memory=REVIEW_MEMORY)
    gevent.spawn(keep_fresh, partial(state.refresh, partial(load_changed, work)))
    apps: list[WsgiApp] = [create_app(admission_blueprint(state, counters, work))]
    if metrics:
        apps.append(DispatcherMiddleware(create_app(), {"/metrics": make_wsgi_app(counters.registry)}))
    return apps


def preview_apps(
    source: TableSource, log_config: dict[str, Any], allowed_hosts: Sequence[str] = ()
) -> list[WsgiApp]:
    """The app of previews, made in the worker."""
    work = LongWork(source, log_config, memory=PREVIEW_MEMORY, seconds=8.0)
    gevent.spawn(keep_fresh, partial(source.refresh, partial(load_changed, work)))
    return [create_app(preview_blueprint(source, work, allowed_hosts), render_error=error_page)]


def load_changed(work: Work, written: Written) -> Table:
    """Returns the table of changed files, once another process has checked it; it is built in a thread.

    Raises:
        BusyError: if too much work is waiting.
        UnusableError: if the table is wrong, or to check it takes too much.
    """
    try:
        problem: str = work(0, problem_of, written)
    except FailedError as error:
        message = f"{written.path} cannot be checked: {error}"
        raise UnusableError(message, time.time() + RETRY_SECONDS) from error
    if problem:
        raise UnusableError(problem)
    with ThreadPoolExecutor(1) as thread:
        return result_of(thread.submit(table_of, written))


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

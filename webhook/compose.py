"""Composes the admission server and the preview server: rule table, applications and listeners."""

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
from webhook import messages
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.preview.fit import ask_placement
from webhook.preview.page import error_page
from webhook.preview.views import preview_blueprint
from webhook.rows.table import Table
from webhook.rules.source import TableSource, TableTexts, explain_table_error, table_of
from webhook.server import Application, Listener, TlsFiles
from webhook.serving.longwork import LongWork, result_of
from webhook.serving.worker import WsgiApp
from webhook.state import CurrentState
from webhook.work import BusyError, FailedError, Work

REVIEW_MEMORY = 64 * 1024 * 1024
"""Maximum number of bytes of memory for a review. The decoder reserves 46 MiB for the longest review."""
PREVIEW_MEMORY = 96 * 1024 * 1024
"""Maximum number of bytes of memory for a preview. 115 jobs with 4,600 Pods in JSON take 55 MiB."""
POLL_SECONDS = 1.0
"""Time between checks of the files of the table and the certificate."""
RETRY_SECONDS = 5.0
"""Time after which a table is checked again if the check had too little time or memory."""

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
    """Serves admission reviews until a signal.

    Raises:
        TableError: The rule table is invalid.
        ValueError: A setting or the certificate is invalid.
        OSError: A file cannot be read.
    """
    log_settings = _configure_logs(log_format, log_level)
    tls = TlsFiles(tls_cert, tls_key)
    listeners = [Listener(host, port)]
    if metrics_port is not None:
        listeners.append(Listener(host, metrics_port, tls=False))
    state, has_metrics = CurrentState(TableSource(rules), tls), metrics_port is not None
    apps = partial(admission_apps, state, log_settings["logconfig_dict"], has_metrics=has_metrics)
    Application(apps, listeners, tls, **log_settings).run()


def serve_preview(  # noqa: PLR0913 - the options of the command
    *,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    fit: str | None,  # the URL of the placement program
    rules: Path | None,
    placement: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Serves previews over plain HTTP until a signal; raises the same errors as `serve`."""
    log_settings = _configure_logs(log_format, log_level)
    source = TableSource(rules, placement=placement)
    apps = partial(preview_apps, source, log_settings["logconfig_dict"], allowed_hosts, fit)
    Application(apps, [Listener(host, port, tls=False)], **log_settings).run()


def admission_apps(state: CurrentState, log_config: dict[str, Any], *, has_metrics: bool) -> list[WsgiApp]:
    """Returns the application of each listener; starts `LongWork` and `keep_fresh` in the worker process."""
    counters = Metrics(state)
    state.tables.work = work = LongWork(state.tables, log_config, memory=REVIEW_MEMORY)
    gevent.spawn(keep_fresh, partial(state.refresh, partial(load_changed, work)))
    apps: list[WsgiApp] = [create_app(admission_blueprint(state, counters))]
    if has_metrics:
        apps.append(DispatcherMiddleware(create_app(), {"/metrics": make_wsgi_app(counters.registry)}))
    return apps


def preview_apps(
    source: TableSource, log_config: dict[str, Any], allowed_hosts: Sequence[str], fit_url: str | None
) -> list[WsgiApp]:
    """Returns the preview application; starts `LongWork` and `keep_fresh` in the worker process.

    ``fit_url`` is the address of the placement program. A thread calls it, because the HTTP client blocks.
    """
    source.work = work = LongWork(source, log_config, memory=PREVIEW_MEMORY, seconds=8.0)
    gevent.spawn(keep_fresh, partial(source.refresh, partial(load_changed, work)))
    threads = gevent.get_hub().threadpool
    ask = (lambda question: threads.apply(ask_placement, (fit_url, question))) if fit_url else None
    return [create_app(preview_blueprint(source, allowed_hosts, ask), render_error=error_page)]


def load_changed(work: Work, texts: TableTexts) -> Table:
    """Returns the table of changed files. Another process checks the table, and then a thread builds it.

    Raises:
        BusyError: Too much work waits.
        UnusableError: The table is invalid, or the check takes too much time or memory.
    """
    try:
        problem: str = work(0, explain_table_error, texts)
    except FailedError as error:
        message = messages.not_checked(texts.path, error)
        raise UnusableError(message, time.time() + RETRY_SECONDS) from error
    if problem:
        raise UnusableError(problem)
    with ThreadPoolExecutor(1) as thread:
        return result_of(thread.submit(table_of, texts))


def keep_fresh(refresh: Callable[[], object]) -> NoReturn:
    """Calls ``refresh``, which reads changed files, every `POLL_SECONDS`; logs its errors. Never returns."""
    while True:
        gevent.sleep(POLL_SECONDS)
        try:
            refresh()
        except BusyError:
            log.debug("the rule table is read later, because too much work is waiting")
        except Exception:
            log.exception("the files could not be checked")


def _configure_logs(form: str, level: str) -> dict[str, Any]:
    """Configures logging; returns gunicorn's logging settings."""
    # If the configuration does not have gunicorn's logger, gunicorn adds its own handlers.
    logger = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    log_config = logs.config(form, level, {"gunicorn.error": logger})
    logging.config.dictConfig(log_config)
    return {"loglevel": level, "logconfig_dict": log_config}

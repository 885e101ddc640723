"""What ``serve`` puts together: a table, the apps that answer by it, and the listeners they answer on."""

import logging.config
from pathlib import Path
from typing import NoReturn

import gevent
from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import HTTPException

from webhook import logs
from webhook.admission.app import MAX_BODY, create_app, http_error
from webhook.metrics import Metrics, StateCollector
from webhook.preview.routes import preview_routes
from webhook.rules.source import TableSource
from webhook.server import Limits, Listener, ServerSettings, TlsFiles, serve
from webhook.serving.longwork import LongWork
from webhook.work import BusyError, Work, here

POLL_SECONDS = 1.0
"""Between two looks at the files of the table and the certificate."""

log = logging.getLogger("webhook.serve")


def run(  # noqa: PLR0913 - each is an option of the command line
    *,
    rules: Path | None,
    host: str,
    port: int,
    tls_cert: Path,
    tls_key: Path,
    workers: int,
    preview: bool,
    preview_port: int | None,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
) -> NoReturn:
    """Serve until told to stop. The arguments are the options of ``serve``.

    Raises:
        TableError: if the rule table is wrong.
        ValueError: if a setting or the certificate cannot be used.
    """
    log_config = logs.config(log_level, log_format)
    logging.config.dictConfig(log_config)
    source, tls = TableSource(rules), TlsFiles(tls_cert, tls_key)

    def apps() -> list[Flask]:
        """In every worker process: what is here is its own."""
        metrics = Metrics()
        metrics.watch("table", source.watched)
        metrics.watch("certificate", tls.watched)
        long_reviews, others = LongWork(), LongWork(nice=10)
        gevent.spawn(keep_fresh, source, tls, others)
        app = create_app(source, metrics, tls.status, long_reviews, others)
        if preview:
            app.register_blueprint(preview_routes(source, others))
        made = [app]
        if preview_port is not None:
            made.append(preview_app(source, others))
        if metrics_port is not None:
            state = StateCollector(lambda: source.table().revision, source.status, tls.status)
            made.append(metrics_app(metrics, state))
        return made

    settings = ServerSettings(
        certificate=tls_cert,
        key=tls_key,
        listener=Listener(host, port),
        workers=workers,
        limits=Limits(body=MAX_BODY),
        log_level=log_level,
        log_config=log_config,
    )
    more = [("127.0.0.1", preview_port), (host, metrics_port)]
    listeners = [Listener(address, number, tls=False) for address, number in more if number is not None]
    serve(apps, settings, listeners, tls)


def keep_fresh(source: TableSource, tls: TlsFiles, work: Work) -> NoReturn:
    """Read changed files for as long as the process lives."""
    while True:
        gevent.sleep(POLL_SECONDS)
        try:
            tls.status()
            source.refresh(work)
        except BusyError:
            log.debug("the rule table is read later: too much work is waiting")
        except Exception:
            log.exception("the files could not be looked at")


def preview_app(source: TableSource, work: Work = here) -> Flask:
    """An app that serves the preview and nothing else."""
    app = Flask("preview", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)
    app.register_blueprint(preview_routes(source, work))
    return app


def metrics_app(metrics: Metrics, state: StateCollector) -> Flask:
    """An app that serves ``GET /metrics`` and nothing else."""
    app = Flask("metrics", static_folder=None)
    app.register_error_handler(HTTPException, http_error)
    app.add_url_rule(
        "/metrics", "metrics", lambda: Response(metrics.text(state), content_type=CONTENT_TYPE_LATEST)
    )
    return app

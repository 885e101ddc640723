"""What ``serve`` puts together: a table, the apps that answer by it, and the listeners they answer on."""

import logging.config
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import HTTPException

from webhook import logs
from webhook.admission.app import MAX_BODY, create_app, http_error
from webhook.metrics import Metrics, StateCollector
from webhook.preview.routes import preview_routes
from webhook.rules.source import TableSource
from webhook.server import Limits, Listener, ServerSettings, TlsFiles, serve

SHORT = tuple(f"POST {door}{end}".encode() for door in ("/mutate", "/verify", "/require") for end in "? ")
"""Requests that take about a millisecond and wait for nobody; a rule table takes a hundred to check."""

AppFactory = Callable[[], Flask]


def run(  # noqa: PLR0913 - each is an option of the command line
    *,
    rules: Path | None,
    host: str,
    port: int,
    tls_cert: Path,
    tls_key: Path,
    workers: int,
    threads: int,
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
    source, metrics = TableSource(rules), Metrics()
    tls = TlsFiles(tls_cert, tls_key, logging.getLogger("webhook.tls").warning)

    def expires() -> datetime:
        return tls.status().expires

    def admission_app() -> Flask:
        app = create_app(source, metrics, expires)
        if preview:
            app.register_blueprint(preview_routes(source))
        return app

    settings = ServerSettings(
        certificate=tls_cert,
        key=tls_key,
        listener=Listener(host, port),
        workers=workers,
        threads=threads,
        short=SHORT,
        limits=Limits(body=MAX_BODY),
        log_level=log_level,
        log_config=log_config,
    )
    others: list[tuple[Listener, AppFactory]] = []
    if preview_port is not None:
        others.append((Listener("127.0.0.1", preview_port, tls=False), lambda: preview_app(source)))
    if metrics_port is not None:
        state = StateCollector(source.status, tls.status)
        others.append((Listener(host, metrics_port, tls=False), lambda: metrics_app(metrics, state)))
    serve(admission_app, settings, others, tls)


def preview_app(source: TableSource) -> Flask:
    """An app that serves the preview and nothing else."""
    app = Flask("preview", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)
    app.register_blueprint(preview_routes(source))
    return app


def metrics_app(metrics: Metrics, state: StateCollector) -> Flask:
    """An app that serves ``GET /metrics`` and nothing else."""
    app = Flask("metrics", static_folder=None)
    app.register_error_handler(HTTPException, http_error)
    app.add_url_rule(
        "/metrics", "metrics", lambda: Response(metrics.text(state), content_type=CONTENT_TYPE_LATEST)
    )
    return app

"""What ``serve`` puts together: a table, the apps that answer by it, and the listeners they answer on."""

import logging.config
from pathlib import Path
from typing import NoReturn

from flask import Flask
from werkzeug.exceptions import HTTPException

from webhook import logs
from webhook.admission.app import MAX_BODY, create_app, http_error
from webhook.engine.table import Table
from webhook.preview.routes import preview_routes
from webhook.server import Limits, Listener, ServerSettings, serve


def run(  # noqa: PLR0913 - each is an option of the command line
    table: Table,
    *,
    host: str,
    port: int,
    tls_cert: Path,
    tls_key: Path,
    workers: int,
    threads: int,
    preview: bool,
    preview_port: int | None,
    log_level: str,
    log_format: str,
) -> NoReturn:
    """Serve until told to stop. The arguments are the options of ``serve``.

    Raises:
        ValueError: if a setting or the certificate cannot be used.
    """
    log_config = logs.config(log_level, log_format)
    logging.config.dictConfig(log_config)

    def admission_app() -> Flask:
        app = create_app(table)
        if preview:
            app.register_blueprint(preview_routes(table))
        return app

    settings = ServerSettings(
        certificate=tls_cert,
        key=tls_key,
        listener=Listener(host, port),
        workers=workers,
        threads=threads,
        limits=Limits(body=MAX_BODY),
        log_level=log_level,
        log_config=log_config,
    )
    others = []
    if preview_port is not None:
        others.append((Listener("127.0.0.1", preview_port, tls=False), lambda: preview_app(table)))
    serve(admission_app, settings, others)


def preview_app(table: Table) -> Flask:
    """An app that serves the preview and nothing else."""
    app = Flask("preview", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, http_error)
    app.register_blueprint(preview_routes(table))
    return app

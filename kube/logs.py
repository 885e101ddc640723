"""Logging: one line on standard error for each thing done; JSON for collectors, text for people."""

from __future__ import annotations

import logging.config

FORMS = ("json", "text")


def configure(form: str, program: str) -> None:
    """Set logging up for the process.

    Args:
        form: One of `FORMS`.
        program: The name of the program's own logger.
    """
    fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
    rename = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatters = {
        "json": {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": fields, "rename_fields": rename},
        "text": {"format": "%(levelname)s %(message)s"},
    }
    handler = {"class": "logging.StreamHandler", "formatter": form, "stream": "ext://sys.stderr"}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": formatters,
            "handlers": {"stderr": handler},
            # Only the program's own lines: the HTTP client logs requests, tokens included, when asked to.
            "root": {"handlers": ["stderr"], "level": "WARNING"},
            "loggers": {name: {"level": "INFO"} for name in (program, "kube")},
        }
    )

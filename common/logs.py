"""Logging: one JSON object a line on standard error for collectors, text for people."""

import logging
import logging.config
from collections.abc import Mapping
from typing import Any

from common.texts import printable

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("json", "text")


def config(form: str, level: str, loggers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A ``logging.config.dictConfig`` document for a program.

    Args:
        form: one of ``FORMS``.
        level: one of ``LEVELS``, of every logger that is not named.
        loggers: name -> what differs there, as in ``dictConfig``; the only handler is ``stderr``.
    """
    fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
    rename = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatters = {
        "json": {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": fields, "rename_fields": rename},
        "text": {"()": "common.logs.TextFormatter", "fmt": "%(levelname)s %(name)s: %(message)s"},
    }
    handler = {"class": "logging.StreamHandler", "formatter": form, "stream": "ext://sys.stderr"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": formatters,
        "handlers": {"stderr": handler},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": dict(loggers),
    }


def configure(form: str, program: str) -> None:
    """Set logging up in one of ``FORMS``, for a program that calls the API server and logs by this name."""
    # Only the program's own lines: the HTTP client logs requests, tokens included, when asked to.
    own = {name: {"level": "INFO"} for name in (program, "kube")}
    logging.config.dictConfig(config(form, "warning", own))


class TextFormatter(logging.Formatter):
    """One line a record, whatever is in it, tracebacks indented: no name can pass for a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        """The line, with all that would end it or command a terminal written out."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802
        """The traceback, indented."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))

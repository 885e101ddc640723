"""Logs to standard error: a JSON object in each line for collectors, or text for people."""

import logging
import logging.config
from collections.abc import Mapping
from typing import Any

from common.texts import printable

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "text")


def config(log_format: str, level: str, loggers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a ``logging.config.dictConfig`` document for a program.

    Args:
        log_format: One of ``FORMATS``.
        level: One of ``LEVELS``, for every logger that is not in ``loggers``.
        loggers: The settings of loggers by name, as in ``dictConfig``. The only handler is ``stderr``.
    """
    fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
    rename = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatters = {
        "json": {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": fields, "rename_fields": rename},
        "text": {"()": "common.logs.TextFormatter", "fmt": "%(levelname)s %(name)s: %(message)s"},
    }
    handler = {"class": "logging.StreamHandler", "formatter": log_format, "stream": "ext://sys.stderr"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": formatters,
        "handlers": {"stderr": handler},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": dict(loggers),
    }


def configure(log_format: str, program: str) -> None:
    """Sets up logging in one of ``FORMATS``. The loggers of the program and of ``kube`` log at INFO."""
    # Only these loggers log at INFO, because the HTTP client could log requests with their tokens.
    loggers = {name: {"level": "INFO"} for name in (program, "kube")}
    logging.config.dictConfig(config(log_format, "warning", loggers))


class TextFormatter(logging.Formatter):
    """Formats a record as one line, with tracebacks indented, so that a value cannot imitate a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        """Returns the line, with escapes for characters that end the line or control a terminal."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802
        """Returns the traceback, indented."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))

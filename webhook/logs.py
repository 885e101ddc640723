"""Logging: one JSON object a line on standard error, and never a whole object of a user's."""

import logging
from typing import Any

LEVELS = ("debug", "info", "warning", "error")


def config(level: str = "info", form: str = "json") -> dict[str, Any]:
    """A ``logging.config.dictConfig`` document for this process and gunicorn's.

    Args:
        level: one of ``LEVELS``.
        form: ``json`` for collectors, ``text`` for people.
    """
    fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
    rename = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatters = {
        "json": {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": fields, "rename_fields": rename},
        "text": {"()": "webhook.logs.TextFormatter", "fmt": "%(levelname)s %(name)s: %(message)s"},
    }
    handler = {"class": "logging.StreamHandler", "formatter": form, "stream": "ext://sys.stderr"}
    # gunicorn installs handlers of its own unless its loggers are named here.
    own = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": formatters,
        "handlers": {"stderr": handler},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {"gunicorn.error": own, "gunicorn.access": {**own, "level": "WARNING"}},
    }


class TextFormatter(logging.Formatter):
    """One line a record, whatever is in it, tracebacks indented: no name can pass for a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        """The line, with all that would end it or command a terminal written out."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802
        """The traceback, indented."""
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).split("\n"))


def escaped(text: str) -> str:
    """The text with everything that is not printable written as Python writes it in quotes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)

"""Logging: one JSON object a line on standard error, and never a whole object of a user's."""

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
        "text": {"format": "%(levelname)s %(name)s: %(message)s"},
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

"""Tests of log lines: JSON objects for log collectors, and text for people."""

import json
import logging
import logging.config
import subprocess
import sys

import pytest

from common import logs

PROGRAM = """
import logging, logging.config, sys
from common import logs
logging.config.dictConfig(logs.config(*sys.argv[1:], {}))
log = logging.getLogger("webhook.admission")
log.debug("whispered")
log.info("said %s", "twice\\nover", extra={"uid": "u-1"})
try:
    raise ValueError("broken")
except ValueError:
    log.exception("failed")
"""


def lines(*arguments: str) -> list[str]:
    """Returns the log of a new process, because a process has only one configuration of logging."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=True, text=True
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_each_json_line_is_an_object_even_with_line_breaks_and_tracebacks() -> None:
    info_entry, error_entry = (json.loads(line) for line in lines("json", "info"))
    assert (info_entry["level"], info_entry["logger"], info_entry["message"]) == (
        "INFO",
        "webhook.admission",
        "said twice\nover",
    )
    assert info_entry["uid"] == "u-1"
    assert info_entry["time"]
    assert error_entry["level"] == "ERROR"
    assert "ValueError: broken" in error_entry["exc_info"]


def test_a_text_line_has_level_logger_and_message() -> None:
    printed = lines("text", "info")
    assert printed[0] == "INFO webhook.admission: said twice\\nover"
    assert printed[-1] == "    ValueError: broken"


@pytest.mark.parametrize("end", ["\n", "\r", "\x1b[2K", "\x85", "\u2028", "\u202e", "\x00"])
def test_a_name_in_a_text_line_cannot_end_the_line_or_control_the_terminal(end: str) -> None:
    record = logging.LogRecord(
        "webhook", logging.INFO, "", 0, "allowed: %s", (f"a{end}INFO forged: é",), None
    )
    line = logs.TextFormatter("%(message)s").format(record)
    assert line.isprintable()
    assert line.startswith("allowed: a\\")
    assert line.endswith("INFO forged: é")


def test_the_lines_of_a_traceback_are_indented() -> None:
    error = ValueError("broken\nINFO forged: by a name")
    record = logging.LogRecord("w", logging.ERROR, "", 0, "failed", (), (ValueError, error, None))
    assert logs.TextFormatter("%(message)s").format(record).splitlines()[1:] == [
        "    ValueError: broken",
        "    INFO forged: by a name",
    ]


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 1)])
def test_the_level_limits_the_log(level: str, count: int) -> None:
    assert len(lines("json", level)) == count


def test_every_level_of_the_command_line_is_a_level_of_logging() -> None:
    for level in logs.LEVELS:
        assert logs.config("json", level, {})["root"]["level"] in logging.getLevelNamesMapping()

"""Tests that texts in a review cannot forge a line of the log or control a terminal."""

import io
import json
import logging
import logging.config
import re
from collections.abc import Callable, Iterator

import pytest
from werkzeug.test import Client

from common import logs
from contract import keys
from testbed.mpijob import mpijob
from tests.admission.reviews import review, send

BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\x1b[2K\r",
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1e",
    "\x00",
    "\x9b2J",
    "\u202e",
    "\x7f",
]
FORGED = "WARNING webhook.admission: allowed: forged by a user"
PLACES = [
    "namespace",
    "name",
    "username",
    "uid",
    "object name",
    "object namespace",
    "kind",
    "annotation",
    "operation",
]
LOGGED = {"namespace", "name", "kind", "annotation"}
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LEVELS = ("DEBUG ", "INFO ", "WARNING ", "ERROR ", "CRITICAL ")


def send_text(client: Client, place: str, text: str) -> int:
    """Sends a review of a job that is denied, with a text in a field; returns the HTTP status."""
    job = mpijob(annotations={keys.NODE_CONFIG: text if place == "annotation" else "3"})
    request: dict[str, object] = {}
    if place in {"namespace", "name", "operation", "uid"}:
        request[place] = text
    elif place == "username":
        request["userInfo"] = {"username": text}
    elif place.startswith("object "):
        job["metadata"][place.removeprefix("object ")] = text
    elif place == "kind":
        job["kind"] = text
    return send(client, review(job, **request)).status_code


@pytest.fixture(params=["text", "json"])
def lines(request: pytest.FixtureRequest) -> Iterator[Callable[[], list[str]]]:
    """Returns a function that returns the lines of the log, in each log format."""
    form, stream = request.param, io.StringIO()
    configuration = logs.config(form, "info", {})
    handler = logging.StreamHandler(stream)
    make = logging.config.DictConfigurator(configuration).configure_formatter
    handler.setFormatter(make(configuration["formatters"][form]))
    logger = logging.getLogger("webhook")
    before = logger.level
    logger.setLevel(logging.INFO)  # this also clears the logger's cache of enabled levels
    logger.addHandler(handler)
    yield lambda: [line for line in stream.getvalue().split("\n") if line and check_line(form, line)]
    logger.removeHandler(handler)
    logger.setLevel(before)


def check_line(form: str, line: str) -> bool:
    """Asserts that a line of the log begins with a level, or is a JSON object."""
    if form == "json":
        assert isinstance(json.loads(line), dict)
    else:
        assert line.startswith(LEVELS), line
    return True


@pytest.mark.parametrize("place", PLACES)
def test_texts_in_a_review_forge_no_line_of_the_log_and_control_no_terminal(
    client: Client, lines: Callable[[], list[str]], place: str
) -> None:
    for text in BREAKS:
        assert send_text(client, place, f"x{text}{FORGED}{text}y") in {200, 400}, text
    assert len(lines()) == len(BREAKS)
    assert not [line for line in lines() if line.startswith(FORGED) or UNSAFE.search(line)]
    if place in LOGGED:
        assert any("forged by a user" in line for line in lines())

"""What a user may write into a review cannot make a line of the log, nor reach a terminal."""

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


def sent(client: Client, place: str, text: str) -> int:
    """Returns the status of a review of a denied job, with a text in a field; the answer quotes the text."""
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
    """What the program writes to its log, in each of its forms."""
    form, stream = request.param, io.StringIO()
    configuration = logs.config(form, "info", {})
    handler = logging.StreamHandler(stream)
    make = logging.config.DictConfigurator(configuration).configure_formatter
    handler.setFormatter(make(configuration["formatters"][form]))
    logger = logging.getLogger("webhook")
    before = logger.level
    logger.setLevel(logging.INFO)  # which forgets what the logger has found to be too much
    logger.addHandler(handler)
    yield lambda: [line for line in stream.getvalue().split("\n") if line and well_formed(form, line)]
    logger.removeHandler(handler)
    logger.setLevel(before)


def well_formed(form: str, line: str) -> bool:
    """Returns a line of the log has a level or is a JSON object."""
    if form == "json":
        assert isinstance(json.loads(line), dict)
    else:
        assert line.startswith(LEVELS), line
    return True


@pytest.mark.parametrize("place", PLACES)
def test_no_text_of_a_user_makes_a_line_of_the_log_or_controls_a_terminal(
    client: Client, lines: Callable[[], list[str]], place: str
) -> None:
    for text in BREAKS:
        assert sent(client, place, f"x{text}{FORGED}{text}y") in {200, 400}, text
    assert len(lines()) == len(BREAKS)
    assert not [line for line in lines() if line.startswith(FORGED) or UNSAFE.search(line)]
    if place in LOGGED:
        assert any("forged by a user" in line for line in lines())

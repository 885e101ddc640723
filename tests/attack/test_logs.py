"""What a user may write into a review cannot make a line of the log, nor reach a terminal."""

from __future__ import annotations

import json
import re
import ssl
import time
from typing import TYPE_CHECKING

import pytest

from tests.attack.live import Client, job, review
from tests.attack.subject import Subject

if TYPE_CHECKING:
    from pathlib import Path

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
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LEVELS = ("DEBUG ", "INFO ", "WARNING ", "ERROR ", "CRITICAL ")
PATIENCE_SECONDS = 10.0


def body(place: str, text: str) -> bytes:
    """A review with a text in a place; the job asks for what is denied, so that most of it is told."""
    made = job("train", 1000, {"ultraserver-webhook.io/node-config": text if place == "annotation" else "4"})
    request: dict[str, object] = {}
    if place in {"namespace", "name", "operation"}:
        request[place] = text
    elif place == "username":
        request["userInfo"] = {"username": text}
    elif place.startswith("object "):
        made["metadata"][place.removeprefix("object ")] = text
    elif place == "kind":
        made["kind"] = text
    return review(made, text if place == "uid" else "u", **request)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_text_of_a_user_makes_a_line_of_the_log_or_controls_a_terminal(form: str, tmp_path: Path) -> None:
    with Subject(tmp_path, "--log-format", form, "--log-level", "info") as subject:
        client = Client(subject.port, ssl.create_default_context(cafile=tmp_path / "ca.crt"))
        for place in PLACES:
            for text in BREAKS:
                status, _ = client.ask("POST", "/mutate", body(place, f"x{text}{FORGED}{text}y"))
                assert status in {200, 400}, (place, text)
        client.ask("POST", "/mutate", body("name", "the-last-one"))
        client.connection.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "the-last-one" not in subject.log() and time.monotonic() < deadline:
            time.sleep(0.1)
        said = subject.log()
    assert FORGED in said or "forged by a user" in said, "nothing of it was logged, so nothing was tried"
    lines = said.split("\n")
    assert not [line for line in lines if line.startswith(FORGED)]
    assert not [line for line in lines if UNSAFE.search(line)]
    for line in filter(None, lines):
        if form == "json":
            assert isinstance(json.loads(line), dict)
        else:
            assert line.startswith(LEVELS), line

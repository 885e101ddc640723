"""Answers the preview service whether a job would start now, with the inputs of the last decision."""

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from io import BufferedIOBase
from threading import Lock
from typing import Any, Final

from common.times import stamp
from placement import messages
from placement.decide.answer import Answer, answer_for, pods_of
from placement.decide.decide import Scene

PATH: Final = "/v1/fit"
MOST_BYTES: Final = 2 * 2**20
MAX_AGE: Final = timedelta(minutes=1)
"""If the last decision is older than this, there is no answer: the cluster may have changed too much."""
PAUSE_FACTOR: Final = 9
"""The pause after an answer, as a multiple of the answer's time, because decisions need the processor."""

FORECAST_SECONDS: Final = 2.0
"""Seconds after which the forecast makes no further decision: the preview service waits for five seconds."""

LOG_PAUSE: Final = 60.0
"""Seconds after a logged error in which no other error is logged."""

RECEIVE_SECONDS: Final = 2.0
"""Maximum time for a client to send its question, because no other question is answered meanwhile."""

_log = logging.getLogger("placement")


class _UnavailableError(Exception):
    """There is no answer now; the message has the reason."""


@dataclass(slots=True)
class AnswerApp:
    """A WSGI application that answers whether a job would start now."""

    # Returns the inputs of the last decision; None if this replica does not lead or has not decided.
    scene: Callable[[], Scene | None]
    clock: Callable[[], datetime]  # returns the time
    _lock: Lock = field(default_factory=Lock, init=False)
    _next_answer: float = field(default=0.0, init=False)  # no question is answered before this time
    _next_log: float = field(default=0.0, init=False)  # no error is logged before this time

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answers a request. The status is 503 if there is no answer now, and 400 for all other errors."""
        try:
            status, body = HTTPStatus.OK, as_json(self._answer(environ))
        except _UnavailableError as error:
            status, body = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        except ValueError as error:
            status, body = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception:  # noqa: BLE001 - Pods can have any content
            if (now := time.monotonic()) >= self._next_log:  # anyone who reaches the port may cause errors
                self._next_log = now + LOG_PAUSE
                _log.exception(messages.CANNOT_ANSWER)
            status, body = HTTPStatus.BAD_REQUEST, {"error": messages.NOT_DECIDED}
        start(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if not 0 < size <= MOST_BYTES:
            raise ValueError(messages.size_of_question(MOST_BYTES))
        if (scene := self.scene()) is None:
            raise _UnavailableError(messages.NOT_LEADER)
        if self.clock() - scene.now > MAX_AGE:
            raise _UnavailableError(messages.outdated(scene.now))
        if not self._lock.acquire(blocking=False):
            raise _UnavailableError(messages.BUSY)
        try:
            if (wait := self._next_answer - time.monotonic()) > 0:
                raise _UnavailableError(messages.answered_just_now(wait))
            question = _read_question(environ["wsgi.input"], size)
            began = time.monotonic()
            try:
                pods = pods_of(json.loads(question), scene.now)
                return answer_for(scene, pods, lambda: time.monotonic() - began < FORECAST_SECONDS)
            finally:  # an error can take as long as an answer
                ended = time.monotonic()
                self._next_answer = ended + PAUSE_FACTOR * (ended - began)
        finally:
            self._lock.release()


def _read_question(stream: BufferedIOBase, size: int) -> bytes:
    """Returns the question that a client sends.

    Raises:
        ValueError: The client is too slow, or sends fewer bytes than its Content-Length.
    """
    deadline, question = time.monotonic() + RECEIVE_SECONDS, b""
    while len(question) < size:
        try:
            part = stream.read1(size - len(question))
        except TimeoutError:
            part = b""
        if not part or time.monotonic() > deadline:
            raise ValueError(messages.slow_question(RECEIVE_SECONDS))
        question += part
    return question


def as_json(answer: Answer) -> dict[str, Any]:
    """Returns an answer as JSON, with its times as texts."""
    return asdict(answer) | {"start": answer.start and stamp(answer.start), "now": stamp(answer.now)}

"""Answers the preview service: would a job start if it were created now, by what the last decision saw?"""

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
OLD: Final = timedelta(minutes=1)
"""The age of a decision after which the cluster may have changed too much."""
SHARE: Final = 9
"""An answer is followed by this many times its duration without one: decisions need the processor, too."""

LONGEST: Final = 2.0
"""Seconds after which no decision begins for an answer: the preview service waits for five."""

QUIET: Final = 60.0
"""Seconds without a second error in the log."""

SECONDS: Final = 2.0
"""Maximum time for a peer to send its question: no other one is answered meanwhile."""

_log = logging.getLogger("placement")


class _CannotError(Exception):
    """There is no answer; the message has the reason."""


@dataclass(slots=True)
class Answers:
    """A WSGI application.

    Args:
        scene: Returns what the last decision saw; None if this replica does not lead.
        clock: Returns the time.
    """

    scene: Callable[[], Scene | None]
    clock: Callable[[], datetime]
    _lock: Lock = field(default_factory=Lock, init=False)
    _free: float = field(default=0.0, init=False)
    _quiet: float = field(default=0.0, init=False)  # no error is logged before this time

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answers a request: 400 if the body is not a job, 503 if there is no answer now."""
        try:
            status, body = HTTPStatus.OK, as_json(self._answer(environ))
        except _CannotError as error:
            status, body = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        except ValueError as error:
            status, body = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception:  # noqa: BLE001 - Pods of any content
            if (now := time.monotonic()) >= self._quiet:  # anyone who reaches the port may cause it
                self._quiet = now + QUIET
                _log.exception(messages.CANNOT_ANSWER)
            status, body = HTTPStatus.BAD_REQUEST, {"error": messages.NOT_DECIDED}
        start(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if not 0 < size <= MOST_BYTES:
            raise ValueError(messages.size_of_question(MOST_BYTES))
        if (scene := self.scene()) is None:
            raise _CannotError(messages.NOT_LEADER)
        if self.clock() - scene.now > OLD:
            raise _CannotError(messages.outdated(scene.now))
        if not self._lock.acquire(blocking=False):
            raise _CannotError(messages.BUSY)
        try:
            if (wait := self._free - time.monotonic()) > 0:
                raise _CannotError(messages.answered_just_now(wait))
            question = _sent(environ["wsgi.input"], size)
            began = time.monotonic()
            try:
                pods = pods_of(json.loads(question), scene.now)
                return answer_for(scene, pods, lambda: time.monotonic() - began < LONGEST)
            finally:  # an error may take as long as an answer
                ended = time.monotonic()
                self._free = ended + SHARE * (ended - began)
        finally:
            self._lock.release()


def _sent(stream: BufferedIOBase, size: int) -> bytes:
    """Returns a question.

    Raises:
        ValueError: Its peer is too slow, or sends less than its Content-Length.
    """
    until, question = time.monotonic() + SECONDS, b""
    while len(question) < size:
        try:
            part = stream.read1(size - len(question))
        except TimeoutError:
            part = b""
        if not part or time.monotonic() > until:
            raise ValueError(messages.slow_question(SECONDS))
        question += part
    return question


def as_json(answer: Answer) -> dict[str, Any]:
    """Returns an answer with its times as text."""
    return asdict(answer) | {"start": answer.start and stamp(answer.start), "now": stamp(answer.now)}

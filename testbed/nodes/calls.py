"""Sends API requests whose answers are text or have warnings: logs, metrics, creates by dry run."""

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3

TIMEOUT_SECONDS = 30.0


class Caller:
    """Sends requests with the rights of a kubeconfig.

    Args:
        kubeconfig: A kubeconfig that ``testbed.plane.credentials`` has written.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        self._pool = urllib3.PoolManager(
            maxsize=8,
            ca_certs=cluster["certificate-authority"],
            headers={"Authorization": f"Bearer {user['token']}"},
            timeout=TIMEOUT_SECONDS,
            retries=False,
        )

    def text(self, path: str) -> str:
        """Returns the answer to a GET; an empty text if the answer is an error, or there is no answer."""
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            answer = self._pool.request("GET", f"{self._server}{path}")
            return answer.data.decode(errors="replace") if answer.status == HTTPStatus.OK else ""
        return ""

    def lines(self, path: str, seconds: float) -> Iterator[str]:
        """Yields the lines of an answer as they arrive. Ends after this many seconds without data."""
        timeout = urllib3.Timeout(connect=TIMEOUT_SECONDS, read=seconds)
        answer = self._pool.request("GET", f"{self._server}{path}", preload_content=False, timeout=timeout)
        incomplete = b""
        with contextlib.closing(answer), contextlib.suppress(urllib3.exceptions.HTTPError):
            for chunk in answer.stream(65536) if answer.status == HTTPStatus.OK else ():
                *complete, incomplete = (incomplete + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in complete)

    def post(self, path: str, document: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Posts an object.

        Returns:
            The stored object and the warnings. If the request fails, an empty object and the error.
        """
        try:
            response = self._pool.request("POST", f"{self._server}{path}", json=document)
        except urllib3.exceptions.HTTPError as error:
            return {}, str(error)
        answer = response.json()
        if response.status != HTTPStatus.CREATED:
            return {}, str(answer.get("message"))
        # A Warning header has the form `299 - "text"`.
        warnings = (re.sub(r'^\d+ \S+ "(.*)"$', r"\1", line) for line in response.headers.getlist("Warning"))
        return answer, "\n".join(f"Warning: {line}" for line in warnings)


@functools.cache
def caller(kubeconfig: Path) -> Caller:
    """Returns the caller of a kubeconfig. It is cached, so that connections are reused."""
    return Caller(kubeconfig)

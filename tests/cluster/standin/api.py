"""The API server's REST interface for a loop that asks every moment, where kubectl would be too slow."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]


class Api:
    """One kept connection, for one thread.

    Args:
        kubeconfig: as ``credentials`` writes it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        parts = urllib.parse.urlsplit(cluster["server"])
        self.host, self.port = str(parts.hostname), int(parts.port or 443)
        self._token = config["users"][0]["user"]["token"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._connection = http.client.HTTPSConnection(self.host, self.port, timeout=10, context=context)

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        self._connection.close()

    def call(self, verb: str, path: str, body: Object | None = None) -> Object:
        """Sends a request; the answer of a PATCH is to a merge patch.

        Raises:
            LookupError: the API server refused; the message has its own.
            OSError: it could not be reached.
        """
        kind = "merge-patch+json" if verb == "PATCH" else "json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        try:
            self._connection.request(verb, path, json.dumps(body) if body else None, headers)
            response = self._connection.getresponse()
            content, status = response.read(), response.status
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise OSError(str(error)) from error
        answer: Object = json.loads(content)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise LookupError(f"{verb} {path}: {status} {answer.get('message')}")
        return answer

    def items(self, path: str) -> list[Object]:
        """The objects of a collection."""
        found: list[Object] = self.call("GET", path)["items"]
        return found

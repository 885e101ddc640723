"""A webhook in the test process, which answers reviews with a function of the test."""

import base64
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from webhook.admission.handlers import mutate
from webhook.admission.review import decode, encode
from webhook.rules.load import load_default

Review = dict[str, Any]
Patch = list[dict[str, Any]]


def answer_with_patch(patch: Callable[[Review], Patch]) -> Callable[[Review], Review]:
    """Returns a function that answers a review with the patch that ``patch`` returns for its object."""

    def answer(review: Review) -> Review:
        operations = base64.b64encode(json.dumps(patch(review["request"]["object"])).encode()).decode()
        response = {"uid": review["request"]["uid"], "allowed": True}
        response |= {"patchType": "JSONPatch", "patch": operations}
        return {key: review[key] for key in ("apiVersion", "kind")} | {"response": response}

    return answer


def answer_of_webhook(review: Review) -> Review:
    """Returns the webhook's answer to a review, by the packaged table."""
    decoded = decode(json.dumps(review).encode(), 0)
    result: Review = json.loads(encode(decoded.uid, mutate(load_default(), decoded)))
    return result


def patch_of(response: Review) -> Patch:
    """Returns the operations of a response's patch, or none if it has no patch."""
    patch: Patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return patch


class _Server(http.server.ThreadingHTTPServer):
    """A server that does not log clients that disconnect."""

    def handle_error(self, *_: object) -> None:
        """Ignores errors: the API server closes idle connections."""


@contextlib.contextmanager
def serve_answers(folder: Path, answer: Callable[[Review], Review]) -> Iterator[str]:
    """Serves a webhook on loopback.

    Args:
        folder: The folder with the development certificate of a webhook.
        answer: The function that answers a review.

    Yields:
        The address of the server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            response = json.dumps(answer(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        # The thread of a connection performs its handshake, so that a silent client does not block others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

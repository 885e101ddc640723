"""Calls the API server through ``kubectl proxy``, which supports all ways to log in.

The proxy listens on a socket in a folder that only the user can read, and stops when this program stops.
"""

import atexit
import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Final, NamedTuple

from kube.api import ApiError
from kube.rest import Answer, RestApi, TooLongError
from kubectl_ultraserver import messages

TIMEOUT_SECONDS: Final = 30
"""Timeout of one call, which may include a login."""
_END_WITH_STDIN: Final = (
    'exec 3<&0; "$@" </dev/null & child=$!; { read -r _ <&3; kill $child; } >/dev/null 2>&1 & wait $child'
)
"""A shell script that runs a command until standard input closes, which happens when this program ends."""


class Reply(NamedTuple):
    """The answer to a request of `ProxiedApi.pass_on`."""

    status: int  # the HTTP status
    headers: Message  # the headers of the answer
    data: bytes  # the body


class _Connection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ProxiedApi(RestApi):
    """An API server behind the socket of ``kubectl proxy``. `fetch` uses one persistent connection."""

    def __init__(self, path: str, kubectl: Sequence[str] = ()) -> None:
        """Stores the path of the socket, and the command of kubectl; sends nothing yet."""
        self._connection, self._kubectl = _Connection(path), kubectl

    def fetch(self, verb: str, path: str, body: object, content_type: str, max_bytes: int | None) -> Answer:
        """Sends one request (see `RestApi`)."""
        content, headers = None, {"Accept": "application/json"}
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body)
            headers["Content-Type"] = content_type
        try:
            self._connection.request(verb, path, content, headers)
            response = self._connection.getresponse()
            data = response.read(None if max_bytes is None else max_bytes + 1)
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise ApiError(f"{verb} {path}: {error}") from error
        if max_bytes is not None and len(data) > max_bytes:
            self._connection.close()
            raise TooLongError
        return response.status, data

    def dry_run(self, source: str, data: bytes, *options: str) -> int:
        """Runs kubectl, which creates the objects of a file as a dry run; returns kubectl's exit code."""
        file = "-" if source == "<stdin>" else source
        command = [*self._kubectl, "create", "--dry-run=server", f"--filename={file}", *options]
        return subprocess.run(command, check=False, input=data).returncode  # noqa: S603 - kubectl

    def pass_on(self, verb: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Sends a request unchanged over a new connection, as threads call this method. Returns the answer.

        Raises:
            ApiError: The API server does not answer.
        """
        try:
            with contextlib.closing(_Connection(self._connection.path)) as connection:
                connection.request(verb, path, body, dict(headers))
                response = connection.getresponse()
                return Reply(response.status, response.headers, response.read())
        except (http.client.HTTPException, OSError) as error:
            raise ApiError(f"{verb} {path}: {error}") from error


def connect_as_user(kubeconfig: Path | None, context: str | None) -> tuple[ProxiedApi, str]:
    """Returns the API server and the namespace that kubectl would use.

    Args:
        kubeconfig: A kubeconfig; None for the files of the variable ``KUBECONFIG``, or ``~/.kube/config``.
        context: A context of the kubeconfig; None for the current context.

    Raises:
        ApiError: There is no kubectl, or it cannot reach an API server.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise ApiError(messages.NO_KUBECTL)
    options = {"kubeconfig": kubeconfig, "context": context}
    kubectl_call = [kubectl, *(f"--{option}={value}" for option, value in options.items() if value)]
    view = [*kubectl_call, "config", "view", "--minify", "--output=jsonpath={..namespace}"]
    result = subprocess.run(view, check=False, capture_output=True, text=True)  # noqa: S603 - kubectl
    if result.returncode:
        problem = result.stderr.strip()
        if not problem.removeprefix("error: ").startswith("current-context must exist"):
            raise ApiError(messages.bad_kubeconfig(problem))
        raise ApiError(messages.NO_KUBECONFIG)
    folder = tempfile.mkdtemp(prefix="ku-")  # a short name: the path of a socket has at most 108 characters
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = str(Path(folder) / "s")
    command = ["/bin/sh", "-c", _END_WITH_STDIN, "sh", *kubectl_call, "proxy", f"--unix-socket={path}"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)  # noqa: S603 - as above
    atexit.register(_end_process, process)
    if process.stdout is None or not process.stdout.readline():  # the proxy prints a line when it listens
        raise ApiError(messages.unreachable(process.communicate()[1].strip()))
    return ProxiedApi(path, kubectl_call), result.stdout.strip() or "default"


def _end_process(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ValueError):  # the process's pipes have been read already
        process.communicate(timeout=TIMEOUT_SECONDS)

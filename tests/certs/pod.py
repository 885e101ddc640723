"""What a kubelet, a webhook pod and its users do, on loopback: mount, serve, ask, steadily."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from certs.observed import bundle_pem, read_hook
from certs.paths import webhook_configuration
from kube.client import connect
from tests.certs.installation import data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.certs.installation import Installation


@dataclass
class Background:
    """Does something again and again in a thread, until the end of a ``with``; errors end up in ``failures``.

    Args:
        work: done every ``pause`` seconds.
    """

    work: Callable[[], None]
    pause: float
    failures: list[str] = field(default_factory=list)
    done: int = 0

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stop.wait(self.pause):
            try:
                self.work()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test asks about
                self.failures.append(f"{type(error).__name__}: {error}")
            else:
                self.done += 1


@dataclass
class Mount:
    """A Secret as a folder, which changes as a kubelet changes it: by one rename of a symbolic link."""

    folder: Path
    installed: Installation
    version: str = ""

    def refresh(self) -> None:
        """Writes the Secret's newest version, if it is another one; a deleted Secret's files stay."""
        secret = self.installed.secret()
        if secret is None or secret["metadata"]["resourceVersion"] == self.version:
            return
        self.version = secret["metadata"]["resourceVersion"]
        files = data(secret)
        fresh = self.folder / f"..{self.version}"
        fresh.mkdir(parents=True)
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        link, before = self.folder / "..data", None
        if link.is_symlink():
            before = self.folder / os.readlink(link)  # noqa: PTH115
        new = self.folder / "..data_tmp"
        new.symlink_to(fresh.name)
        new.replace(link)
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        if before:
            shutil.rmtree(before)


class Client:
    """A client that trusts what a caBundle says at that moment, and makes a new connection every time."""

    def __init__(self, installed: Installation, kubeconfig: Path, port: int) -> None:
        self.installed, self.port = installed, port
        self.api = connect(kubeconfig)
        self.seen: set[bytes] = set()

    def handshake(self) -> None:
        """Verifies the webhook by the caBundle.

        Raises:
            ssl.SSLError: it does not verify.
        """
        name = self.installed.name
        hook = read_hook("mutating", name, self.api.get(webhook_configuration("mutating", name)))
        context = ssl.create_default_context(cadata=bundle_pem(hook.bundles[0]).decode())
        with (
            socket.create_connection(("127.0.0.1", self.port), 10) as plain,
            context.wrap_socket(plain, server_hostname=f"{name}.{name}.svc") as secure,
        ):
            self.seen.add(secure.getpeercert(binary_form=True) or b"")

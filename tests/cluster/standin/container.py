"""A container as a process: its spec and volumes in, a running program out."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster import webhook
from tests.cluster.standin import volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.process import Program, Programs

Object = dict[str, Any]
SCRIPT = Path(__file__).with_name("container.sh")
BIN = Path(sys.executable).parent
# A folder before what is in it, which then is there already.
KEEP = ":".join(sorted({sys.base_prefix, sys.prefix, str(webhook.REPOSITORY)}, key=len))


@functools.cache
def unusable() -> str:
    """Why Pods cannot be stood in for on this machine; empty where they can."""
    lacking = [name for name in ("unshare", "setpriv", "chroot") if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} is not there"
    probe = ["unshare", "--mount", "--uts", "--propagation=private", "setpriv", "--bounding-set=-all", "true"]
    return subprocess.run(probe, check=False, capture_output=True, text=True).stderr.strip()


@dataclass
class Pod:
    """A Pod of the API server's, and the process that stands for it.

    Attributes:
        spec: of the Pod.
        name: of the Pod.
        folder: with its volumes.
        ip: its address on loopback.
        labels: of the Pod.
        token: of its account, where the spec mounts one.
        program: None while it is not started.
        leaves_at: when it is to get SIGTERM, of a monotonic clock; None while it is to stay.
        ready: whether its readiness probe said so last.
        ending: whether it has got SIGTERM.
    """

    spec: Object
    name: str
    folder: Path
    ip: str
    labels: Mapping[str, str]
    token: str = ""
    program: Program | None = None
    leaves_at: float | None = None
    ready: bool = False
    ending: bool = False

    @property
    def container(self) -> Object:
        """Its one container."""
        found: Object = self.spec["containers"][0]
        return found

    def write_volumes(self, sources: volumes.Sources) -> None:
        """Makes or refreshes them; see ``volumes.write``."""
        group = self.spec["securityContext"]["fsGroup"]
        for volume in self.spec.get("volumes", ()):
            volumes.write(self.folder / "volumes" / volume["name"], volume, sources.files(volume), group)

    def start(self, programs: Programs, told: Mapping[str, str]) -> None:
        """Starts the container's own command.

        Args:
            programs: what stops it if nobody else does.
            told: environment beside the container's own: what the kubelet tells, and the Pod's address.
        """
        root, mounts = self.folder / "root", self.folder / "mounts"
        root.mkdir(parents=True, exist_ok=True)
        lines = (
            f"{self.folder}/volumes/{mount['name']} {mount['mountPath']} "
            + ("ro" if mount.get("readOnly") else "rw")
            for mount in self.container["volumeMounts"]
        )
        mounts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        own = {item["name"]: item["value"] for item in self.container.get("env", ())}
        env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/", "HOSTNAME": self.name, **told, **own}
        user = self.spec["securityContext"]
        command = [
            "unshare",
            "--mount",
            "--uts",
            "--propagation=private",
            str(SCRIPT),
            str(root),
            str(mounts),
        ]
        command += [str(user["runAsUser"]), str(user["runAsGroup"])]
        command += [f"{key}={value}" for key, value in env.items()] + ["--"]
        self.program = programs.start(
            self.name,
            [*command, *self.container["command"], *self.container.get("args", ())],
            env={"PATH": os.environ["PATH"], "KEEP": KEEP},
        )

    def runs(self) -> bool:
        """Whether its process is there and has not ended."""
        if self.program is None:
            return False
        try:
            stat = Path(f"/proc/{self.program.pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    def kill(self) -> None:
        """Ends it at once, as a node that fails does."""
        if self.program is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.program.pid, signal.SIGKILL)

    def terminate(self, seconds: float) -> None:
        """SIGTERM to its first process alone, as the kubelet sends it, and time to finish."""
        if self.program is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.program.pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while self.runs() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill()

    def port(self, name: str | int) -> int:
        """A port of the container by its name."""
        ports = {item["name"]: item["containerPort"] for item in self.container["ports"]}
        return name if isinstance(name, int) else ports[name]

    def answers(self) -> bool:
        """Asks what the readiness probe asks, as the kubelet does: over TLS, without verifying."""
        if self.program is None:
            return False
        probe = self.container["readinessProbe"]["httpGet"]
        address, context = (self.ip, self.port(probe["port"])), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        tls = http.client.HTTPSConnection(*address, timeout=2, context=context)
        connection = (
            tls if probe.get("scheme") == "HTTPS" else http.client.HTTPConnection(*address, timeout=2)
        )
        try:
            connection.request("GET", probe["path"])
            with connection.getresponse() as response:
                return response.status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def pause(self) -> float:
        """Seconds between being told to leave and SIGTERM."""
        hook = self.container.get("lifecycle", {}).get("preStop", {})
        return float(hook.get("sleep", {}).get("seconds", 0))

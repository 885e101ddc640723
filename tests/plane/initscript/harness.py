"""Pods on this machine: each pod has its own network, mount, process and host name namespaces.

A fleet is a launcher and its workers on a bridge. Workers run Debian's sshd with its default configuration.
Each pod has its own /etc, /root, /run, /tmp and /sys/class. All pods are descendants of one process: when
this process dies, the kernel ends them.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from testbed.topology import Sysfs, servers, write
from testbed.waiting import NotYetError, until
from tests.plane.initscript.machine import PATH, child, enter, keygen

HERE = Path(__file__).parent
# The ssh configuration of mpi-operator's base image.
BASE_IMAGE_SSH = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
MPIUSER = 2000
Format = Literal["openmpi", "hydra"]


class Fleet:
    """The launcher and the workers of a job.

    Args:
        workers: The number of workers, or the sysfs files of each worker.
        job: The name of the job.
        namespace: The namespace of the job.
        late: The numbers of workers that are in the hostfile, but are not started; see `start`.
        slots: The slots of each worker in the hostfile.
        style: The format of the hostfile.
        launcher_ssh: The file /etc/ssh/ssh_config in the image of the launcher.
        launcher_is_worker: Whether the launcher is in the hostfile, with the first sysfs files.
        uid: The user of the images.
        sshd: Further arguments of the workers' sshd.
    """

    def __init__(  # noqa: PLR0913 - the properties of a fleet
        self,
        workers: int | Sequence[Sysfs],
        *,
        job: str = "demo",
        namespace: str = "default",
        late: Collection[int] = (),
        slots: int = 1,
        style: Format = "openmpi",
        launcher_ssh: str = BASE_IMAGE_SSH,
        launcher_is_worker: bool = False,
        uid: int = 0,
        sshd: Sequence[str] = (),
    ) -> None:
        topology = servers(workers) if isinstance(workers, int) else list(workers)
        self.job, self.namespace, self.uid, self._sshd, self._late = job, namespace, uid, tuple(sshd), late
        self.launcher = f"{job}-launcher"
        launchers = [self.launcher] if launcher_is_worker else []
        self.workers = [f"{job}-worker-{number}" for number in range(len(topology) - len(launchers))]
        self.sysfs = dict(zip(launchers + self.workers, topology, strict=True))
        entry = f"{{}} slots={slots}\n" if style == "openmpi" else f"{{}}:{slots}\n"
        self.hostfile = "".join(entry.format(self.fqdn(name)) for name in self.sysfs)
        self._ssh_config = launcher_ssh
        self._pods: dict[str, subprocess.Popen[bytes]] = {}

    def fqdn(self, name: str) -> str:
        """Returns the name of a pod in the hostfile."""
        return f"{name}.{self.job}.{self.namespace}.svc"

    def __enter__(self) -> Self:
        # The folder is on tmpfs, because the upper layer of an overlay cannot be on an overlay. The root file
        # system of a container often is an overlay.
        shm = Path("/dev/shm")  # noqa: S108 - only a private folder in it is used
        self.folder = Path(tempfile.mkdtemp(prefix="us-fleet-", dir=shm if shm.is_dir() else None))
        self.folder.chmod(0o755)
        key = self.folder / "id_rsa"
        # mpi-operator creates keys of this type and format.
        keygen(key, "-t", "ecdsa", "-b", "521", "-m", "PEM")
        self._root = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork",
             "--kill-child", "--mount-proc", "bash", HERE / "fleet.sh"],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert self._root.stdout is not None
            assert self._root.stdout.readline() == b"ready\n"
            started = (name for number, name in enumerate(self.workers) if number not in self._late)
            self.start(self.launcher, *started)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._root.kill()
        for process in (*self._pods.values(), self._root):
            process.wait(30)
        assert self._root.stdout is not None
        self._root.stdout.close()
        shutil.rmtree(self.folder)

    def start(self, *names: str) -> None:
        """Starts pods at the same time, and waits until their process 1 runs."""
        for name in names:
            self._prepare(name)
            number = 0 if name == self.launcher else self.workers.index(name) + 1
            sshd = ["/usr/sbin/sshd", "-De", "-o", "StrictModes=no", "-h", str(self._key(name)), *self._sshd]
            program = ["sleep", "infinity"] if name == self.launcher else [*self._as_user(), *sshd]
            node = [str(HERE / "node.sh"), str(self.folder / name), name, str(number), *program]
            with (self.folder / f"{name}.log").open("ab") as log:
                self._pods[name] = subprocess.Popen(
                    [*enter(child(self._root.pid), "mount", "net", "pid"),
                     "unshare", "--net", "--mount", "--uts", "bash", *node],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )  # fmt: skip
        for name in names:
            self._wait(name)

    def stop(self, name: str) -> None:
        """Kills a pod and its network at once, as when its node dies."""
        subprocess.run(["kill", "-KILL", str(self._init(name))], check=True)
        self._pods.pop(name).wait(30)

    def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        pod: str = "",
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command of a container in a pod.

        Args:
            command: The ``command`` of the container.
            env: The environment of the container.
            pod: The name of the pod; empty for the launcher.
            timeout: The maximum duration in seconds.

        Returns:
            The output and the exit code of the command.
        """
        full_command = self._enter(command, env or {}, pod or self.launcher)
        return subprocess.run(full_command, check=False, capture_output=True, text=True, timeout=timeout)

    def spawn(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts the command of a container in the launcher."""
        full_command = self._enter(command, env or {}, self.launcher)
        return subprocess.Popen(full_command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    @property
    def running(self) -> Collection[str]:
        """The names of the pods that run."""
        return self._pods.keys()

    def as_root(self, command: Sequence[str], pod: str) -> None:
        """Runs a command in a pod as root, even if its image has another user."""
        subprocess.run([*self._inside(pod), *command], check=True)

    def read(self, pod: str, path: str) -> str:
        """Returns the text of a file in a pod."""
        return self.run(["cat", path], pod=pod).stdout

    def write(self, pod: str, path: str, text: str) -> None:
        """Writes a file in a pod."""
        done = self.run(["bash", "-c", 'printf %s "$1" >"$2"', "write", text, path], pod=pod)
        assert not done.returncode, done.stderr

    def environment(self, pod: str) -> dict[str, str]:
        """Returns the ``NEURON_`` variables in the file /etc/environment of a pod."""
        lines = self.read(pod, "/etc/environment").splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("NEURON_"))

    def _enter(self, command: Sequence[str], env: Mapping[str, str], pod: str) -> list[str]:
        home = "/root" if self.uid == 0 else "/home/mpiuser"
        base = {"PATH": PATH, "HOME": home, "HOSTNAME": pod, **env}
        entries = [f"{name}={value}" for name, value in base.items()]
        return [*self._inside(pod), *self._as_user(), "env", "-i", *entries, *command]

    def _inside(self, pod: str) -> list[str]:
        return enter(self._init(pod), "mount", "net", "uts", "pid")

    def _as_user(self) -> list[str]:
        if self.uid == 0:
            return []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]

    def _init(self, name: str) -> int:
        return child(child(self._pods[name].pid))

    def _key(self, name: str) -> Path:
        return self.folder / name / "host_key"

    def _prepare(self, name: str) -> None:
        folder = self.folder / name
        if folder.exists():
            shutil.rmtree(folder)
        for directory in ("etc/mpi", "etc/ssh", "work", "root/.ssh", "sys"):
            (folder / directory).mkdir(parents=True)
        (folder / "root").chmod(0o700)
        keygen(self._key(name), "-t", "ed25519")
        public = (self.folder / "id_rsa.pub").read_text()
        (folder / "root/.ssh/authorized_keys").write_text(public)
        self._write_etc(name, folder / "etc")
        if name in self.sysfs:
            self.report(name, self.sysfs[name])
        # The operator mounts the Secret in workers too. If the image has another user, all users may read it.
        shutil.copy(self.folder / "id_rsa", folder / "root/.ssh/id_rsa")
        (folder / "root/.ssh/id_rsa").chmod(0o644 if self.uid else 0o600)
        for path in (folder / "root", folder / "root/.ssh", self._key(name)):
            os.chown(path, self.uid, self.uid)

    def report(self, name: str, sysfs: Sysfs) -> None:
        """Writes the files that the Neuron driver of a pod reports."""
        write(self.folder / name / "sys/neuron_device", sysfs)

    def _write_etc(self, name: str, etc: Path) -> None:
        pods = (self.launcher, *self.workers)
        addresses = [f"10.77.{number // 250}.{number % 250 + 1}" for number in range(len(pods))]
        hosts = "".join(f"{ip} {self.fqdn(pod)} {pod}\n" for ip, pod in zip(addresses, pods, strict=True))
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        (etc / "hostname").write_text(f"{name}\n")
        (etc / "environment").write_text("LANG=C.UTF-8\n")
        (etc / "ssh/ssh_config").write_text(self._ssh_config)
        users = Path("/etc/passwd").read_text()
        (etc / "passwd").write_text(f"{users}mpiuser:x:{MPIUSER}:{MPIUSER}::/home/mpiuser:/bin/bash\n")
        if name == self.launcher:
            (etc / "mpi/hostfile").write_text(self.hostfile)

    def _wait(self, name: str) -> None:
        def runs() -> bool:
            with suppress(OSError, IndexError):
                return Path(f"/proc/{self._init(name)}/comm").read_text().strip() in ("sshd", "sleep")
            return False

        try:
            until(runs, f"process 1 of {name}", every=0.02)
        except NotYetError as error:
            raise NotYetError(f"{error}\n{(self.folder / f'{name}.log').read_text()}") from None

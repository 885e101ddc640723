"""Pods on this machine: every one has its own network, mount, process and host name namespaces.

A fleet is a launcher and its workers on a bridge of their own. Workers run Debian's sshd with its stock
configuration; /etc, /root, /run, /tmp and /sys/class are each pod's own, under their true paths. All of it
hangs on one process: when that dies, the kernel removes the rest.
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
# As mpi-operator's base image has it.
BASE_IMAGE_SSH = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
MPIUSER = 2000
Format = Literal["openmpi", "hydra"]


class Fleet:
    """A job's launcher and workers.

    Args:
        workers: How many worker pods, or what each has in its sysfs.
        job: The job's name.
        namespace: Where the job is.
        late: Workers that are known by name but not started; see `start`.
        slots: Slots per worker in the hostfile.
        style: The hostfile's format.
        launcher_ssh: The launcher image's /etc/ssh/ssh_config.
        launcher_is_worker: Whether the launcher is in the hostfile and has the first sysfs.
        uid: Which user the images run as.
        sshd: More arguments of every worker's sshd.
    """

    def __init__(  # noqa: PLR0913 - a fleet has that many properties
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
        own = [self.launcher] if launcher_is_worker else []
        self.workers = [f"{job}-worker-{number}" for number in range(len(topology) - len(own))]
        self.sysfs = dict(zip(own + self.workers, topology, strict=True))
        entry = f"{{}} slots={slots}\n" if style == "openmpi" else f"{{}}:{slots}\n"
        self.hostfile = "".join(entry.format(self.fqdn(name)) for name in self.sysfs)
        self._ssh_config = launcher_ssh
        self._pods: dict[str, subprocess.Popen[bytes]] = {}

    def fqdn(self, name: str) -> str:
        """Returns a pod's name in the hostfile."""
        return f"{name}.{self.job}.{self.namespace}.svc"

    def __enter__(self) -> Self:
        # On tmpfs: an overlay's upper layer cannot itself be on an overlay, as a container's root often is.
        shm = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
        self.folder = Path(tempfile.mkdtemp(prefix="us-fleet-", dir=shm if shm.is_dir() else None))
        self.folder.chmod(0o755)
        key = self.folder / "id_rsa"
        # The operator's kind of key, in the operator's kind of file.
        keygen(key, "-t", "ecdsa", "-b", "521", "-m", "PEM")
        self._root = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork",
             "--kill-child", "--mount-proc", "bash", HERE / "fleet.sh"],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert self._root.stdout is not None
            assert self._root.stdout.readline() == b"ready\n"
            prompt = (name for number, name in enumerate(self.workers) if number not in self._late)
            self.start(self.launcher, *prompt)
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
        """Starts pods: all at the same time, and waits until their process 1 runs."""
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
        """Kills a pod as a dying node does: its network is gone at once."""
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
        """Runs a container's command in a pod, the launcher unless another is named.

        Args:
            command: As in the pod object.
            env: The container's environment.
            pod: Which pod.
            timeout: After how many seconds the test fails.

        Returns:
            Its output and exit code.
        """
        whole = self._enter(command, env or {}, pod or self.launcher)
        return subprocess.run(whole, check=False, capture_output=True, text=True, timeout=timeout)

    def spawn(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a container's command in the launcher."""
        whole = self._enter(command, env or {}, self.launcher)
        return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    @property
    def running(self) -> Collection[str]:
        """The pods that run."""
        return self._pods.keys()

    def as_root(self, command: Sequence[str], pod: str) -> None:
        """Runs a command in a pod as root, with any user of its image."""
        subprocess.run([*self._inside(pod), *command], check=True)

    def read(self, pod: str, path: str) -> str:
        """Returns the text of a file as the pod sees it."""
        return self.run(["cat", path], pod=pod).stdout

    def write(self, pod: str, path: str, text: str) -> None:
        """Writes a file as the pod sees it."""
        done = self.run(["bash", "-c", 'printf %s "$1" >"$2"', "write", text, path], pod=pod)
        assert not done.returncode, done.stderr

    def environment(self, pod: str) -> dict[str, str]:
        """Returns the five variables in a worker's /etc/environment."""
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
        for path in ("etc/mpi", "etc/ssh", "work", "root/.ssh", "sys"):
            (folder / path).mkdir(parents=True)
        (folder / "root").chmod(0o700)
        keygen(self._key(name), "-t", "ed25519")
        public = (self.folder / "id_rsa.pub").read_text()
        (folder / "root/.ssh/authorized_keys").write_text(public)
        self._etc(name, folder / "etc")
        if name in self.sysfs:
            self.report(name, self.sysfs[name])
        # As the operator mounts the Secret, in workers too: owned by root, open to other users outside /root.
        shutil.copy(self.folder / "id_rsa", folder / "root/.ssh/id_rsa")
        (folder / "root/.ssh/id_rsa").chmod(0o644 if self.uid else 0o600)
        for owned in (folder / "root", folder / "root/.ssh", self._key(name)):
            os.chown(owned, self.uid, self.uid)

    def report(self, name: str, sysfs: Sysfs) -> None:
        """Lets a pod's driver say something else."""
        write(self.folder / name / "sys/neuron_device", sysfs)

    def _etc(self, name: str, etc: Path) -> None:
        every = (self.launcher, *self.workers)
        address = [f"10.77.{number // 250}.{number % 250 + 1}" for number in range(len(every))]
        hosts = "".join(f"{ip} {self.fqdn(pod)} {pod}\n" for ip, pod in zip(address, every, strict=True))
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

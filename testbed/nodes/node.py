"""Runs a node: containerd, kubelet and kube-proxy in the node's own namespaces."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.nodes import configs
from testbed.nodes.addresses import Host
from testbed.nodes.namespaces import PATH, Namespaces
from testbed.plane.process import ClusterError, Program, Programs
from testbed.waiting import PATIENCE

SETUP = Path(__file__).with_name("node.sh")


class Node:
    """A node and its programs.

    Args:
        host: The name and addresses of the node.
        namespaces: The namespaces of the plane.
        programs: Starts and stops the node's programs.
        tools: The folder of a node's programs.
        credentials: The folder with kubeconfigs and certificates.
    """

    def __init__(
        self, host: Host, namespaces: Namespaces, programs: Programs, tools: Path, credentials: Path
    ) -> None:
        self.host = host
        self.folder = namespaces.folder / host.name
        self._namespaces, self._programs, self._tools = namespaces, programs, tools
        self._credentials = credentials
        self._process = 0
        self._running: dict[str, Program] = {}

    def join(self) -> None:
        """Creates the node's namespaces, and connects them to the plane's network."""
        self.folder.mkdir(exist_ok=True)
        holder_command = [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--propagation=private",
            "sleep",
            "infinity",
        ]
        holder = self._start("holder", holder_command, self._namespaces.first_process)
        holder.wait_ready(lambda: _child(holder.pid, "sleep") > 0, PATIENCE)
        self._process = _child(holder.pid, "sleep")
        # `ip` runs in the plane's PID namespace, and needs the process id there.
        status = Path(f"/proc/{self._process}/status").read_text(encoding="ascii")
        pid = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
        interface, host = f"node{self.host.number}", self.host
        self._namespaces.run(["ip", "link", "add", interface, "type", "veth", "peer", "eth0", "netns", pid])
        self._namespaces.run(["ip", "link", "set", interface, "master", "nodes", "up"])
        self._namespaces.run(["ip", "route", "add", host.pod_subnet, "via", host.address])
        cgroup = self._namespaces.cgroup
        self.run("sh", str(SETUP), host.name, host.address, host.gateway, str(self.folder), cgroup)

    def start_runtime(self) -> None:
        """Starts containerd."""
        networks = self.folder / "networks"
        networks.mkdir(exist_ok=True)
        network = configs.pod_network(self.host, self.folder / "addresses")
        (networks / "10-pods.conflist").write_text(network, encoding="utf-8")
        config = self._write("containerd.toml", configs.containerd(networks))
        self._running["containerd"] = self._start("containerd", ["containerd", f"--config={config}"])

    def wait_runtime(self) -> None:
        """Waits until containerd answers."""
        self._running["containerd"].wait_ready(self._runtime_answers, PATIENCE)

    def start_kubelet(self) -> None:
        """Starts the kubelet. `wait_kubelet` waits until the node is ready."""
        host = self.host
        cgroup = f"/{self._namespaces.cgroup}/{host.name}"
        resolv = self._write("resolv.conf", "")
        config = self._write("kubelet.json", configs.kubelet(host, cgroup, self._credentials, resolv))
        labels = ",".join(f"{key}={value}" for key, value in host.labels.items())
        kubelet = ["kubelet", f"--config={config}", f"--kubeconfig={self.kubeconfig}"]
        kubelet += ["--root-dir=/var/lib/kubelet", f"--hostname-override={host.name}"]
        kubelet += [f"--node-ip={host.address}", f"--node-labels={labels}", "--v=2"]
        self._running["kubelet"] = self._start("kubelet", kubelet)

    def wait_kubelet(self, ready: Callable[[], bool]) -> None:
        """Waits until the API server shows that the node is ready.

        Raises:
            ClusterError: The kubelet has ended, or is not ready in time; the message quotes its log.
        """
        self._running["kubelet"].wait_ready(ready, PATIENCE)

    def start_proxy(self, config: Path) -> None:
        """Starts kube-proxy."""
        command = ["kube-proxy", f"--config={config}", f"--hostname-override={self.host.name}"]
        self._running["kube-proxy"] = self._start("kube-proxy", command)

    def start_program(self, name: str, command: list[str]) -> Program:
        """Starts another program on the node, for example a device plugin."""
        self._running[name] = self._start(name, command)
        return self._running[name]

    def kill(self, *names: str) -> None:
        """Kills programs of the node at the same time. Pods keep running, as they do on a real node."""
        for name in names:
            os.killpg(self._running[name].pid, signal.SIGKILL)
        for name in names:
            self._programs.stop(self._running.pop(name))

    def die(self) -> None:
        """Simulates a power cut of the node: disconnects its network, and kills its programs.

        Clients get no answer, neither a reset nor "unreachable", because packets are still sent to the node.
        """
        interface, address = f"node{self.host.number}", self.host.address
        hardware = self.run("cat", "/sys/class/net/eth0/address").strip()
        options = ["lladdr", hardware, "dev", "nodes", "nud", "permanent"]
        self._namespaces.run(["ip", "neighbour", "replace", address, *options])
        self._namespaces.run(["ip", "link", "set", interface, "down"])
        self.kill("kubelet", "containerd", "kube-proxy")

    def revive(self, proxy: Path) -> None:
        """Starts the node again after `die`. Its Pods have kept running, but were unreachable.

        Args:
            proxy: The configuration of kube-proxy.
        """
        interface, address = f"node{self.host.number}", self.host.address
        self._namespaces.run(["ip", "link", "set", interface, "up"])
        self._namespaces.run(["ip", "neighbour", "del", address, "dev", "nodes"])
        self.start_runtime()
        self.wait_runtime()
        self.start_kubelet()
        self.start_proxy(proxy)

    def run(self, *command: str) -> str:
        """Runs a command on the node, and returns its standard output.

        Raises:
            ClusterError: The exit status is not zero.
        """
        return self._namespaces.run(command, self._process)

    def ctr(self, *command: str) -> str:
        """Runs containerd's client, in the namespace of the kubelet's containers.

        Raises:
            ClusterError: The exit status is not zero.
        """
        return self.run(str(self._tools / "ctr"), "--namespace=k8s.io", *command)

    def path(self, inside: str) -> Path:
        """Returns the path by which this process can open a path of the node."""
        return Path(f"/proc/{self._process}/root{inside}")

    def _runtime_answers(self) -> bool:
        try:
            self.run(str(self._tools / "ctr"), "version")
        except ClusterError:
            return False
        return True

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the node's kubelet."""
        return self._credentials / f"{self.host.name}.kubeconfig"

    def _write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return path

    def _start(self, name: str, command: list[str], process: int | None = None) -> Program:
        env: Mapping[str, str] = {"PATH": f"{self._tools}:{PATH}", "HOME": str(self.folder)}
        enter = self._namespaces.enter(process or self._process)
        return self._programs.start(f"{self.host.name}-{name}", [*enter, *command], env=env)


def _child(pid: int, name: str) -> int:
    """Returns the child of a process if it is the program ``name``; else 0."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        comm = Path(f"/proc/{children[0]}/comm").read_text(encoding="ascii") if children else ""
    except FileNotFoundError:
        return 0
    return int(children[0]) if comm.strip() == name else 0

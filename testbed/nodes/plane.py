"""Runs a control plane with real nodes in namespaces, and forwards ports of this machine's loopback to it."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from cryptography import x509
from cryptography.x509.oid import NameOID

from testbed.images import images
from testbed.kits import nodes as build
from testbed.nodes import addresses, configs
from testbed.nodes.addresses import Host
from testbed.nodes.namespaces import PATH, Namespaces
from testbed.nodes.node import Node
from testbed.plane import credentials
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import KubectlError, Object
from testbed.plane.process import ClusterError
from testbed.waiting import PATIENCE

FORWARD = Path(__file__).with_name("forward.py")
# Flags of the control plane that differ for real nodes; a flag with None is left out.
FLAG_CHANGES: dict[str, dict[str, object]] = {
    "kube-apiserver": {
        "bind-address": "0.0.0.0",  # noqa: S104 - all addresses of an isolated network
        "advertise-address": addresses.PLANE,
        "endpoint-reconciler-type": "lease",
        "service-cluster-ip-range": addresses.SERVICES,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "disable-admission-plugins": None,
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
    },
    # A node whose Lease is not renewed for this time is not ready. The default is 50 s.
    "kube-controller-manager": {"controllers": "*", "node-monitor-grace-period": "20s"},
}


class RealPlane(ControlPlane):
    """A control plane and its nodes. Use it as a context manager.

    Args:
        folder: The folder for data, credentials, kubeconfig and logs.
        nodes: Nodes of ``testbed.plane.nodes``, whose names and labels are used.
        archives: The archives of the images that every node has, because no image can be pulled.
        say: Called with a line for every program and node that is ready.

    Attributes:
        running: All planes that this process runs.
    """

    running: ClassVar[list[RealPlane]] = []

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Object],
        archives: Sequence[Path],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.hosts = [
            Host(node["metadata"]["name"], number, node["metadata"]["labels"])
            for number, node in enumerate(nodes, start=1)
        ]
        self.node_tools = build.directory()
        self.namespaces = Namespaces()
        self.nodes: dict[str, Node] = {}
        self._archives = archives
        super().__init__(folder, say=say)

    def __enter__(self) -> Self:
        missing = build.missing(self.node_tools)
        if missing:
            raise ClusterError(f"{self.node_tools} lacks {', '.join(missing)}: make node-tools builds them")
        with contextlib.ExitStack() as undo:
            undo.enter_context(self.namespaces)
            super().__enter__()
            undo.push(super().__exit__)
            self._start_dns()
            self._start_nodes()
            self.running.append(self)
            undo.callback(self.running.remove, self)
            self._end = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def _issue(self, folder: Path) -> credentials.Credentials:
        users = credentials.USERS | {
            "kube-proxy": ("system:kube-proxy", ""),
            "coredns": ("coredns", ""),
            **{host.name: (f"system:node:{host.name}", "system:nodes") for host in self.hosts},
        }
        names = [*credentials.LOOPBACK, addresses.PLANE, addresses.KUBERNETES]
        names += ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        issued = credentials.issue(folder, users, names)
        # The client certificate that the API server presents to kubelets.
        admin_name = [("ORGANIZATION_NAME", "system:masters"), ("COMMON_NAME", "api-server")]
        issued.sign("api-server-client", _subject(*admin_name), credentials.CLIENT)
        for host in self.hosts:
            name = _subject(("COMMON_NAME", host.name))
            issued.sign(f"kubelet-{host.name}", name, credentials.SERVER, [host.address, host.name])
        return issued

    def _prepare(self) -> None:
        """Creates the network of the nodes, and forwards the ports that this process uses."""
        for command in (
            "hostname plane",
            "ip link set lo up",
            "ip link add nodes type bridge",
            f"ip address add {addresses.PLANE}/24 dev nodes",
            "ip link set nodes up",
            # kube-proxy needs a default route. No packet leaves the network by this route.
            "ip route add default dev nodes",
        ):
            self.namespaces.run(command.split())
        self.namespaces.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        ports = [self.server.rpartition(":")[2], *map(str, self._ports.values())]
        self.programs.start(
            "forward", [sys.executable, "-S", str(FORWARD), str(self.namespaces.first_process), *ports]
        )

    def _command(self, name: str, flags: dict[str, object], dashes: str) -> list[str]:
        folder = self._credentials.folder
        if name == "kube-apiserver":
            flags |= {
                "client-ca-file": self._credentials.ca,
                "kubelet-certificate-authority": self._credentials.ca,
                "kubelet-client-certificate": folder / "api-server-client.crt",
                "kubelet-client-key": folder / "api-server-client.key",
            }
        # The flags of a subclass replace the other flags.
        merged = flags | FLAG_CHANGES.get(name, {}) | dict(self.flags.get(name, {}))
        final_flags = {flag: value for flag, value in merged.items() if value is not None}
        return [*self.namespaces.enter(), *super()._command(name, final_flags, dashes)]

    def _start_dns(self) -> None:
        rights = ["--verb=list,watch", "--resource=endpointslices.discovery.k8s.io,services,namespaces"]
        self.kubectl.run("create", "clusterrole", "coredns", *rights)
        self.kubectl.run("create", "clusterrolebinding", "coredns", "--clusterrole=coredns", "--user=coredns")
        config = self.folder / "Corefile"
        config.write_text(configs.dns(self._kubeconfig("coredns"), addresses.PLANE), encoding="utf-8")
        self._start_here("coredns", ["coredns", f"-conf={config}"])

    def _start_nodes(self) -> None:
        proxy = self._proxy
        proxy.write_text(configs.proxy(self._kubeconfig("kube-proxy"), addresses.PODS), encoding="utf-8")
        store = images.store(self._archives, self.node_tools)
        for host in self.hosts:
            self._kubeconfig(host.name)
            node = Node(host, self.namespaces, self.programs, self.node_tools, self._credentials.folder)
            images.fill(node.folder / "containerd", store)
            node.join()
            node.start_runtime()
            self.nodes[host.name] = node
        for node in self.nodes.values():
            node.wait_runtime()
            node.start_kubelet()
            node.start_proxy(proxy)
        # The API server calls webhooks by the addresses of Services.
        self._start_here(
            "kube-proxy", ["kube-proxy", f"--config={proxy}", f"--hostname-override={self.hosts[0].name}"]
        )
        for name, node in self.nodes.items():
            node.wait_kubelet(functools.partial(self._is_ready, name))
            self._say(f"node {name} is ready")

    def revive(self, name: str) -> None:
        """Starts a node that has died, and waits until it is ready.

        Raises:
            NotYetError: The node is not ready in time.
        """
        self.nodes[name].revive(self._proxy)
        self.kubectl.wait_for(_ready, "node", name, timeout=PATIENCE)

    def _is_ready(self, name: str) -> bool:
        try:
            return _ready(self.kubectl.get_json("node", name))
        except KubectlError:
            return False

    @property
    def _proxy(self) -> Path:
        return self.folder / "kube-proxy.json"

    def _kubeconfig(self, user: str) -> Path:
        return self._credentials.kubeconfig(
            user, f"https://{addresses.PLANE}:{self.server.rpartition(':')[2]}"
        )

    def _start_here(self, name: str, command: list[str]) -> None:
        env = {"PATH": f"{self.node_tools}:{PATH}", "HOME": str(self.folder)}
        self.programs.start(name, [*self.namespaces.enter(), *command], env=env)


def _subject(*parts: tuple[str, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(getattr(NameOID, kind), value) for kind, value in parts])


def _ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)

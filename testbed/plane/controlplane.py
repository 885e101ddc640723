"""Runs etcd, API server, controller manager, scheduler and mpi-operator on loopback, as child processes."""

import contextlib
import http.client
import ssl
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from testbed.kits import build
from testbed.plane import credentials
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.plane.process import ClusterError, Programs, free_ports, with_restarts
from testbed.waiting import PATIENCE

OPERATOR_NAMESPACE = "mpi-operator"
OPERATOR = Path(__file__).with_name("mpi-operator.yaml")
"""The namespace, service account and role of mpi-operator, as in its manifests (0.8.0)."""
MPIJOB_CRD = "mpijobs.kubeflow.org"


def answers_ok(url: str, ca: Path | None = None) -> bool:
    """Returns whether a GET of ``url`` has status 200; for HTTPS, with a certificate that ``ca`` signed."""
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port
    if ca is None:
        connection = http.client.HTTPConnection(host, port, timeout=2)
    else:
        context = ssl.create_default_context(cafile=ca)
        connection = http.client.HTTPSConnection(host, port, timeout=2, context=context)
    with contextlib.closing(connection):
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False


class ControlPlane:
    """Runs a complete control plane. Use it as a context manager.

    Args:
        folder: The folder for data, credentials, kubeconfig and logs.
        tools: The folder of the programs; None for ``build.CONTROL_PLANE.directory()``.
        say: Called with a line for every program that is ready.

    Attributes:
        flags: Additional flags of a program, by the program's name.
    """

    flags: Mapping[str, Mapping[str, object]] = {}

    def __init__(
        self, folder: Path, tools: Path | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        self.folder = folder
        self.tools = tools or build.CONTROL_PLANE.directory()
        self.programs = Programs(folder / "logs")
        self._say = say or (lambda _: None)
        etcd, etcd_peer, api, manager, scheduler = free_ports(5)
        self._ports = {"etcd": etcd, "etcd-peer": etcd_peer, "manager": manager, "scheduler": scheduler}
        self.server = f"https://127.0.0.1:{api}"
        self._credentials = self._issue(folder / "credentials")
        self.kubeconfig = self._credentials.kubeconfig("admin", self.server)
        self.kubectl = Kubectl(self.tools / "kubectl", self.kubeconfig)

    def __enter__(self) -> Self:
        missing = build.CONTROL_PLANE.missing(self.tools)
        if missing:
            raise ClusterError(f"{self.tools} lacks {', '.join(missing)}: make cluster-tools builds them")
        with contextlib.ExitStack() as undo:
            undo.enter_context(self.programs)
            self._prepare()
            self._start_etcd()
            self._start_api_server()
            self._define_jobs()
            self._start_controllers()
            self._start_operator()
            self._stop = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()

    def _issue(self, folder: Path) -> credentials.Credentials:
        """Creates the credentials. Subclasses add credentials for other programs."""
        return credentials.issue(folder)

    def _prepare(self) -> None:
        """Does nothing. Subclasses prepare the start of the first program here."""

    def _command(self, name: str, flags: dict[str, object], dashes: str) -> list[str]:
        """Returns the command line of a program. Subclasses run the program in other namespaces."""
        return [str(self.tools / name), *(f"{dashes}{flag}={value}" for flag, value in flags.items())]

    def account(self, namespace: str, name: str) -> Path:
        """Returns a kubeconfig with a token of a service account."""
        return self._credentials.token_kubeconfig(name, self.kubectl.api.token(namespace, name), self.server)

    def _launch(
        self,
        name: str,
        flags: dict[str, object],
        ready: Callable[[], bool],
        dashes: str = "--",
        *,
        before_restart: Sequence[str] = (),
    ) -> None:
        command = self._command(name, flags | dict(self.flags.get(name, {})), dashes)
        if before_restart:
            command = with_restarts(command, before_restart)
        # The caller's environment is not used, because mpi-operator prefers the variable KUBECONFIG to flags.
        env = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        program = self.programs.start(name, command, env=env, cwd=self.folder)
        program.wait_ready(ready, PATIENCE)
        self._say(f"{name} is ready")

    def _start_etcd(self) -> None:
        url = f"http://127.0.0.1:{self._ports['etcd']}"
        peer = f"http://127.0.0.1:{self._ports['etcd-peer']}"
        flags: dict[str, object] = {
            "name": "default",
            "data-dir": self.folder / "etcd",
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            # The data are not needed after a crash, and waiting for the disk would slow the tests down.
            "unsafe-no-fsync": "true",
        }
        self._launch("etcd", flags, lambda: answers_ok(f"{url}/health"))

    def _start_api_server(self) -> None:
        identity = self._credentials
        flags: dict[str, object] = {
            "etcd-servers": f"http://127.0.0.1:{self._ports['etcd']}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": urllib.parse.urlsplit(self.server).port,
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": identity.token_file,
            "tls-cert-file": identity.certificate,
            "tls-private-key-file": identity.key,
            "cert-dir": identity.folder,
            "service-account-issuer": self.server,
            "service-account-key-file": identity.accounts_key,
            "service-account-signing-key-file": identity.accounts_key,
            # This plugin would taint every node as not ready, and no kubelet would remove the taint.
            "disable-admission-plugins": "TaintNodesByCondition",
        }
        self._launch("kube-apiserver", flags, lambda: answers_ok(f"{self.server}/readyz", identity.ca))

    def _start_controllers(self) -> None:
        identity = self._credentials
        common_flags: dict[str, object] = {
            "bind-address": "127.0.0.1",
            "leader-elect": "false",
            "tls-cert-file": identity.certificate,
            "tls-private-key-file": identity.key,
            "kube-api-qps": 200,
            "kube-api-burst": 400,
        }
        manager_flags: dict[str, object] = {
            # No kubelet renews a lease, so the node controller would soon mark every node as not ready.
            "controllers": "*,-nodelifecycle",
            "service-account-private-key-file": identity.accounts_key,
            "root-ca-file": identity.ca,
            "use-service-account-credentials": "true",
        }
        for name, user, port, flags in (
            (
                "kube-controller-manager",
                "controller-manager",
                self._ports["manager"],
                common_flags | manager_flags,
            ),
            ("kube-scheduler", "scheduler", self._ports["scheduler"], common_flags),
        ):
            config = identity.kubeconfig(user, self.server)
            configs = {f"{use}kubeconfig": config for use in ("", "authentication-", "authorization-")}
            url = f"https://127.0.0.1:{port}/healthz"
            self._launch(
                name,
                flags | configs | {"secure-port": port},
                lambda url=url: answers_ok(url, identity.ca),  # type: ignore[misc]
            )

    def _define_jobs(self) -> None:
        """Defines MPIJob before the controller manager's garbage collector starts.

        The garbage collector lists the kinds only every 30 seconds. Until it has found a kind, the pods of a
        deleted job stay, and a new job with the same name gets no pods.
        """
        self.kubectl.run("create", "-f", str(self.tools / build.CRD))
        # `kubectl wait` would fail because a new definition has no conditions yet.
        self.kubectl.wait_for(is_established, "crd", MPIJOB_CRD)
        self.kubectl.wait_for(lambda _: True, "mpijobs", "--all-namespaces")

    def _start_operator(self) -> None:
        self.kubectl.run("create", "-f", str(OPERATOR))
        flags: dict[str, object] = {
            "kubeConfig": self._credentials.kubeconfig("mpi-operator", self.server),
            "lock-namespace": OPERATOR_NAMESPACE,
            "monitoring-port": 0,
            "kube-api-qps": 200,
            "kube-api-burst": 400,
            "controller-queue-rate-limit": 200,
            "controller-queue-burst": 400,
        }
        # The operator ends if it cannot renew its Lease for five seconds. The next operator would wait
        # fifteen seconds for the old Lease, so the Lease is deleted first.
        lease = f"--namespace={OPERATOR_NAMESPACE} delete --ignore-not-found lease mpi-operator"
        release_lease = [str(self.tools / "kubectl"), f"--kubeconfig={self.kubeconfig}", *lease.split()]
        self._launch("mpi-operator", flags, self._operator_leads, dashes="-", before_restart=release_lease)

    def _operator_leads(self) -> bool:
        try:
            leases = self.kubectl.in_namespace(OPERATOR_NAMESPACE).get_json("leases")
        except KubectlError:
            return False
        return any(lease["spec"].get("holderIdentity") for lease in leases["items"])


def is_established(definition: Object) -> bool:
    """Returns whether the API server serves the kind that a CustomResourceDefinition defines."""
    conditions = definition.get("status", {}).get("conditions") or []
    return any((item["type"], item["status"]) == ("Established", "True") for item in conditions)

"""The loop that a kubelet has: what is bound is started, watched, and ended when it is deleted."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from tests.cluster.process import Programs
from tests.cluster.standin.api import Api, Object
from tests.cluster.standin.container import Pod
from tests.cluster.standin.proxy import Proxy
from tests.cluster.standin.volumes import NotThereYetError, Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.controlplane import ControlPlane

TICK = 0.2
PAUSE = 3.0
"""The longest ``preStop`` pause: nothing here takes longer to hear that a Pod is leaving."""
HOST_VARIABLES = (
    "ULTRASERVER_WEBHOOK_SERVE_HOST",
    "ULTRASERVER_CERTS_METRICS_HOST",
    "ULTRASERVER_PLACEMENT_METRICS_HOST",
)
"""How a program is told the address of its Pod, which has no network of its own."""


class StandIn:
    """Runs the Pods of a namespace; use as a context manager.

    Args:
        control_plane: whose Services have cluster IPs on loopback.
        namespace: whose Pods.
        told: further environment for every container: what a test cannot wait for in real time.
    """

    def __init__(self, control_plane: ControlPlane, namespace: str, told: Mapping[str, str]) -> None:
        self._control_plane, self._namespace, self._told = control_plane, namespace, told
        self._api = Api(control_plane.kubeconfig)
        self._path = f"/api/v1/namespaces/{namespace}"
        # Another test run on this machine has, most likely, another network.
        self._network = f"127.{random.randint(100, 199)}.{random.randint(1, 254)}"  # noqa: S311 - no secret
        self._numbers = itertools.count(1)
        self._pods: dict[str, Pod] = {}
        self._programs = Programs(control_plane.folder / "logs" / "pods", grace=1)
        self._proxy = Proxy()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-in")
        self._endings = ThreadPoolExecutor(8)
        self.paused = threading.Event()
        """While set, nothing is started: as if every node were gone."""

    def __enter__(self) -> Self:
        self._programs.__enter__()
        self._proxy.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        for pod in self._pods.values():
            pod.kill()
        self._endings.shutdown()
        self._proxy.__exit__()
        self._programs.__exit__()
        self._api.close()

    def pods(self, component: str = "serving") -> list[Pod]:
        """The Pods that run and stay, of one Deployment."""
        return [
            pod
            for pod in list(self._pods.values())
            if component in pod.labels["app.kubernetes.io/component"] and pod.program and not pod.leaves_at
        ]

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            # The API server may be busy, and an object may be gone between two looks at it.
            with contextlib.suppress(OSError, LookupError):
                self._tick()

    def _tick(self) -> None:
        found = {item["metadata"]["uid"]: item for item in self._api.items(f"{self._path}/pods")}
        for uid, item in found.items():
            if uid not in self._pods and item["spec"].get("nodeName"):
                self._pods[uid] = self._adopt(item)
        secrets, configs = (
            {one["metadata"]["name"]: one for one in self._api.items(f"{self._path}/{kind}")}
            for kind in ("secrets", "configmaps")
        )
        for uid, pod in list(self._pods.items()):
            if uid not in found:
                self._end(uid, pod)
                continue
            with contextlib.suppress(NotThereYetError):
                pod.write_volumes(Sources(secrets, configs, pod.token, self._namespace))
                if not self.paused.is_set() and not pod.runs() and not pod.leaves_at:
                    pod.start(self._programs, self._environment(pod))
            self._leave(pod, found[uid])
        self._report()

    def _adopt(self, item: Object) -> Pod:
        name, spec = item["metadata"]["name"], item["spec"]
        ip = f"{self._network}.{next(self._numbers)}"
        pod = Pod(spec, name, self._control_plane.folder / "pods" / name, ip, item["metadata"]["labels"])
        if spec.get("automountServiceAccountToken"):
            path = f"{self._path}/serviceaccounts/{spec['serviceAccountName']}/token"
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            pod.token = self._api.call("POST", path, asked)["status"]["token"]
        return pod

    def _environment(self, pod: Pod) -> dict[str, str]:
        server = {"KUBERNETES_SERVICE_HOST": self._api.host, "KUBERNETES_SERVICE_PORT": str(self._api.port)}
        return {**server, **dict.fromkeys(HOST_VARIABLES, pod.ip), **self._told}

    def _leave(self, pod: Pod, item: Object) -> None:
        if "deletionTimestamp" not in item["metadata"]:
            return
        now = time.monotonic()
        if pod.leaves_at is None:
            pod.leaves_at = now + min(
                pod.pause(), item["metadata"].get("deletionGracePeriodSeconds", 0), PAUSE
            )
        elif now >= pod.leaves_at and not pod.ending:
            pod.ending = True
            self._endings.submit(pod.terminate, 25)
        elif pod.ending and not pod.runs():
            self._api.call("DELETE", f"{self._path}/pods/{pod.name}", {"gracePeriodSeconds": 0})

    def _end(self, uid: str, pod: Pod) -> None:
        del self._pods[uid]
        pod.kill()

    def _report(self) -> None:
        for pod in self._pods.values():
            ready = pod.answers()
            if ready != pod.ready and not pod.leaves_at:
                self._api.call("PATCH", f"{self._path}/pods/{pod.name}/status", _status(pod, ready=ready))
            pod.ready = ready
        for service in self._api.items(f"{self._path}/services"):
            wanted = service["spec"].get("selector", {}).items()
            if service["spec"]["clusterIP"] == "None":
                continue
            chosen = [pod for pod in self._pods.values() if pod.ready and wanted <= pod.labels.items()]
            staying = [pod for pod in chosen if not pod.leaves_at]
            for port in service["spec"]["ports"]:
                behind = [(pod.ip, pod.port(port["targetPort"])) for pod in staying]
                self._proxy.forward((service["spec"]["clusterIP"], port["port"]), behind)


def _status(pod: Pod, *, ready: bool) -> Object:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    value = str(ready)
    kinds = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": value, "Ready": value}
    conditions = [{"type": kind, "status": said, "lastTransitionTime": now} for kind, said in kinds.items()]
    image = pod.container["image"]
    container = {"name": pod.container["name"], "image": image, "imageID": image, "restartCount": 0}
    container |= {"ready": ready, "started": ready, "state": {"running": {"startedAt": now}}}
    status = {
        "phase": "Running",
        "startTime": now,
        "conditions": conditions,
        "containerStatuses": [container],
    }
    return {"status": status}

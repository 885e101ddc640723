"""Nodes and pods as JSON in the fake API server, and mirrors that show what is stored there."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import generate_latest

from contract import keys
from contract.keys import GATE, HOSTNAME, SERVER_2, SERVER_4
from kube.api import Object
from placement.act.events import Reporter
from placement.act.metrics import Metrics
from placement.act.passes import PassRunner
from placement.decide.plan import Tuning
from placement.observe.inventory import READERS
from placement.observe.read import read_ended, read_node, read_pod
from placement.observe.units import watch_units
from testbed.plane.nodes import TRN2U
from tests.kube.fake import Clock, FakeApi

INDEX = "training.kubeflow.org/replica-index"


class View:
    """What a mirror shows (`kube.watch.Mirror`): what is stored, or what was, where it is ``behind``."""

    def __init__(self, api: FakeApi, kind: str, project: Callable[[Object], Any]) -> None:
        self._api, self._kind, self._project = api, kind, project
        self._kept: dict[tuple[str, str], Any] | None = None
        self.stale_reason = ""
        self.listed = True

    def check(self) -> None:
        """Nothing: no one's thread can end here."""

    def wait(self, seconds: float) -> bool:
        """Returns whether it has listed."""
        assert seconds == 0
        return self.listed

    def items(self) -> dict[tuple[str, str], Any]:
        """Returns what it shows."""
        return dict(self._now() if self._kept is None else self._kept)

    def fall_behind(self) -> None:
        """Shows from now on what is there now."""
        self._kept = self._now()

    def catch_up(self) -> None:
        """Shows what is there."""
        self._kept = None

    def _now(self) -> dict[tuple[str, str], Any]:
        items = {}
        for path, raw in self._api.objects.items():
            if f"/{self._kind}/" in path and (item := self._project(raw)) is not None:
                metadata = raw["metadata"]
                items[metadata.get("namespace", ""), metadata["name"]] = item
        return items


def views(api: FakeApi) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """Returns those of nodes, of pods, of workers that have ended, and of claims."""
    claims = tuple(View(api, path.rpartition("/")[2], read) for path, read in READERS.items())
    return View(api, "nodes", read_node), View(api, "pods", read_pod), View(api, "pods", read_ended), claims


def store_nodes(api: FakeApi, ultraservers: int) -> None:
    """Ready nodes, as `tests.placement.world.servers`."""
    for server in range(1, ultraservers + 1):
        for position in range(4):
            name = f"n{server}-{position}"
            labels = {
                HOSTNAME: name,
                "node.kubernetes.io/instance-type": TRN2U,
                SERVER_4: f"us-{server:02}",
                SERVER_2: f"us-{server:02}-{'ab'[position // 2]}",
            }
            api.put(
                f"/api/v1/nodes/{name}",
                {
                    "metadata": {"name": name, "labels": labels},
                    "status": {
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "allocatable": {"aws.amazon.com/neuron": "16", "cpu": "192"},
                    },
                },
            )


def worker(name: str, index: int, workers: int, namespace: str = "team") -> Object:
    """Returns a worker of a job of node config 4, as the operator makes it."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": f"{name}-worker-{index}",
            "uid": f"{namespace}/{name}/{index}",
            "creationTimestamp": "2026-11-21T11:59:00Z",
            "labels": {keys.JOB: f"{namespace}.{name}", INDEX: str(index)},
            "annotations": {
                keys.PLACE: f"placer=gate workers={workers} size=4 unit={SERVER_4} index=labels/{INDEX}"
            },
        },
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "nodeSelector": {"node.kubernetes.io/instance-type": TRN2U},
            "containers": [{"resources": {"requests": {"aws.amazon.com/neuron": "16"}}}],
        },
        "status": {"phase": "Pending"},
    }


def launcher(name: str, namespace: str = "team") -> Object:
    """Its launcher."""
    pod = worker(name, 0, 1, namespace)
    pod["metadata"] |= {"name": f"{name}-launcher", "uid": f"{namespace}/{name}/launcher", "annotations": {}}
    pod["spec"] = {"schedulingGates": [{"name": GATE}], "containers": [{}]}
    return pod


def store_job(api: FakeApi, name: str, workers: int, namespace: str = "team") -> None:
    """A job whose pods wait."""
    for pod in [
        *(worker(name, index, workers, namespace) for index in range(workers)),
        launcher(name, namespace),
    ]:
        api.put(path_of(pod), pod)


def path_of(pod: Object) -> str:
    """Returns where a pod is."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def pods(api: FakeApi, name: str = "") -> Iterator[Object]:
    """Yields the pods that are stored."""
    for path, raw in sorted(api.objects.items()):
        if f"/pods/{name}" in path:
            yield raw


def stored_events(api: FakeApi) -> list[tuple[str, str, str]]:
    """Returns the Events that are stored: pod, reason, message."""
    return [
        (raw["involvedObject"]["name"], raw["reason"], raw["message"])
        for raw in api.objects.values()
        if raw.get("kind") == "Event"
    ]


class Program:
    """A program with its API server, clock and mirrors."""

    def __init__(self, api: FakeApi, **changes: Any) -> None:
        self.api, self.clock, self.metrics = api, Clock(), Metrics()
        self.nodes, self.pods, self.ended, self.claims = views(api)
        self.run = PassRunner(
            *(api, (self.nodes, self.pods, self.ended, *self.claims), Tuning(), watch_units(None).refresh),
            *(Reporter(api, "one"), self.metrics, self.clock),
            **changes,
        )

    def figure(self, name: str) -> float:
        """Returns a figure of its metrics."""
        value = self.metrics.registry.get_sample_value(name)
        assert value is not None, generate_latest(self.metrics.registry).decode()
        return value


def state(api: FakeApi, name: str = "") -> dict[str, tuple[str | None, int]]:
    """Returns pin and number of gates of every pod."""
    return {
        pod["metadata"]["name"]: (
            pod["spec"].get("nodeSelector", {}).get(SERVER_4),
            len(pod["spec"].get("schedulingGates", ())),
        )
        for pod in pods(api, name)
    }

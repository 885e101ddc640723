"""Helpers that store nodes and pods in the fake API server, and fake mirrors of the stored objects."""

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


class FakeMirror:
    """A fake `kube.watch.Mirror`: it has the stored objects, or older ones after `fall_behind`."""

    def __init__(self, api: FakeApi, kind: str, project: Callable[[Object], Any]) -> None:
        self._api, self._kind, self._project = api, kind, project
        self._old_items: dict[tuple[str, str], Any] | None = None
        self.stale_reason = ""
        self.listed = True

    def check(self) -> None:
        """Does nothing: a fake mirror has no thread that can end."""

    def wait(self, seconds: float) -> bool:
        """Returns whether the first list is complete."""
        assert seconds == 0
        return self.listed

    def items(self) -> dict[tuple[str, str], Any]:
        """Returns the objects by namespace and name."""
        return dict(self._present_items() if self._old_items is None else self._old_items)

    def fall_behind(self) -> None:
        """Keeps the present objects, so that later changes are not visible."""
        self._old_items = self._present_items()

    def catch_up(self) -> None:
        """Makes all changes visible again."""
        self._old_items = None

    def _present_items(self) -> dict[tuple[str, str], Any]:
        items = {}
        for path, raw in self._api.objects.items():
            if f"/{self._kind}/" in path and (item := self._project(raw)) is not None:
                metadata = raw["metadata"]
                items[metadata.get("namespace", ""), metadata["name"]] = item
        return items


def fake_mirrors(api: FakeApi) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """Returns the fake mirrors of nodes, pods, ended workers, and the objects for device claims."""
    claims = tuple(FakeMirror(api, path.rpartition("/")[2], read) for path, read in READERS.items())
    return (
        FakeMirror(api, "nodes", read_node),
        FakeMirror(api, "pods", read_pod),
        FakeMirror(api, "pods", read_ended),
        claims,
    )


def store_nodes(api: FakeApi, ultraservers: int) -> None:
    """Stores Ready nodes with the names and labels of `tests.placement.world.servers`."""
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
    """Returns a gated worker of a job with node config 4, as its operator creates it."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": f"{name}-worker-{index}",
            "uid": f"{namespace}/{name}/{index}",
            "creationTimestamp": "2026-11-21T11:59:00Z",
            "labels": {keys.JOB: f"{namespace}.{name}", INDEX: str(index)},
            "annotations": {
                keys.PLACEMENT: f"placer=gate workers={workers} size=4 unit={SERVER_4} index=labels/{INDEX}"
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
    """Returns the gated launcher of a job."""
    pod = worker(name, 0, 1, namespace)
    pod["metadata"] |= {"name": f"{name}-launcher", "uid": f"{namespace}/{name}/launcher", "annotations": {}}
    pod["spec"] = {"schedulingGates": [{"name": GATE}], "containers": [{}]}
    return pod


def store_job(api: FakeApi, name: str, workers: int, namespace: str = "team") -> None:
    """Stores the gated workers and the gated launcher of a job."""
    for pod in [
        *(worker(name, index, workers, namespace) for index in range(workers)),
        launcher(name, namespace),
    ]:
        api.put(path_of(pod), pod)


def path_of(pod: Object) -> str:
    """Returns the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def pods(api: FakeApi, name: str = "") -> Iterator[Object]:
    """Yields the stored pods whose names begin with the given text."""
    for path, raw in sorted(api.objects.items()):
        if f"/pods/{name}" in path:
            yield raw


def stored_events(api: FakeApi) -> list[tuple[str, str, str]]:
    """Returns the pod, the reason and the message of each stored Event."""
    return [
        (raw["involvedObject"]["name"], raw["reason"], raw["message"])
        for raw in api.objects.values()
        if raw.get("kind") == "Event"
    ]


class Program:
    """A placement program with a fake API server, a fake clock and fake mirrors."""

    def __init__(self, api: FakeApi, **changes: Any) -> None:
        self.api, self.clock, self.metrics = api, Clock(), Metrics()
        self.nodes, self.pods, self.ended, self.claims = fake_mirrors(api)
        self.run = PassRunner(
            *(api, (self.nodes, self.pods, self.ended, *self.claims), Tuning(), watch_units(None).refresh),
            *(Reporter(api, "one"), self.metrics, self.clock),
            **changes,
        )

    def metric_value(self, name: str) -> float:
        """Returns the value of a metric without labels."""
        value = self.metrics.registry.get_sample_value(name)
        assert value is not None, generate_latest(self.metrics.registry).decode()
        return value


def pins_and_gates(api: FakeApi, name: str = "") -> dict[str, tuple[str | None, int]]:
    """Returns the UltraServer in the node selector and the number of gates of each pod, by name."""
    return {
        pod["metadata"]["name"]: (
            pod["spec"].get("nodeSelector", {}).get(SERVER_4),
            len(pod["spec"].get("schedulingGates", ())),
        )
        for pod in pods(api, name)
    }

"""Steps that tests on real nodes share: installing the product, running a job, and waiting for results."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from testbed import chart
from testbed.images import images
from testbed.kits import nodes as build
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import DEVICES, RESOURCE, SYSFS, NeuronDriver, NeuronPlugin, node_objects
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import webhook_mutates_jobs
from testbed.waiting import PATIENCE, until

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "examples" / "four-node.yaml"
NAMESPACE = "ultraserver-webhook"
SECONDS = 240.0
"""The maximum seconds until a job ends or a Deployment is available, on a busy machine."""


@contextlib.contextmanager
def plane(
    folder: Path,
    archives: Sequence[Path],
    count: int = 4,
    say: Callable[[str], None] | None = None,
    driver_nodes: int = 0,
) -> Iterator[tuple[RealPlane, dict[str, NeuronPlugin]]]:
    """Yields a plane with the nodes of an UltraServer, and each node's device plugin by the node's name.

    Args:
        folder: The folder for data, credentials, kubeconfig and logs.
        archives: The archives of the images that every node has, in addition to pause and busybox.
        count: The number of nodes.
        say: Called with a line for every program and node that is ready.
        driver_nodes: The number of nodes of another UltraServer, with the DRA driver in place of the plugin.
    """
    small_images = images.small(folder, build.directory())
    with RealPlane(folder, node_objects(count, driver_nodes), [*small_images, *archives], say) as real_plane:
        items = list(real_plane.nodes.items())
        if driver_nodes:
            nodes.create(real_plane.kubectl, [nodes.device_class()])
        for _, node in items[count:]:
            NeuronDriver(node)
        plugin_nodes = zip(items[:count], SYSFS, strict=False)
        yield real_plane, {name: NeuronPlugin(node, sysfs) for (name, node), sysfs in plugin_nodes}


def install(kubectl: Kubectl) -> Kubectl:
    """Installs the product as in docs/install.md, waits until it serves, and returns kubectl for it.

    Raises:
        KubectlError: An object is refused.
        NotYetError: A Deployment is not available in time, or jobs are not mutated.
    """
    kubectl.run("apply", "-f", str(chart.INSTALL))
    return wait_until_served(kubectl)


def wait_until_served(kubectl: Kubectl) -> Kubectl:
    """Waits until the installation serves, and returns kubectl for its namespace.

    Raises:
        NotYetError: A Deployment is not available in time, or jobs are not mutated.
    """
    namespace = kubectl.in_namespace(NAMESPACE)
    webhook = "ultraserver-webhook"
    for name in (f"{webhook}-certs", webhook, "ultraserver-placement", f"{webhook}-preview"):
        wait_for_rollout(namespace, name)
    until(lambda: webhook_mutates_jobs(kubectl.kubeconfig, "default"), "a job that the webhook mutates")
    return namespace


def wait_for_rollout(namespace: Kubectl, name: str) -> None:
    """Waits until all Pods of a Deployment have its current template and are available.

    Raises:
        NotYetError: The rollout does not end in time.
    """

    def complete(deployment: Object) -> bool:
        replicas, status = deployment["spec"]["replicas"], deployment.get("status", {})
        observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        return observed and {status.get(count, 0) for count in counts} == {replicas}

    namespace.wait_for(complete, "deployment", name, timeout=SECONDS)


def serving_images(kubectl: Kubectl) -> set[str]:
    """Returns the images of the serving Pods that are not being deleted."""
    selected = ("pods", "-l", "app.kubernetes.io/component=serving")
    pods = kubectl.in_namespace(NAMESPACE).get_json(*selected)["items"]
    return {
        pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    }


def tag(real_plane: RealPlane, image: str, name: str) -> None:
    """Adds another name to an image on every node."""
    for node in real_plane.nodes.values():
        node.ctr("images", "tag", "--force", image, name)


def wait_for_all_devices(kubectl: Kubectl, names: Iterable[str]) -> None:
    """Waits until nodes have all their devices.

    Raises:
        NotYetError: A node does not have all its devices in time.
    """
    for name in names:
        wait_for_devices(kubectl, name, RESOURCE, DEVICES)


def wait_for_devices(kubectl: Kubectl, node: str, resource: str, count: int) -> None:
    """Waits until this many devices of a node are allocatable.

    Raises:
        NotYetError: The node does not have this number of devices in time.
    """

    def has_devices(node: Object) -> bool:
        return bool(node["status"]["allocatable"].get(resource) == str(count))

    kubectl.wait_for(has_devices, "node", node, timeout=PATIENCE)


def job_selector(name: str, role: str) -> str:
    """Returns the label selector of the Pods of a job with a role, ``launcher`` or ``worker``."""
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/job-role={role}"


def launchers(kubectl: Kubectl, name: str = "demo") -> list[Object]:
    """Returns the launcher Pods of a job, the newest first. Failed Pods stay when a new Pod starts."""
    return newest_first(kubectl.get_json("pods", "-l", job_selector(name, "launcher")))


def newest_first(pods: Object) -> list[Object]:
    """Returns the Pods of a List, the newest first."""
    return sorted(pods["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def has_ended(job: Object) -> bool:
    """Returns whether an MPIJob has succeeded or failed, by its conditions."""
    conditions = job.get("status", {}).get("conditions", ())
    return any(item["status"] == "True" and item["type"] in {"Succeeded", "Failed"} for item in conditions)


def wait_for_end(kubectl: Kubectl, name: str = "demo") -> Object:
    """Waits until a job has ended, and returns its newest launcher Pod.

    Raises:
        NotYetError: The job does not end in time.
    """
    kubectl.wait_for(has_ended, "mpijob", name, timeout=SECONDS)
    return launchers(kubectl, name)[0]


def wait_for_workers(namespace: Kubectl, name: str, count: int) -> list[Object]:
    """Waits until all workers of a job run; returns them. They must be on different nodes of one UltraServer.

    Raises:
        NotYetError: The workers do not run in time.
    """

    def all_run(pods: Object) -> bool:
        return [pod["status"]["phase"] for pod in pods["items"]] == ["Running"] * count

    selector = job_selector(name, "worker")
    pods: list[Object] = namespace.wait_for(all_run, "pods", "-l", selector, timeout=SECONDS)["items"]
    labels = {
        item["metadata"]["name"]: item["metadata"]["labels"] for item in namespace.get_json("nodes")["items"]
    }
    node_names = {pod["spec"]["nodeName"] for pod in pods}
    assert (len(node_names), len({labels[node][nodes.SERVER_ID_4] for node in node_names})) == (count, 1)
    return pods


def container_names(pod: Object) -> Iterable[str]:
    """Returns the names of a Pod's containers, in the order in which they run."""
    return [container["name"] for kind in ("initContainers", "containers") for container in pod["spec"][kind]]

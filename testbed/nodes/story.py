"""The whole story on real nodes: the product installed with kubectl, and the README's job to its end."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from testbed import chart
from testbed.images import images
from testbed.kits import nodes as build
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import DEVICES, RESOURCE, SYSFS, NeuronDriver, NeuronPlugin, machines
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import places
from testbed.waiting import PATIENCE, until

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "examples" / "four-node.yaml"
NAMESPACE = "ultraserver-webhook"
ADDED = "ultraserver-webhook.io/added"
SECONDS = 240.0
"""Within which a job ends and a Deployment is there, on a busy machine."""


@contextlib.contextmanager
def plane(
    folder: Path,
    archives: Sequence[Path],
    count: int = 4,
    say: Callable[[str], None] | None = None,
    driven: int = 0,
) -> Iterator[tuple[RealPlane, dict[str, NeuronPlugin]]]:
    """Yields a plane with nodes of one UltraServer, and the device plugin of each by its name.

    Args:
        folder: where data, credentials, kubeconfig and logs go.
        archives: the images that every node has, pause and busybox excepted.
        count: of nodes.
        say: gets a line for every program and node that is ready.
        driven: of nodes of another UltraServer, with the DRA driver in place of the plugin.
    """
    small = images.small(folder, build.directory())
    with RealPlane(folder, machines(count, driven), [*small, *archives], say) as running:
        every = list(running.nodes.items())
        if driven:
            nodes.create(running.kubectl, [nodes.device_class()])
        for _, node in every[count:]:
            NeuronDriver(node)
        plugged = zip(every[:count], SYSFS, strict=False)
        yield running, {name: NeuronPlugin(node, sysfs) for (name, node), sysfs in plugged}


def install(kubectl: Kubectl) -> Kubectl:
    """Installs the product as docs/install.md says, waits until it serves, and returns kubectl for it.

    Raises:
        KubectlError: it was refused.
        NotYetError: a Deployment is not there in time, or does not place jobs.
    """
    kubectl.run("apply", "-f", str(chart.INSTALL))
    return serves(kubectl)


def serves(kubectl: Kubectl) -> Kubectl:
    """Waits until what was installed serves, and returns kubectl for it.

    Raises:
        NotYetError: a Deployment is not there in time, or does not place jobs.
    """
    own = kubectl.in_namespace(NAMESPACE)
    webhook = "ultraserver-webhook"
    for name in (f"{webhook}-certs", webhook, "ultraserver-placement", f"{webhook}-preview"):
        rolled_out(own, name)
    until(lambda: places(kubectl.kubeconfig, "default"), "a job that the webhook places")
    return own


def rolled_out(own: Kubectl, name: str) -> None:
    """Waits until all Pods of a Deployment are of its present template, and available.

    Raises:
        NotYetError: they are not, in time.
    """

    def complete(deployment: Object) -> bool:
        wanted, status = deployment["spec"]["replicas"], deployment.get("status", {})
        observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        return observed and {status.get(count, 0) for count in counts} == {wanted}

    own.wait_for(complete, "deployment", name, timeout=SECONDS)


def serving(kubectl: Kubectl) -> set[str]:
    """Returns the images of the serving Pods that are there to stay."""
    selected = ("pods", "-l", "app.kubernetes.io/component=serving")
    pods = kubectl.in_namespace(NAMESPACE).get_json(*selected)["items"]
    return {
        pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    }


def tag(running: RealPlane, image: str, name: str) -> None:
    """Gives an image on every node another name as well."""
    for node in running.nodes.values():
        node.ctr("images", "tag", "--force", image, name)


def all_offered(kubectl: Kubectl, names: Iterable[str]) -> None:
    """Waits until nodes have all their devices.

    Raises:
        NotYetError: one has not, in time.
    """
    for name in names:
        offered(kubectl, name, RESOURCE, DEVICES)


def offered(kubectl: Kubectl, node: str, resource: str, count: int) -> None:
    """Waits until a node has this many devices for Pods.

    Raises:
        NotYetError: it has not, in time.
    """

    def holds(node: Object) -> bool:
        return bool(node["status"]["allocatable"].get(resource) == str(count))

    kubectl.wait_for(holds, "node", node, timeout=PATIENCE)


def of_job(name: str, role: str) -> str:
    """Returns the selector of a job's Pods of a role, ``launcher`` or ``worker``."""
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/job-role={role}"


def launchers(kubectl: Kubectl, name: str = "demo") -> list[Object]:
    """Returns the Pods of a job's launcher, the newest first: a failed one stays next to its successor."""
    return newest(kubectl.get_json("pods", "-l", of_job(name, "launcher")))


def newest(pods: Object) -> list[Object]:
    """Returns the Pods of a List, the newest first."""
    return sorted(pods["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def over(job: Object) -> bool:
    """Returns whether mpi-operator says of an MPIJob that it has ended, well or not."""
    conditions = job.get("status", {}).get("conditions", ())
    return any(item["status"] == "True" and item["type"] in {"Succeeded", "Failed"} for item in conditions)


def ended(kubectl: Kubectl, name: str = "demo") -> Object:
    """Returns the last Pod of a job's launcher, once the job has ended.

    Raises:
        NotYetError: it has not, in time.
    """
    kubectl.wait_for(over, "mpijob", name, timeout=SECONDS)
    return launchers(kubectl, name)[0]


def placed(inside: Kubectl, name: str, count: int) -> list[Object]:
    """Returns the workers of a job, once each runs, and every one on a node of its own in one UltraServer.

    Raises:
        NotYetError: they do not, in time.
    """

    def run(pods: Object) -> bool:
        return [pod["status"]["phase"] for pod in pods["items"]] == ["Running"] * count

    pods: list[Object] = inside.wait_for(run, "pods", "-l", of_job(name, "worker"), timeout=SECONDS)["items"]
    labels = {
        item["metadata"]["name"]: item["metadata"]["labels"] for item in inside.get_json("nodes")["items"]
    }
    on = {pod["spec"]["nodeName"] for pod in pods}
    assert (len(on), len({labels[node][nodes.SERVER_ID_4] for node in on})) == (count, 1)
    return pods


def containers(pod: Object) -> Iterable[str]:
    """Returns the names of a Pod's containers, in the order in which they run."""
    return [container["name"] for kind in ("initContainers", "containers") for container in pod["spec"][kind]]

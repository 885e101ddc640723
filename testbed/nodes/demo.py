"""``make demo``: four real nodes, the product installed, and a plain job that runs to its end on them."""

import sys
import time
from pathlib import Path

from testbed import chart
from testbed.images import product
from testbed.kits.progress import say
from testbed.nodes import story
from testbed.nodes.namespaces import scratch
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.plane.process import ClusterError, end_as_by_ctrl_c


def main() -> int:
    """Runs the demo once, and removes everything at the end."""
    end_as_by_ctrl_c()
    start = time.monotonic()
    try:
        with scratch() as folder:
            succeeded = _tell(folder)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        return 130
    # A wait that ends without its event raises an AssertionError.
    except (ClusterError, KubectlError, AssertionError) as error:
        sys.stderr.write(f"the demo failed: {error}\n")
        return 1
    say(f"\nthat took {time.monotonic() - start:.0f} s; nothing is left running. make cluster NODES=4 stays.")
    if not succeeded:
        sys.stderr.write("the demo failed: the job did not succeed; the launcher's logs are above\n")
    return 0 if succeeded else 1


def _tell(folder: Path) -> bool:
    with story.plane(folder, product.archives(), say=say) as (plane, _):
        kubectl = plane.kubectl
        say(f"\n$ kubectl apply -f {chart.INSTALL.relative_to(chart.REPOSITORY)}")
        story.install(kubectl)
        story.all_offered(kubectl, plane.nodes)
        say("the webhook serves, and all devices are offered")
        inside = kubectl.in_namespace("default")
        _show(inside, "apply", "-f", str(story.JOB.relative_to(story.REPOSITORY)))
        launcher = _watched(inside)
        _show(inside, "get", "pods", "-o", "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName")
        for container in story.containers(launcher):
            _show(inside, "logs", launcher["metadata"]["name"], "-c", container)
        return bool(launcher["status"]["phase"] == "Succeeded")


def _watched(kubectl: Kubectl) -> Object:
    """Returns the last Pod of the job's launcher after the job has ended; prints Pods' states until then."""
    states: dict[str, str] = {}

    def ended(job: Object) -> bool:
        for pod in kubectl.get_json("pods")["items"]:
            name, now = pod["metadata"]["name"], doing(pod)
            if states.get(name) != now:
                say(f"{name:<24} {now}")
                states[name] = now
        return story.over(job)

    kubectl.wait_for(ended, "mpijob", "demo", timeout=story.SECONDS)
    return story.launchers(kubectl)[0]


def doing(pod: Object) -> str:
    """Returns a Pod's state in a few words: its phase, or how many init containers have ended."""
    status = pod["status"]
    if "schedulingGates" in pod["spec"]:
        return "waits until there is a node for every worker"
    waits = status.get("initContainerStatuses", [])
    if status["phase"] != "Pending" or not waits:
        return str(status["phase"])
    ended = sum("terminated" in container["state"] for container in waits)
    return f"Pending, {ended} of {len(waits)} init containers have ended"


def _show(kubectl: Kubectl, *args: str) -> None:
    say(f"\n$ kubectl {' '.join(args)}")
    say(kubectl.run(*args).stdout.rstrip())


if __name__ == "__main__":
    sys.exit(main())

"""Installs the product on four real nodes, and runs a plain job there until it ends: ``make demo``."""

import sys
import time
from pathlib import Path

from testbed import chart
from testbed.images import product
from testbed.kits.progress import say
from testbed.nodes import story
from testbed.nodes.namespaces import scratch
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.plane.process import ClusterError, end_on_signals


def main() -> int:
    """Runs the demo, removes everything that it started, and returns the exit status."""
    end_on_signals()
    start = time.monotonic()
    try:
        with scratch() as folder:
            succeeded = _run_demo(folder)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        return 130
    # A wait that times out raises an AssertionError.
    except (ClusterError, KubectlError, AssertionError) as error:
        sys.stderr.write(f"the demo failed: {error}\n")
        return 1
    say(f"\nthe demo took {time.monotonic() - start:.0f} s, and nothing is left running")
    say("make cluster NODES=4 starts a cluster that runs until Ctrl-C")
    if not succeeded:
        sys.stderr.write("the demo failed: the job did not succeed; the launcher's logs are above\n")
    return 0 if succeeded else 1


def _run_demo(folder: Path) -> bool:
    with story.plane(folder, product.archives(), say=say) as (plane, _):
        kubectl = plane.kubectl
        say(f"\n$ kubectl apply -f {chart.INSTALL.relative_to(chart.REPOSITORY)}")
        story.install(kubectl)
        story.wait_for_all_devices(kubectl, plane.nodes)
        say("the webhook serves, and all devices are offered")
        namespace = kubectl.in_namespace("default")
        _run_and_show(namespace, "apply", "-f", str(story.JOB.relative_to(story.REPOSITORY)))
        launcher = _watch_job(namespace)
        _run_and_show(
            namespace, "get", "pods", "-o", "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName"
        )
        for container in story.container_names(launcher):
            _run_and_show(namespace, "logs", launcher["metadata"]["name"], "-c", container)
        return bool(launcher["status"]["phase"] == "Succeeded")


def _watch_job(kubectl: Kubectl) -> Object:
    """Prints the states of the Pods until the job has ended; returns the newest launcher Pod."""
    states: dict[str, str] = {}

    def ended(job: Object) -> bool:
        for pod in kubectl.get_json("pods")["items"]:
            name, state = pod["metadata"]["name"], state_text(pod)
            if states.get(name) != state:
                say(f"{name:<24} {state}")
                states[name] = state
        return story.has_ended(job)

    kubectl.wait_for(ended, "mpijob", "demo", timeout=story.SECONDS)
    return story.launchers(kubectl)[0]


def state_text(pod: Object) -> str:
    """Returns a Pod's phase, or the number of its init containers that have ended."""
    status = pod["status"]
    if "schedulingGates" in pod["spec"]:
        return "waits until there is a node for every worker"
    init_statuses = status.get("initContainerStatuses", [])
    if status["phase"] != "Pending" or not init_statuses:
        return str(status["phase"])
    ended = sum("terminated" in container["state"] for container in init_statuses)
    return f"Pending, {ended} of {len(init_statuses)} init containers have ended"


def _run_and_show(kubectl: Kubectl, *args: str) -> None:
    say(f"\n$ kubectl {' '.join(args)}")
    say(kubectl.run(*args).stdout.rstrip())


if __name__ == "__main__":
    sys.exit(main())

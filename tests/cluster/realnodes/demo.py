"""``make demo``: four real nodes, the product installed, and a plain job that runs to its end on them."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.kubectl import KubectlError, NotYetError
from tests.cluster.process import ClusterError, end_as_by_ctrl_c
from tests.cluster.realnodes import build, images, product, story
from tests.cluster.realnodes.namespaces import scratch
from tests.cluster.realnodes.plane import RealPlane
from tests.cluster.realnodes.plugin import SYSFS, NeuronPlugin, ultraserver
from tests.cluster.tools.progress import say

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl


def main() -> int:
    """Tells the story once, and leaves nothing behind."""
    end_as_by_ctrl_c()
    start = time.monotonic()
    try:
        with scratch() as folder:
            succeeded = _tell(folder)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        return 130
    except (ClusterError, KubectlError, NotYetError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    say(f"\nthat took {time.monotonic() - start:.0f} s; nothing is left running. make cluster NODES=4 stays.")
    return 0 if succeeded else 1


def _tell(folder: Path) -> bool:
    archives = images.small(folder, build.directory()) + product.archives()
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(RealPlane(folder, ultraserver(), archives, say))
        kubectl = plane.kubectl
        for node, sysfs in zip(plane.nodes.values(), SYSFS, strict=True):
            NeuronPlugin(node, sysfs)
        say(f"\n$ kubectl apply -k {story.OVERLAY.relative_to(story.REPOSITORY)}")
        story.install(kubectl)
        story.all_offered(kubectl, plane.nodes)
        inside = kubectl.in_namespace("default")
        _show(inside, "apply", "-f", str(story.JOB.relative_to(story.REPOSITORY)))
        launcher = story.ended(inside)
        _show(inside, "get", "pods", "-o", "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName")
        for container in story.containers(launcher):
            _show(inside, "logs", launcher["metadata"]["name"], "-c", container)
        return bool(launcher["status"]["phase"] == "Succeeded")


def _show(kubectl: Kubectl, *args: str) -> None:
    say(f"\n$ kubectl {' '.join(args)}")
    say(kubectl.run(*args).stdout.rstrip())


if __name__ == "__main__":
    sys.exit(main())

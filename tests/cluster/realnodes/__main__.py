"""A control plane with real nodes to look at: ``python -m tests.cluster.realnodes`` stays until Ctrl-C."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.kubectl import KubectlError
from tests.cluster.process import ClusterError, end_as_by_ctrl_c
from tests.cluster.realnodes import build, images, product, story
from tests.cluster.realnodes.namespaces import scratch
from tests.cluster.realnodes.plane import RealPlane
from tests.cluster.realnodes.plugin import SYSFS, NeuronPlugin, ultraserver
from tests.cluster.tools.progress import say

if TYPE_CHECKING:
    from pathlib import Path


def main() -> int:
    """Starts everything, says how to use it, and waits to be told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.realnodes", description=__doc__)
    parser.add_argument("--nodes", type=int, choices=(1, 2, 4), default=4, help="how many (default: 4)")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    try:
        with scratch() as folder:
            _serve(folder, options.nodes)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
    except (ClusterError, KubectlError, AssertionError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _serve(folder: Path, count: int) -> None:
    archives = images.small(folder, build.directory()) + product.built()
    with RealPlane(folder, ultraserver()[:count], archives, say) as running:
        for node, sysfs in zip(running.nodes.values(), SYSFS, strict=False):
            NeuronPlugin(node, sysfs)
        say(f"{count} real nodes of one UltraServer, with 16 devices each; no others")
        say(f"\n  export KUBECONFIG={shlex.quote(str(running.kubeconfig))}")
        say(f"  alias kubectl={shlex.quote(str(running.kubectl.binary))}")
        say("\nThe product is not installed. In the repository:\n")
        say(f"  kubectl apply -k {story.OVERLAY.relative_to(story.REPOSITORY)}")
        job = story.JOB.relative_to(story.REPOSITORY)
        say(f"  kubectl apply -f {job}{'' if count == len(SYSFS) else '  # waits: it is for four nodes'}\n")
        say(f"logs are in {running.programs.logs}; Ctrl-C stops everything")
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())

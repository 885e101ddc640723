"""Runs a control plane with real nodes until Ctrl-C: ``python -m testbed.nodes``."""

import argparse
import shlex
import sys
from pathlib import Path

from testbed import chart
from testbed.images import product
from testbed.kits.progress import say
from testbed.nodes import story
from testbed.nodes.namespaces import scratch
from testbed.plane.kubectl import KubectlError
from testbed.plane.nodes import NODES_PER_ULTRASERVER
from testbed.plane.process import ClusterError, end_on_signals, wait_for_ctrl_c


def main() -> int:
    """Starts everything, prints how to use it, and waits for Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m testbed.nodes", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, choices=(1, 2, 4), default=4, help="the number of nodes (default: 4)"
    )
    driver_help = (
        "the number of nodes of another UltraServer, with a DRA driver in place of the plugin (default: 0)"
    )
    parser.add_argument("--driver", type=int, choices=(0, 1, 2, 4), default=0, help=driver_help)
    options = parser.parse_args()
    end_on_signals()
    try:
        with scratch() as folder:
            _serve(folder, options.nodes, options.driver)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
    except (ClusterError, KubectlError, AssertionError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _serve(folder: Path, count: int, driver_nodes: int) -> None:
    with story.plane(folder, product.built(), count, say, driver_nodes) as (plane, _):
        with_driver = f"; {driver_nodes} with a DRA driver" if driver_nodes else ""
        say(f"{count} real nodes of one UltraServer, with 16 devices each{with_driver}")
        say(f"\n  export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
        say(f"  alias kubectl={shlex.quote(str(plane.kubectl.binary))}")
        say(f"  alias helm={shlex.quote(str(chart.helm()))}")
        say("\nThe product is not installed. Follow docs/install.md, or run in the repository:\n")
        say(f"  kubectl apply -f {chart.INSTALL.relative_to(chart.REPOSITORY)}")
        job = story.JOB.relative_to(story.REPOSITORY)
        note = "" if count == NODES_PER_ULTRASERVER else "  # waits: this job needs four nodes"
        say(f"  kubectl apply -f {job}{note}\n")
        if driver_nodes:
            say(f"jobs can claim {driver_nodes} nodes, see docs/claims.md; install the claim templates with")
            say("  kubectl apply -f manifests/chart/claims.yaml\n")
        say(f"logs are in {plane.programs.logs}; Ctrl-C stops everything")
        wait_for_ctrl_c()


if __name__ == "__main__":
    sys.exit(main())

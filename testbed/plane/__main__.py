"""Runs a control plane until Ctrl-C: ``python -m testbed.plane``."""

import argparse
import contextlib
import shlex
import sys
import tempfile
from pathlib import Path

from testbed import chart
from testbed.kits.progress import say
from testbed.plane import nodes, placement, previews, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import KubectlError
from testbed.plane.process import ClusterError, end_on_signals, wait_for_ctrl_c


def main() -> int:
    """Starts everything, prints how to use it, and waits for a signal."""
    parser = argparse.ArgumentParser(prog="python -m testbed.plane", description=__doc__)
    parser.add_argument(
        "--ultraservers",
        type=int,
        default=24,
        help="the number of UltraServers, each with four nodes (default: 24)",
    )
    parser.add_argument(
        "--plain-nodes", type=int, default=2, help="the number of nodes without accelerators (default: 2)"
    )
    parser.add_argument("--rules", type=Path, help="a rule table that replaces the table of the installation")
    parser.add_argument("--no-webhook", action="store_true", help="start only the control plane")
    options = parser.parse_args()
    end_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="ultraserver-cluster-") as folder:
            _serve(Path(folder), options)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
    except (ClusterError, KubectlError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _serve(folder: Path, options: argparse.Namespace) -> None:
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(folder, say=say))
        kubectl = plane.kubectl
        fleet = nodes.ultraserver_nodes(options.ultraservers) + nodes.plain_nodes(options.plain_nodes)
        if fleet:
            nodes.create(kubectl, fleet)
        say(f"{len(fleet)} nodes, {options.ultraservers} UltraServers")
        if not options.no_webhook:
            installed_rules = placement.install(plane)
            rules = options.rules.absolute() if options.rules else installed_rules
            server = webhook.start(plane.programs, folder / "webhook", rules)
            namespace = kubectl.in_namespace("default")
            stack.enter_context(webhook.register(namespace, webhook.configuration(server)))
            say(f"the webhook is registered, and the API server calls it at {server.url}/mutate")
            placement.start(plane, "placement", rules=rules)
            say("whole-job admission runs, and the guard's policies are installed")
            try:
                stack.enter_context(previews.run_preview_service(plane, chart.NAME, rules))
                say("previews are served")
            except previews.NoAddressError as error:
                say(f"previews are not served: {error}")
        program = shlex.quote(str(kubectl.binary))
        say(f"\n  export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
        say(f"  alias kubectl={program}")
        say(f"\n  kubectl apply -f {webhook.REPOSITORY}/examples/four-node.yaml")
        say("  kubectl get mpijob demo -o yaml")
        say("  kubectl get pods -o wide\n")
        say(f"logs are in {plane.programs.logs}; Ctrl-C stops everything")
        wait_for_ctrl_c()


if __name__ == "__main__":
    sys.exit(main())

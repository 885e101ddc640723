"""``python -m placement``: the command line of whole-job admission."""

import contextlib
import json
import logging
import socket
import traceback
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from common import logs
from common.output import Program, say
from common.texts import printable
from kube.api import ApiError
from kube.command import connect, option_with_prefix, own_namespace, report_errors
from kube.election import Elector
from kube.loop import Loop
from kube.watch import Mirror
from placement import messages
from placement.act import by_hand
from placement.act.answers import PATH, AnswerApp
from placement.act.events import Reporter
from placement.act.passes import PassRunner
from placement.decide.cluster import display_name
from placement.decide.plan import Tuning
from placement.observe.inventory import READERS
from placement.observe.model import COMPONENT
from placement.observe.read import ENDED_QUERY, LIVE_QUERY, read_ended, read_node, read_pod
from placement.observe.units import watch_units

COLLECTIONS: Final = (
    ("/api/v1/nodes", read_node),
    (f"/api/v1/pods?{LIVE_QUERY}", read_pod),
    (f"/api/v1/pods?{ENDED_QUERY}", read_ended),
    *READERS.items(),
)
LABELS: Final = {"app.kubernetes.io/name": "ultraserver-webhook", "app.kubernetes.io/component": "placement"}
_log = logging.getLogger("placement")

option = option_with_prefix("ULTRASERVER_PLACEMENT")
seconds = partial(option, type=float)
kubeconfig_option = option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig to use. Default: the pod's own account."
)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Admit all pods of a job together, onto whole UltraServers."""


@main.command()
@kubeconfig_option
@option("--namespace", default=own_namespace, show_default="the pod's own", help="Namespace of the Lease.")
@option("--lease", default=COMPONENT, help="Name of the Lease; only the replica that has it admits jobs.")
@option(
    "--lease-seconds", type=click.IntRange(3), default=15, help="How long the Lease lasts without renewal."
)
@option(
    "--identity",
    default=socket.gethostname,
    show_default="the host's name",
    help="Name of this replica in the Lease.",
)
@seconds("--bound-seconds", default=120.0, help="Seconds until an admission that lacks nodes has failed.")
@seconds("--interval-seconds", default=10.0, help="Seconds between two decisions if nothing changes.")
@seconds("--failed-seconds", default=60.0, help="Seconds for which jobs tolerate an unusable node.")
@seconds("--default-limit-seconds", default=86400.0, help="Assumed time limit of jobs that have none.")
@option(
    "--rules",
    type=click.Path(path_type=Path),
    help="The webhook's rule table, a file or a directory: it defines units and guarantees.",
)
@option("--metrics-host", default="0.0.0.0", help="Address to serve metrics on.")  # noqa: S104 - a pod's own
@option("--metrics-port", type=int, default=0, help="Port to serve metrics on; 0 for no metrics.")
@option("--answers", is_flag=True, help="On the metrics port, answer the preview service whether a job fits.")
@option("--log-format", type=click.Choice(logs.FORMATS), default="json", help="Format of the log.")
def run(**options: Any) -> None:  # noqa: ANN401 - click passes the options above
    """Decide which jobs start, until SIGTERM."""
    # prometheus_client is for this command only.
    from kube.metrics import serve  # noqa: PLC0415
    from placement.act.metrics import Metrics  # noqa: PLC0415

    logs.configure(options["log_format"], "placement")
    metrics = Metrics()
    settings = "bound", "default_limit", "failed"
    bound, default_limit, failed = (timedelta(seconds=options[f"{name}_seconds"]) for name in settings)
    with report_errors(ApiError, OSError, ValueError):
        units = watch_units(options["rules"]).refresh
        api, *watch_clients = (connect(options["kubeconfig"]) for _ in range(1 + len(COLLECTIONS)))
    lease = options["lease"], options["identity"], options["lease_seconds"]
    elector = Elector(api, options["namespace"], *lease, LABELS)
    messages_if_unserved = dict.fromkeys(READERS, messages.WITHOUT_CLAIMS)
    copies = tuple(
        Mirror[Any](client, path, read, lambda: loop.wake(), unserved=messages_if_unserved.get(path, ""))  # noqa: PLW0108 - `loop` is made below
        for client, (path, read) in zip(watch_clients, COLLECTIONS, strict=True)
    )
    tuning, reporter = Tuning(bound, default_limit, failed_after=failed), Reporter(api, options["identity"])
    intervals = options["interval_seconds"], options["lease_seconds"] / 3
    passes = PassRunner(api, copies, tuning, units, reporter, metrics, lambda: datetime.now(UTC), *intervals)
    answers = {PATH: AnswerApp(lambda: passes.scene, passes.clock)} if options["answers"] else {}
    if port := options["metrics_port"]:
        with report_errors(OSError):
            serve(options["metrics_host"], port, metrics.registry, answers)
    loop = Loop(elector, passes, passes.set_leader, can_work=passes.is_fresh)
    loop.stop_on_signals()
    with contextlib.ExitStack() as stack:
        for copy in copies:
            stack.enter_context(copy)
        loop.run()
    _log.info(messages.STOPPED)


@main.command("admit")
@click.argument("job", required=False)
@click.option("--all", "everything", is_flag=True, help="Admit every job that waits.")
@kubeconfig_option
def admit(job: str | None, everything: bool, kubeconfig: Path | None) -> None:  # noqa: FBT001 - a flag
    """In an emergency, admit JOB (namespace/name) now.

    The scheduler places its pods anywhere: some may get no node, and the job may straddle UltraServers.
    """
    if bool(job) == everything or (job and not all(job.partition("/"))):
        raise click.UsageError(messages.ONE_OR_ALL)
    with report_errors(ApiError):
        api = connect(kubeconfig)
        gated_pods = list(by_hand.gated_pods(api, job))
    failure_count = 0
    for pod in gated_pods:
        if why := by_hand.admit(api, pod):
            failure_count += 1
        text = messages.admitted_by_hand(f"{pod.namespace}/{pod.name}", display_name(pod.key), why)
        say(text, err=bool(why))
    if failure_count:
        raise click.ClickException(messages.not_admitted(failure_count))
    if not gated_pods:
        raise click.ClickException(messages.none_waits(job))


# The name of the command in 0.2.0.
main.add_command(
    click.Command("open", hidden=True, help=admit.help, params=admit.params, callback=admit.callback)
)


@main.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
def replay_(file: Path, output: str) -> None:
    """Repeat a decision from FILE, a snapshot of `kubectl ultraserver snapshot`, without a cluster."""
    from placement import replay  # noqa: PLC0415 - pydantic is for this command only

    with report_errors(OSError, ValueError):
        snapshot = replay.read(file)
    try:
        result = replay.describe(replay.decision_for(snapshot))
    except Exception as error:
        say(traceback.format_exc(), err=True)
        raise click.ClickException(messages.no_decision(file, error)) from error
    say(json.dumps(result, indent=2) if output == "json" else "\n".join(replay.lines(result)))
    if not snapshot.complete:
        say(messages.INCOMPLETE_SNAPSHOT, err=True)
    if snapshot.release != version("ultraserver-webhook"):
        say(printable(messages.other_release(snapshot.release)), err=True)


if __name__ == "__main__":
    main(prog_name="python -m placement")

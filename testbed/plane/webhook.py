"""Runs the webhook as a process on loopback, and creates its webhook configuration."""

import base64
import contextlib
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import chart
from testbed.plane.controlplane import answers_ok
from testbed.plane.kubectl import Kubectl, KubectlError
from testbed.plane.process import ClusterError, Program, Programs, free_ports
from testbed.waiting import PATIENCE, NotYetError, until

NAME = "ultraserver-webhook"
INJECT = "ultraserver-webhook.io/inject"
REPOSITORY = Path(__file__).resolve().parents[2]

_POD = {"spec": {"containers": [{"name": "probe", "image": "example.invalid/probe"}]}}
PROBE = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "probe"},
    "spec": {
        "mpiReplicaSpecs": {"Launcher": {"template": _POD}, "Worker": {"replicas": 1, "template": _POD}}
    },
}


@dataclass(frozen=True)
class RunningWebhook:
    """A webhook that is ready: its process, its URL, and the file of its certificate authority."""

    program: Program
    url: str
    ca: Path


def development_certificates(folder: Path) -> None:
    """Creates ``ca.crt``, ``tls.crt`` and ``tls.key`` in ``folder``, with the certificate program.

    Raises:
        ClusterError: The program has failed; the message has its output.
    """
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder)]
    result = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    if result.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


def start(
    programs: Programs, folder: Path, rules: Path | None = None, name: str = NAME, options: Sequence[str] = ()
) -> RunningWebhook:
    """Starts a webhook, and waits until it reports that it is ready.

    Args:
        programs: Starts and stops the webhook.
        folder: The folder for the development certificates.
        rules: A rule table; None for the packaged table.
        name: The name of the log.
        options: Additional options of the command.
    """
    development_certificates(folder)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "webhook", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    if rules is not None:
        command += ["--rules", str(rules)]
    program = programs.start(name, [*command, *options], cwd=REPOSITORY)
    url, ca = f"https://127.0.0.1:{port}", folder / "ca.crt"
    program.wait_ready(lambda: answers_ok(f"{url}/readyz", ca), PATIENCE)
    return RunningWebhook(program, url, ca)


def configuration(
    server: RunningWebhook,
    name: str = NAME,
    namespaces: dict[str, Any] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the MutatingWebhookConfiguration of an installation, for a running webhook.

    Args:
        server: The webhook that the API server calls.
        name: The name of the configuration; the name of its webhook is ``mpijobs.<name>.io``.
        namespaces: A selector of namespaces; None for all namespaces that are not opted out.
        values: Values of the chart. Without values, Helm is not needed.
    """
    (document,) = (item for item in chart.objects(values) if item["kind"] == "MutatingWebhookConfiguration")
    document["metadata"]["name"] = name
    for hook in document["webhooks"]:
        hook["name"] = hook["name"].replace(f".{NAME}.", f".{name}.")
        path = hook["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(server.ca.read_bytes()).decode()
        hook["clientConfig"] = {"url": f"{server.url}{path}", "caBundle": bundle}
        # A review that fails must fail the test.
        hook["failurePolicy"] = "Fail"
        # A machine that stalls for some seconds must not fail the test.
        hook["timeoutSeconds"] = 30
        hook["namespaceSelector"] = namespaces or hook["namespaceSelector"]
    return document


def hook_name(name: str) -> str:
    """Returns the name of the webhook in a configuration, as metrics, audit and errors show it."""
    return f"mpijobs.{name}.io"


@contextlib.contextmanager
def register(kubectl: Kubectl, document: dict[str, Any], probe: dict[str, Any] = PROBE) -> Iterator[None]:
    """Creates a webhook configuration, waits until the API server uses it, and deletes it at the end.

    Args:
        kubectl: kubectl for a namespace that the document selects. The dry run is in this namespace.
        document: The webhook configuration, as `configuration` returns it.
        probe: The object of the dry run.

    Raises:
        NotYetError: The API server does not call the webhook in time.
    """
    kubectl.create(document)
    try:
        wait_until_called(kubectl, {hook["name"] for hook in document["webhooks"]}, probe)
        yield
    finally:
        kubectl.delete(document["kind"], document["metadata"]["name"])


def wait_until_called(namespace: Kubectl, hooks: Collection[str], probe: dict[str, Any]) -> None:
    """Waits until the API server calls one of these webhooks for a new object.

    The API server uses a configuration only a moment after it has stored it, and does not report the time.

    Raises:
        NotYetError: The API server calls none of them in time; the message has the result of the create.
    """

    def is_called() -> bool:
        nonlocal answer
        count_before = call_count(namespace, *hooks)
        try:
            namespace.create(probe, "--dry-run=server")
            answer = "admitted"
        except KubectlError as error:
            answer = error.stderr
        return call_count(namespace, *hooks) > count_before

    answer = ""
    try:
        until(is_called, f"a call of {' or '.join(sorted(hooks))}")
    except NotYetError as error:
        raise NotYetError(f"{error}; a new {probe['kind']} is {answer}") from None


def call_count(kubectl: Kubectl, *names: str) -> float:
    """Returns the number of calls of these webhooks, from the API server's metrics."""
    samples = metric_samples(kubectl, "apiserver_admission_webhook_request_total")
    return sum(value for labels, value in samples if any(f'name="{name}"' in labels for name in names))


def metric_samples(kubectl: Kubectl, metric: str) -> Iterator[tuple[str, float]]:
    """Yields the labels, as text, and the value of each sample of a metric of the API server."""
    for line in kubectl.api.text("/metrics").splitlines():
        if line.startswith(f"{metric}{{"):
            labels, value = line.rsplit(" ", 1)
            yield labels, float(value)

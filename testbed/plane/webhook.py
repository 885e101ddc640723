"""The webhook as a process on loopback, and its registration with the API server."""

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
    """A webhook that answers, and what is needed to reach it."""

    program: Program
    url: str
    ca: Path


def development_certificates(folder: Path) -> None:
    """Has the project's own program make ``ca.crt``, ``tls.crt`` and ``tls.key`` in ``folder``.

    Raises:
        ClusterError: it failed; the message has its output.
    """
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def start(
    programs: Programs, folder: Path, rules: Path | None = None, name: str = NAME, more: Sequence[str] = ()
) -> RunningWebhook:
    """Starts a webhook and waits until it reports that it is ready.

    Args:
        programs: what stops it again.
        folder: gets the development certificates.
        rules: a table other than the packaged one.
        name: names the log, when there are several.
        more: options of the command.
    """
    development_certificates(folder)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "webhook", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    if rules is not None:
        command += ["--rules", str(rules)]
    program = programs.start(name, [*command, *more], cwd=REPOSITORY)
    url, ca = f"https://127.0.0.1:{port}", folder / "ca.crt"
    program.wait_ready(lambda: answers_ok(f"{url}/readyz", ca), PATIENCE)
    return RunningWebhook(program, url, ca)


def configuration(
    running: RunningWebhook,
    name: str = NAME,
    namespaces: dict[str, Any] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the MutatingWebhookConfiguration of an installation, for a running webhook.

    Args:
        running: what is to be asked.
        name: of the configuration; the webhook in it is called ``mpijobs.<name>.io``.
        namespaces: a selector of namespaces other than "all that are not opted out".
        values: of the chart, other than the default, which needs no Helm.
    """
    (document,) = (item for item in chart.objects(values) if item["kind"] == "MutatingWebhookConfiguration")
    document["metadata"]["name"] = name
    for hook in document["webhooks"]:
        hook["name"] = hook["name"].replace(f".{NAME}.", f".{name}.")
        path = hook["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(running.ca.read_bytes()).decode()
        hook["clientConfig"] = {"url": f"{running.url}{path}", "caBundle": bundle}
        # An installation may fail open; here a review that went wrong must not pass for a plain job.
        hook["failurePolicy"] = "Fail"
        # A machine that stalls for some seconds must not fail a test either: no test here measures time.
        hook["timeoutSeconds"] = 30
        hook["namespaceSelector"] = namespaces or hook["namespaceSelector"]
    return document


def qualified(name: str) -> str:
    """Returns the name of the webhook in the configuration ``name``, as in metrics, audit and errors."""
    return f"mpijobs.{name}.io"


@contextlib.contextmanager
def registered(inside: Kubectl, document: dict[str, Any], probe: dict[str, Any] = PROBE) -> Iterator[None]:
    """Registers a webhook, waits until the API server calls it, and removes the registration at the end.

    Args:
        inside: kubectl for a namespace that the document selects; it is asked there by a dry run.
        document: a ``configuration``.
        probe: an object that it is asked about.

    Raises:
        NotYetError: the API server does not ask the webhook.
    """
    inside.create(document)
    try:
        asked(inside, {hook["name"] for hook in document["webhooks"]}, probe)
        yield
    finally:
        inside.delete(document["kind"], document["metadata"]["name"])


def asked(inside: Kubectl, hooks: Collection[str], probe: dict[str, Any]) -> None:
    """Waits until the API server calls one of these webhooks for a new object.

    It reads configurations by a watch, a moment after it has stored one, and reports that nowhere.

    Raises:
        NotYetError: It does not; the message has the object.
    """

    def counted() -> bool:
        nonlocal answer
        before = requests(inside, *hooks)
        try:
            inside.create(probe, "--dry-run=server")
            answer = "admitted"
        except KubectlError as error:
            answer = error.stderr
        return requests(inside, *hooks) > before

    answer = ""
    try:
        until(counted, f"a call of {' or '.join(sorted(hooks))}")
    except NotYetError as error:
        raise NotYetError(f"{error}; a new {probe['kind']} is {answer}") from None


def requests(kubectl: Kubectl, *names: str) -> float:
    """Returns how often the API server has called the webhooks of these names, by its own count."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in kubectl.api.text("/metrics").splitlines()
        if line.startswith("apiserver_admission_webhook_request_total{")
        and any(f'name="{name}"' in line for name in names)
    )

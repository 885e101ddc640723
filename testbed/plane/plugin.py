"""Runs ``kubectl ultraserver`` with the real kubectl, as a user does, or in this process, which is faster."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from click.testing import CliRunner, Result

from kube.client import KubernetesApi, connect
from kubectl_ultraserver.__main__ import FAILED, main
from testbed.plane.jobs import list_object, to_json
from testbed.plane.kubectl import Kubectl, Object
from testbed.waiting import PATIENCE, NotYetError, until


def plugin(kubectl: Kubectl, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``kubectl ultraserver WORDS`` with the real kubectl, and returns the result."""
    options = ["-n", kubectl.namespace] if kubectl.namespace else []
    command, env = _command(kubectl, [*words, *options], kubeconfig)
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


@contextlib.contextmanager
def preview_page(kubectl: Kubectl, kubeconfig: Path | None = None) -> Iterator[str]:
    """Yields the URL that ``kubectl ultraserver preview --web`` prints, and checks that Ctrl-C ends it."""
    command, env = _command(kubectl, ["preview", "--web"], kubeconfig)
    env["BROWSER"] = "true"
    # In a shell, the child processes of a background job ignore SIGINT.
    command = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout
            first_line = process.stdout.readline()
            yield first_line.split()[1]
        finally:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(PATIENCE)
    assert code == 0, "Ctrl-C must end the command with exit status 0"
    until(lambda: not _has_processes(process.pid), "the end of the command's child processes")


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _command(kubectl: Kubectl, words: list[str], kubeconfig: Path | None) -> tuple[list[str], dict[str, str]]:
    """Returns the command line of the plugin, and its environment."""
    path = [str(kubectl.binary.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    variables = {"KUBECONFIG": str(kubeconfig or kubectl.kubeconfig), "PATH": ":".join(path), "KUBERC": "off"}
    return [str(kubectl.binary), "ultraserver", *words], os.environ | variables


def _run_here(words: list[str], stdin: str | None = None) -> Result:
    """Runs a command of the plugin in this process, without kubectl, and returns the result."""

    def connect_directly(kubeconfig: Path, _context: str | None) -> tuple[KubernetesApi, str]:
        return connect(kubeconfig), "default"

    with patch("kubectl_ultraserver.__main__.connect_as_user", connect_directly):
        return CliRunner().invoke(main, words, input=stdin)


def eventually(kubectl: Kubectl, words: list[str], condition: Callable[[Any], object]) -> Any:
    """Repeats a command in this process until a condition holds for its JSON, and returns the JSON.

    Raises:
        NotYetError: The condition does not hold in time. The message has the last output.
    """
    options = ["-n", kubectl.namespace or "default", "--kubeconfig", str(kubectl.kubeconfig), "-o", "json"]
    output = ""

    def satisfied() -> Any:
        nonlocal output
        result = _run_here([*words, *options])
        assert result.exit_code < FAILED, result.output
        output = result.stdout
        answer = json.loads(output)
        return answer if condition(answer) else None

    try:
        return until(satisfied, f"the expected output of kubectl ultraserver {' '.join(words)}")
    except NotYetError as error:
        raise NotYetError(f"{error}; the last output is:\n{output}") from None


def run_preview(kubectl: Kubectl, *jobs: Object, options: Sequence[str] = ()) -> tuple[int, list[Any]]:
    """Runs ``kubectl ultraserver preview`` in this process; returns its exit status and its items."""
    namespace_options = ["-n", kubectl.namespace] if kubectl.namespace else []
    arguments = ["preview", "-f", "-", *namespace_options, "-o", "json"]
    arguments += ["--kubeconfig", str(kubectl.kubeconfig), *options]
    result = _run_here(arguments, to_json(list_object(*jobs)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.stdout, result.output
    return result.exit_code, json.loads(result.stdout)["items"]


def finding_texts(document: Any) -> list[str]:
    """Returns the findings in the output of ``why``, each as ``KIND NAME: TEXT``."""
    return [f"{item['kind']} {item['name']}: {item['text']}" for item in document["findings"]]


def account(kubectl: Kubectl, name: str, folder: Path) -> Path:
    """Creates a service account without rights, and returns its kubeconfig."""
    kubectl.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    token = kubectl.api.token(kubectl.namespace or "default", name)
    config = yaml.safe_load(kubectl.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    config["contexts"][0]["context"]["namespace"] = kubectl.namespace
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path

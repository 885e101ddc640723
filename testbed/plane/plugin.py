"""Runs ``kubectl ultraserver`` as a user does, through the real kubectl, or in this process."""

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
from testbed.plane.jobs import to_json, list_object
from testbed.plane.kubectl import Kubectl, Object
from testbed.waiting import PATIENCE, NotYetError, until


def plugin(inside: Kubectl, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``kubectl ultraserver WORDS`` in a namespace, as with any kubectl command."""
    options = ["-n", inside.namespace] if inside.namespace else []
    command, env = _command(inside, [*words, *options], kubeconfig)
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


@contextlib.contextmanager
def preview_page(inside: Kubectl, kubeconfig: Path | None = None) -> Iterator[str]:
    """Yields the address that ``kubectl ultraserver preview --web`` prints. Ctrl-C must end it."""
    command, env = _command(inside, ["preview", "--web"], kubeconfig)
    env["BROWSER"] = "true"
    command = ["env", "--default-signal=INT", *command]  # programs of a background test ignore SIGINT
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
    assert code == 0, "the exit status is 0"
    until(lambda: not _has_processes(process.pid), "the end of its children")


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _command(inside: Kubectl, words: list[str], kubeconfig: Path | None) -> tuple[list[str], dict[str, str]]:
    """Returns the command line of the plugin, and its environment."""
    path = [str(inside.binary.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    variables = {"KUBECONFIG": str(kubeconfig or inside.kubeconfig), "PATH": ":".join(path), "KUBERC": "off"}
    return [str(inside.binary), "ultraserver", *words], os.environ | variables


def _run_here(words: list[str], stdin: str | None = None) -> Result:
    """Returns the result of a command that runs in this process, without kubectl and its proxy."""

    def connected(kubeconfig: Path, _context: str | None) -> tuple[KubernetesApi, str]:
        return connect(kubeconfig), "default"

    with patch("kubectl_ultraserver.__main__.connect_as_user", connected):
        return CliRunner().invoke(main, words, input=stdin)


def eventually(inside: Kubectl, words: list[str], condition: Callable[[Any], object]) -> Any:
    """Repeats a command in this process until a condition holds for its JSON, and returns the JSON.

    Raises:
        NotYetError: The time is over; the message has the last output.
    """
    options = ["-n", inside.namespace or "default", "--kubeconfig", str(inside.kubeconfig), "-o", "json"]
    output = ""

    def satisfied() -> Any:
        nonlocal output
        result = _run_here([*words, *options])
        assert result.exit_code < FAILED, result.output
        output = result.stdout
        answer = json.loads(output)
        return answer if condition(answer) else None

    try:
        return until(satisfied, f"what kubectl ultraserver {' '.join(words)} says")
    except NotYetError as error:
        raise NotYetError(f"{error}; it says:\n{output}") from None


def run_preview(inside: Kubectl, *jobs: Object, options: Sequence[str] = ()) -> tuple[int, list[Any]]:
    """Returns the exit status of ``preview``, and an item for each object."""
    arguments = ["preview", "-f", "-", *(["-n", inside.namespace] if inside.namespace else []), "-o", "json"]
    arguments += ["--kubeconfig", str(inside.kubeconfig), *options]
    result = _run_here(arguments, to_json(list_object(*jobs)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.stdout, result.output
    return result.exit_code, json.loads(result.stdout)["items"]


def finding_texts(document: Any) -> list[str]:
    """Returns the findings of ``why``, each as ``KIND NAME: TEXT``."""
    return [f"{item['kind']} {item['name']}: {item['text']}" for item in document["findings"]]


def account(inside: Kubectl, name: str, folder: Path) -> Path:
    """Returns a kubeconfig of a new service account without rights."""
    inside.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    token = inside.api.token(inside.namespace or "default", name)
    config = yaml.safe_load(inside.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    config["contexts"][0]["context"]["namespace"] = inside.namespace
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path

"""``kubectl ultraserver`` as a person has it: found by the real kubectl, in the context's namespace."""

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
from testbed.plane.jobs import text, together
from testbed.plane.kubectl import Kubectl, Object
from testbed.waiting import PATIENCE, NotYetError, until


def plugin(inside: Kubectl, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``kubectl ultraserver WORDS`` with a namespace given as in any kubectl command."""
    where = ["-n", inside.namespace] if inside.namespace else []
    command, env = _command(inside, [*words, *where], kubeconfig)
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


@contextlib.contextmanager
def page(inside: Kubectl, kubeconfig: Path | None = None) -> Iterator[str]:
    """Yields the address that ``kubectl ultraserver preview --web`` prints; it gets Ctrl-C and must end."""
    command, env = _command(inside, ["preview", "--web"], kubeconfig)
    env["BROWSER"] = "true"
    command = ["env", "--default-signal=INT", *command]  # a test in the background ignores it
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout
            first = process.stdout.readline()
            yield first.split()[1]
        finally:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(PATIENCE)
    assert code == 0, "it ends well"
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
    own = {"KUBECONFIG": str(kubeconfig or inside.kubeconfig), "PATH": ":".join(path), "KUBERC": "off"}
    return [str(inside.binary), "ultraserver", *words], os.environ | own


def _asked(words: list[str], given: str | None = None) -> Result:
    """Returns what a command with a namespace answers in this process, without kubectl and its proxy."""

    def connected(kubeconfig: Path, _context: str | None) -> tuple[KubernetesApi, str]:
        return connect(kubeconfig), "default"

    with patch("kubectl_ultraserver.__main__.connect_as_user", connected):
        return CliRunner().invoke(main, words, input=given)


def eventually(inside: Kubectl, words: list[str], holds: Callable[[Any], object]) -> Any:
    """Returns a command's result as JSON, once something holds for it; runs in this process, not in kubectl.

    Raises:
        NotYetError: it does not come about; the message has what was said last.
    """
    where = ["-n", inside.namespace or "default", "--kubeconfig", str(inside.kubeconfig), "-o", "json"]
    text = ""

    def found() -> Any:
        nonlocal text
        done = _asked([*words, *where])
        assert done.exit_code < FAILED, done.output
        text = done.stdout
        answer = json.loads(text)
        return answer if holds(answer) else None

    try:
        return until(found, f"what kubectl ultraserver {' '.join(words)} says")
    except NotYetError as error:
        raise NotYetError(f"{error}; it says:\n{text}") from None


def previewed(inside: Kubectl, *jobs: Object, options: Sequence[str] = ()) -> tuple[int, list[Any]]:
    """Returns what ``preview`` says of objects: its exit status, and an item for each."""
    words = ["preview", "-f", "-", *(["-n", inside.namespace] if inside.namespace else []), "-o", "json"]
    words += ["--kubeconfig", str(inside.kubeconfig), *options]
    done = _asked(words, text(together(*jobs)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)["items"]


def texts(document: Any) -> list[str]:
    """Returns the findings of ``why``, each as ``KIND NAME: TEXT``."""
    return [f"{item['kind']} {item['name']}: {item['text']}" for item in document["findings"]]


def account(inside: Kubectl, name: str, folder: Path) -> Path:
    """Returns a kubeconfig of a new service account, which may do nothing yet."""
    inside.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    token = inside.api.token(inside.namespace or "default", name)
    given = yaml.safe_load(inside.kubeconfig.read_text(encoding="utf-8"))
    given["users"][0]["user"] = {"token": token}
    given["contexts"][0]["context"]["namespace"] = inside.namespace
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    return path

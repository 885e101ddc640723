"""``kubectl ultraserver`` as a person has it: found by the real kubectl, in the context's namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Kubectl

SECONDS = 90.0


def plugin(inside: Kubectl, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``kubectl ultraserver WORDS`` with a namespace given as in any kubectl command."""
    found = [str(inside.binary.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    where = ["-n", inside.namespace] if inside.namespace else []
    return subprocess.run(
        [str(inside.binary), "ultraserver", *words, *where],
        env=os.environ
        | {"KUBECONFIG": str(kubeconfig or inside.kubeconfig), "PATH": ":".join(found), "KUBERC": "off"},
        check=False,
        capture_output=True,
        text=True,
    )


def eventually(
    inside: Kubectl, words: list[str], holds: Callable[[Any], object], seconds: float = SECONDS
) -> Any:
    """What a command says as JSON, once something holds of it."""
    deadline = time.monotonic() + seconds
    while True:
        done = plugin(inside, *words, "-o", "json")
        assert done.returncode < 2, done.stderr
        found = json.loads(done.stdout)
        if holds(found):
            return found
        assert time.monotonic() < deadline, done.stdout
        time.sleep(0.5)


def texts(found: Any) -> list[str]:
    """The findings of ``why``, each as ``KIND NAME: TEXT``."""
    return [f"{item['kind']} {item['name']}: {item['text']}" for item in found["findings"]]


def account(inside: Kubectl, name: str, folder: Path) -> Path:
    """A kubeconfig of a new service account, which may do nothing yet."""
    inside.run("create", "serviceaccount", name)
    token = inside.run("create", "token", name).stdout.strip()
    given = yaml.safe_load(inside.kubeconfig.read_text(encoding="utf-8"))
    given["users"][0]["user"] = {"token": token}
    given["contexts"][0]["context"]["namespace"] = inside.namespace
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    return path

"""The documents' sessions with kubectl, and ``make cluster``, as a reader would have them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.docs import session
from tests.docs.blocks import REPOSITORY, Step, blocks_of, documents
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.webhook import RunningWebhook

MASKS = session.MASKS | {
    "node": (r"ip-172-32-\d+-\d+\.", "NODE."),
    "launcher's suffix": (r"launcher-\w{5}\b", "launcher-SUFFIX"),
    "server id": (r"\b[0-9a-z]{16}$", "SERVER"),
    "age": (r"\b\d+[smh](?:\d+[smh])?\b", "AGE"),
    "width of columns": (r" +", " "),
    # The scheduler chooses the nodes, and ranks go by node.
    "worker of a rank": (r"^(\d+) demo-worker-\d\b", r"\1 WORKER"),
    "port": (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    "folder": (r"\S+/ultraserver-cluster-\w+", "FOLDER"),
}


def steps(document: str, *beginnings: str) -> list[Step]:
    return [
        step for block in blocks_of(document) for step in block.steps() if step.command.startswith(beginnings)
    ]


@pytest.fixture
def default_namespace(control_plane: ControlPlane, registered_webhook: RunningWebhook) -> Iterator[Kubectl]:
    """The namespace that a reader's kubectl uses, empty before and after."""
    assert registered_webhook.url
    inside = control_plane.kubectl.in_namespace("default")
    yield inside
    inside.run("delete", "mpijobs,jobs,pods", "--all", "--grace-period=0", "--force")


@pytest.mark.parametrize("document", [name for name in documents() if steps(name, "kubectl ")])
def test_a_session_goes_as_shown(
    document: str, control_plane: ControlPlane, default_namespace: Kubectl, tmp_path: Path
) -> None:
    folder = session.folder_with_examples(tmp_path)
    env = {"KUBECONFIG": str(default_namespace.kubeconfig), "KUBERC": "off"}
    for block in blocks_of(document):
        session.write_file(block, folder)
    for step in steps(document, "kubectl "):
        deadline = time.monotonic() + PATIENCE
        while True:
            printed, status = session.run(step.command, folder, path=[str(control_plane.tools)], env=env)
            try:
                assert status == 0, f"{step.where}\n{printed}"
                session.assert_printed(step, printed, MASKS)
                break
            except AssertionError:
                # A reader is slower than the scheduler; a job that is applied is applied once.
                if " apply " in step.command or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        if nodes.SERVER_ID_4 in step.command:
            assert len(set(re.findall(r"[0-9a-z]{16}$", printed, re.MULTILINE))) == 1, printed


def test_make_cluster_prints_what_is_shown_and_stops_cleanly(tools: Path) -> None:
    (shown,) = steps("README.md", "make cluster")
    command = ["make", "--no-print-directory", "--old-file=.venv/.dev", f"BIN={Path(sys.executable).parent}"]
    with subprocess.Popen(
        [*command, "cluster"],
        cwd=REPOSITORY,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C stops everything" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # leaving the context would wait for it
            raise
    assert "nothing is left running" in rest
    session.assert_printed(shown, said, MASKS)
    assert str(tools) in said
